"""The console says the same in two languages, and its templates say nothing by themselves."""

import re
import string
from pathlib import Path

import msgspec

from tarrafa.i18n import LANGUAGES
from tarrafa.server.auth.role_and_csrf_guard import CONSOLE_TEXTS
from tarrafa.server.page_texts.console_english import CONSOLE_ENGLISH
from tarrafa.server.page_texts.console_texts import ConsoleTexts

TEMPLATES = Path(__file__).parents[3] / "src" / "tarrafa" / "server" / "templates" / "console"
SAME_ANYWHERE = re.compile(r"[Tt]arrafa|console|API|URL|pid|Bytes|GHz|m?s|/s|[\W\d_]+").fullmatch  # names and units


def placeholders(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def test_every_language_of_the_site_has_a_console_with_the_same_places_for_values():
    assert set(CONSOLE_TEXTS) == set(LANGUAGES)
    for words in CONSOLE_TEXTS.values():
        for field in msgspec.structs.fields(ConsoleTexts):
            ours, theirs = getattr(CONSOLE_ENGLISH, field.name), getattr(words, field.name)
            if isinstance(ours, str):
                assert theirs
                assert placeholders(ours) == placeholders(theirs), field.name
                assert len(ours) <= 12 or words is CONSOLE_ENGLISH or ours != theirs, f"{field.name} was not translated"
            else:
                assert set(ours) == set(theirs), field.name


def test_no_template_of_the_console_says_anything_by_itself():
    found = sorted(TEMPLATES.glob("*.html"))
    assert found
    for path in found:
        said = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", path.read_text(), flags=re.DOTALL)
        words = re.sub(r"<[^>]*>", "", said).split()
        assert [word for word in words if not SAME_ANYWHERE(word)] == [], path.name
