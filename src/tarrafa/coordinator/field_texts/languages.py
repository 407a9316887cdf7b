"""The languages of the collection texts."""

from tarrafa.coordinator.field_texts import Words
from tarrafa.coordinator.field_texts.english import ENGLISH
from tarrafa.coordinator.field_texts.portuguese import PORTUGUESE

LANGUAGES = {words.code: words for words in (ENGLISH, PORTUGUESE)}


def words_of(code: str) -> Words:
    """English where there is no such language."""
    return LANGUAGES.get(code, ENGLISH)
