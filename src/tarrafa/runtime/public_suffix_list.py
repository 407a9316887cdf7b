"""Public suffix list that comes with the installed publicsuffixlist package.

The frontier stores the text of the list when a data directory is made and passes that snapshot to every worker
(`parse/public_suffix.py` reads it). So this list is read once, and an update never moves a site.
"""

from pathlib import Path

import publicsuffixlist


def bundled_suffix_list() -> str:
    """The text of the list in the installed package."""
    return Path(publicsuffixlist.PSLFILE).read_text(encoding="utf-8")
