"""Chooses the language of a page: Portuguese or English.

By parameter, then by the cookie that stores the choice, then by `Accept-Language` (RFC 9110 section 12.5.4), then
English. No value of these is an error.
"""

from tarrafa.i18n import ENGLISH, LANGUAGES, Translator, translator

ACCEPT_LANGUAGE_CHARS_MAX = 1_000


def choose_language(chosen: str, remembered: str, accepted: str) -> Translator:
    """`chosen` on this page, `remembered` by the cookie, `accepted` by the browser."""
    for code in (chosen, remembered):
        if code in LANGUAGES:
            return translator(code)
    return translator(next((code for code in accepted_languages(accepted) if code in LANGUAGES), ENGLISH.code))


def accepted_languages(header: str) -> list[str]:
    """The languages of an `Accept-Language`, the most wanted first; regions do not matter."""
    wanted: list[tuple[float, str]] = []
    for part in header[:ACCEPT_LANGUAGE_CHARS_MAX].split(","):
        name, _, weight = part.partition(";")
        quality = _quality(weight)
        if quality > 0:
            wanted.append((quality, name.strip().lower().split("-")[0]))
    return [code for _, code in sorted(wanted, key=lambda item: -item[0])]


def _quality(weight: str) -> float:
    weight = weight.strip()
    if not weight:
        return 1.0
    try:
        return float(weight.removeprefix("q=")) if weight.startswith("q=") else 0.0
    except ValueError:
        return 0.0
