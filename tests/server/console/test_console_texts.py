"""Every sentence of a console template is one that can be translated."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).parents[3] / "src" / "tarrafa" / "server" / "templates" / "console"
SAME_ANYWHERE = re.compile(r"[Tt]arrafa|console|API|URL|pid|Bytes|GHz|m?s|/s|[\W\d_]+").fullmatch  # names and units


def test_no_template_of_the_console_says_anything_by_itself():
    found = sorted(TEMPLATES.glob("*.html"))
    assert found
    for path in found:
        said = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)
        words = re.sub(r"<[^>]*>", "", said).split()
        assert [word for word in words if not SAME_ANYWHERE(word)] == [], path.name
