"""Detects the language that a text shows, with CLD2; normalizes declared language tags.

Promises: a two-letter code (ISO 639-1), or an empty string when the text is too short or too mixed to decide. Of two
languages in a text, the one with more of it is found. `page` takes the declared language where the text shows none, and
`host_profile` that of the site where a page says too little.
Knows nothing of HTML.
"""

import re
from typing import NamedTuple

import pycld2

SAMPLE_LENGTH = 600  # characters; enough for nearly every page, at half the cost of 1,000
SECOND_SAMPLE_LENGTH = (
    1_500  # if the first gave no reliable answer, or two languages; 3,000 find others in .1 % of pages
)
MIXED_PERCENT_MAX = 70  # of a language: with less of it in the sample, more of the text is read
LIKELY_PERCENT_MIN = 40  # of a language in a long text of which CLD2 is not sure: commands, names, two languages

_OLD_CODES = {"iw": "he", "jw": "jv", "in": "id", "ji": "yi", "mo": "ro", "sh": "sr", "nb": "no", "nn": "no"}

_code = re.compile(r"\s*([A-Za-z]{2})(?![A-Za-z])").match
_unfit = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufff0-\uffff]|[^\x00-\uffff]")


class Detection(NamedTuple):
    """The language that a text shows, empty if it shows none; and how many characters of it were read for that."""

    code: str
    chars: int


def detected(text: str) -> Detection:
    """The language that a text shows by itself. A long text is sampled at its beginning, middle and end."""
    sample = _sample(text, SAMPLE_LENGTH)
    code, percent, is_sure = _detected(sample)
    code = code if is_sure else ""
    if len(text) > SAMPLE_LENGTH and not (is_sure and percent >= MIXED_PERCENT_MAX):
        sample = _sample(text, SECOND_SAMPLE_LENGTH)
        second, _, is_sure = _detected(sample)
        code = (is_sure and second) or code
    return Detection(code, len(sample) if code else 0)


def likely(text: str) -> str:
    """The language that a long text has most of, where CLD2 is not sure and nothing else says it; else empty."""
    if len(text) <= SAMPLE_LENGTH:
        return ""
    code, percent, _ = _detected(_sample(text, SECOND_SAMPLE_LENGTH))
    return code if percent >= LIKELY_PERCENT_MIN else ""


def _sample(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    part, middle = length // 3, len(text) // 2
    return f"{text[:part]} {text[middle - part // 2 : middle + part // 2]} {text[-part:]}"


def normalize_tag(tag: str) -> str:
    """The two-letter code of a language tag such as `pt-BR` or `en_US`; empty if it has none."""
    found = _code(tag)
    if not found:
        return ""
    code = found[1].lower()
    return _OLD_CODES.get(code, code)


def _detected(sample: str) -> tuple[str, int, bool]:
    """The language that CLD2 finds most of, its share of the text in percent, and whether CLD2 is sure. Control
    characters and lone surrogates, which CLD2 refuses, are removed."""
    try:
        is_sure, _, details = pycld2.detect(sample, isPlainText=True)
    except (pycld2.error, ValueError):
        try:
            is_sure, _, details = pycld2.detect(_unfit.sub(" ", sample), isPlainText=True)
        except (pycld2.error, ValueError):
            return "", 0, False
    _, code, percent, _ = details[0]
    return (normalize_tag(code), percent, is_sure) if code != "un" else ("", 0, False)


CODES = frozenset(normalize_tag(code) for _, code in pycld2.LANGUAGES) - {"", "xx"}  # codes that CLD2 can detect
_NAMES = {name.lower(): normalize_tag(code) for name, code in pycld2.LANGUAGES}


def code_from_name(text: str) -> str:
    """The code of a typed language: `pt-BR`, `PT`, `Portuguese`; empty if it is unknown."""
    found = normalize_tag(text) or _NAMES.get(text.strip().lower(), "")
    return found if found in CODES else ""
