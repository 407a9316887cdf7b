"""What does this person want to find?

Promises: any string gives a `Query` or one `QueryError` with a sentence for the person who typed it; nothing else is
ever raised. Pure.

    words           any of them, the more the better      site:ufmg.br    this host and everything below it
    +word           must be there                         host:www.a.br   this host only
    -word           must not be there                     lang:pt         pages in this language
    "a phrase"      these words next to each other        -site:a.br      anything else

An unclosed quote closes at the end; a sign or a name that leads nowhere is a word like any other.
Knows nothing of tantivy or of how words are analysed.
"""

import re
from dataclasses import dataclass, field

from tarrafa.errors import QueryError
from tarrafa.parse.url import canonical, host_name

QUERY_CHARS_MAX = 1_000
CLAUSES_MAX = 50

FIELDS = ("site", "host", "lang")
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"'))
_field = re.compile(rf"({'|'.join(FIELDS)}):", re.IGNORECASE).match
_blank = re.compile(r"\s*").match
_bare = re.compile(r'[^\s"]+').match
_sayable = re.compile(r"[^\W_]").search
_language = re.compile(r"[a-zA-Z]{2,3}([-_]\w+)*").fullmatch


@dataclass(frozen=True, slots=True)
class Filter:
    """A property that a page must have, or must not have."""

    field: str
    value: str
    negated: bool = False


@dataclass(slots=True)
class Query:
    """What is asked for. Each text is a word or a phrase; several words in one text stand next to each other."""

    some: list[str] = field(default_factory=list)
    must: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    filters: list[Filter] = field(default_factory=list)

    @property
    def sought(self) -> list[str]:
        """All texts that speak for a page."""
        return self.must + self.some


def parse(text: str, all_words: bool = False) -> Query:
    """Read a search. With `all_words`, plain words must all be there."""
    if len(text) > QUERY_CHARS_MAX:
        raise QueryError(f"The search is too long: {len(text):,} characters, at most {QUERY_CHARS_MAX:,} are read.")
    query, clauses = Query(), 0
    for sign, name, body in _clauses(text.translate(_QUOTES)):
        clauses += 1
        if clauses > CLAUSES_MAX:
            raise QueryError(f"The search has too many parts: at most {CLAUSES_MAX} words and phrases are read.")
        if name:
            query.filters.append(Filter(name, _value(name, body), negated=sign == "-"))
        elif not _sayable(body):
            continue
        elif sign == "-":
            query.never.append(body)
        elif sign == "+" or all_words:
            query.must.append(body)
        else:
            query.some.append(body)
    if not query.sought and all(known.negated for known in query.filters):
        raise QueryError(
            "Only things to leave out: add at least one word to look for."
            if query.never or query.filters
            else "Type at least one word to look for."
        )
    return query


def _clauses(text: str) -> list[tuple[str, str, str]]:
    """(sign, field name, body) of each part, from left to right."""
    found, at = [], 0
    while (at := _end(_blank(text, at))) < len(text):
        sign = name = ""
        if text[at] in "+-":
            sign, at = text[at], at + 1
        match = _field(text, at)
        if match is not None:
            name, at = match[1].lower(), match.end()
        if text.startswith('"', at):
            close = text.find('"', at + 1)
            close = len(text) if close < 0 else close
            body, at = text[at + 1 : close], close + 1
        else:
            word = _bare(text, at)
            body, at = (word[0], word.end()) if word else ("", at)
        if body or name:
            found.append((sign, name, body))
    return found


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "a pattern that matches nothing at least"
    return match.end()


def _value(name: str, body: str) -> str:
    """The value of a field as the index holds it."""
    if name == "lang":
        if not _language(body):
            raise QueryError(f"lang: needs a language code such as lang:pt or lang:en, not {body[:40]!r}.")
        return re.split(r"[-_]", body, maxsplit=1)[0].lower()
    typed = body.strip().rstrip("/").strip(".")
    url = canonical(typed if "://" in typed else f"http://{typed}/") if typed else None
    if url is None:
        raise QueryError(f"{name}: needs a host name such as {name}:example.br, not {body[:40]!r}.")
    return host_name(url)
