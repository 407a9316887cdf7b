"""Translates the interface: gettext for sentences, Babel for numbers, sizes and names of languages.

English is written where it is used, in the code and in the templates; `pt_BR.po` holds the Portuguese. A `Message` is
a sentence that is not in words yet: its English text is the key, its values travel beside it, and a door (page,
command, report) renders it with the translator of its reader. Promises: a value is never read as part of a sentence;
a sentence without a translation is rendered in English. Knows nothing of HTTP and templates.
"""

from tarrafa.i18n.translator import (
    ENGLISH,
    LANGUAGES,
    PORTUGUESE,
    Message,
    Translator,
    Value,
    joined,
    message,
    messages,
    translator,
    zoned_moment,
)

__all__ = [
    "ENGLISH", "LANGUAGES", "PORTUGUESE", "Message", "Translator", "Value", "joined", "message", "messages",
    "translator", "zoned_moment",
]  # fmt: skip
