"""Which languages are there?"""

from tarrafa.coordinate.words import Words
from tarrafa.coordinate.words.english import ENGLISH
from tarrafa.coordinate.words.portuguese import PORTUGUESE

LANGUAGES = {words.code: words for words in (ENGLISH, PORTUGUESE)}


def words_of(code: str) -> Words:
    """English where there is no such language."""
    return LANGUAGES.get(code, ENGLISH)
