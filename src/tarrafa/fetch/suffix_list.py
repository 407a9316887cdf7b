"""Public suffix list that comes with the installed publicsuffixlist package.

The one bundled with the publicsuffixlist package. The frontier stores its text when a data directory is made and
hands that snapshot to every worker (`parse/public_suffix.py` reads it), so this is asked once and an update never
moves a site.
"""

from pathlib import Path

import publicsuffixlist


def bundled_suffix_list() -> str:
    """The text of the list, as of the installed package."""
    return Path(publicsuffixlist.PSLFILE).read_text(encoding="utf-8")
