"""Detects the language of a text with CLD2; a declared language tag decides where CLD2 is not sure.

Promises: a two-letter code (ISO 639-1), or an empty string when the text is too short or too mixed to decide and the
page declares no language. The text has precedence over its `lang` attribute: English templates with `lang="en"` are
everywhere.
Knows nothing of HTML.
"""

import re

import pycld2

SAMPLE_LENGTH = 600  # characters; enough for nearly every page, at half the cost of 1,000
SECOND_SAMPLE_LENGTH = 3_000  # if the first gave no reliable answer

_OLD_CODES = {"iw": "he", "jw": "jv", "in": "id", "ji": "yi", "mo": "ro", "sh": "sr", "nb": "no", "nn": "no"}

_code = re.compile(r"\s*([A-Za-z]{2})(?![A-Za-z])").match
_unfit = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufff0-\uffff]|[^\x00-\uffff]")


def detect(text: str, hint: str = "") -> str:
    """The language of `text`. `hint` is the declared language (`pt-BR`), and decides where the text does not."""
    sample = text[:SAMPLE_LENGTH]
    found = _detected(sample)
    if not found and len(text) > SAMPLE_LENGTH:
        found = _detected(text[:SECOND_SAMPLE_LENGTH])
    return found or normalize_tag(hint)


def normalize_tag(tag: str) -> str:
    """The two-letter code of a language tag such as `pt-BR` or `en_US`; empty if it has none."""
    found = _code(tag)
    if not found:
        return ""
    code = found[1].lower()
    return _OLD_CODES.get(code, code)


def _detected(sample: str) -> str:
    """The language that CLD2 is sure of. Control characters and lone surrogates, which it refuses, are removed."""
    try:
        reliable, _, details = pycld2.detect(sample, isPlainText=True)
    except (pycld2.error, ValueError):
        try:
            reliable, _, details = pycld2.detect(_unfit.sub(" ", sample), isPlainText=True)
        except (pycld2.error, ValueError):
            return ""
    code = details[0][1]
    return normalize_tag(code) if reliable and code != "un" else ""


CODES = frozenset(normalize_tag(code) for _, code in pycld2.LANGUAGES) - {"", "xx"}  # codes that CLD2 can detect
_NAMES = {name.lower(): normalize_tag(code) for name, code in pycld2.LANGUAGES}


def code_from_name(text: str) -> str:
    """The code of a typed language: `pt-BR`, `PT`, `Portuguese`; empty if it is unknown."""
    found = normalize_tag(text) or _NAMES.get(text.strip().lower(), "")
    return found if found in CODES else ""
