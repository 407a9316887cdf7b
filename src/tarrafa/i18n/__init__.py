"""Translations: English in the code and templates, Portuguese in `pt_BR.po`."""

from tarrafa.i18n.translator import (
    ENGLISH,
    LANGUAGES,
    PORTUGUESE,
    Message,
    Translator,
    Value,
    from_text,
    joined,
    message,
    messages,
    to_text,
    translator,
    zoned_moment,
)

__all__ = [
    "ENGLISH", "LANGUAGES", "PORTUGUESE", "Message", "Translator", "Value", "from_text", "joined", "message",
    "messages", "to_text", "translator", "zoned_moment",
]  # fmt: skip
