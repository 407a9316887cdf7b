"""Parses the query language (+, -, quotation marks, OR, site:, after:) into a tree of query nodes.

Promises: any string is a query or one `QueryError` with one sentence, and nothing else. Text from the Web is read in
one pass, with every length and depth bounded.

    rede pesca      all of them, or else some             site:ufmg.br       this host and everything below it
    +rede           must be there                         host:www.a.br      this host only
    -rede           must not be there                     inurl:pesca        in the address
    "a phrase"      these words next to each other        intitle:"o mar"    in the title
    peixe OR mar    one of them, as one unit              filetype:pdf       of this type, or MIME type
    +(a OR b) -(c)  parentheses group parts               lang:pt            in this language
    pesc*           words with this prefix                after:2026-01 before:2026-06-30
    -site:a.br      any filter can be negated             link:http://a.br/  pages that link there
    type:schema:Event, type:Event, type:schema:           that declare such an entity, or use that vocabulary
    type:schema:Event>=2026-01-01                         that declare one of that day or later

An unclosed quotation mark or parenthesis closes at the end; a sign, parenthesis or field name without a value is
ignored. `OR` binds its two adjacent parts; alternatives that are all filters are themselves a filter. Knows nothing of
tantivy; of text analysis only which scripts write no spaces.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from tarrafa.errors import QueryError
from tarrafa.i18n import Message, message
from tarrafa.index.text_analysis import is_unspaced
from tarrafa.parse.rdf.prefixes import expand_prefix
from tarrafa.parse.url import canonical, host_name

QUERY_CHARS_MAX = 1_000
PARTS_MAX = 50
NESTED_MAX = 10
PREFIX_CHARS_MIN = 2
FILE_TYPE_CHARS_MAX = 100
IRI_CHARS_MAX = 500


class Sign(Enum):
    """How a part counts in its group."""

    SHOULD = ""
    MUST = "+"
    MUST_NOT = "-"


@dataclass(frozen=True, slots=True)
class QueryText:
    """A word, or several adjacent words."""

    text: str
    quoted: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class QueryPrefix:
    """Any word with this prefix."""

    text: str


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """A property that a page must have. Dates are seconds since 1970; `value` is as the index holds it."""

    field: str
    value: str


@dataclass(frozen=True)
class QueryGroup:
    """Parts in their typed order. `least`: so many of its optional parts must be there, if more than one."""

    parts: tuple[tuple[Sign, "QueryNode"], ...] = ()
    least: int = 0

    def with_sign(self, sign: Sign) -> "list[QueryNode]":
        return [node for found, node in self.parts if found is sign]

    @cached_property
    def texts(self) -> list[str]:
        """All words and phrases that score, those of groups included."""
        return [node.text for node in self._scoring_nodes() if isinstance(node, QueryText)]

    @property
    def prefixes(self) -> list[str]:
        return [node.text for node in self._scoring_nodes() if isinstance(node, QueryPrefix)]

    def _scoring_nodes(self) -> "Iterator[QueryNode]":
        for sign, node in self.parts:
            if sign is not Sign.MUST_NOT:
                yield from node._scoring_nodes() if isinstance(node, QueryGroup) else (node,)


QueryNode = QueryText | QueryPrefix | QueryFilter | QueryGroup


def is_condition(node: QueryNode) -> bool:
    """Whether a part only filters pages and adds nothing to their score."""
    return isinstance(node, QueryFilter) or (
        isinstance(node, QueryGroup) and bool(node.parts) and all(is_condition(part) for _, part in node.parts)
    )


def parse(text: str, all_words: bool = False) -> QueryGroup:
    """Parse a search. With `all_words`, plain words are all required."""
    return _parsed(text, all_words)


@lru_cache(1_000)  # each shard, and each phase of a search, parses it again, some without the second argument
def _parsed(text: str, all_words: bool) -> QueryGroup:
    if len(text) > QUERY_CHARS_MAX:
        raise QueryError(
            message(
                "The search is too long: {count} characters, at most {most} are read.",
                count=len(text),
                most=QUERY_CHARS_MAX,
            )
        )
    query = _QueryParser(text.translate(_QUOTES), all_words).group(0)
    if not any(sign is not Sign.MUST_NOT for sign, _ in query.parts):
        raise QueryError(
            message("Only things to leave out: add at least one word to look for.")
            if query.parts
            else message("Type at least one word to look for.")
        )
    return query


def with_filters(query: QueryGroup, language: str = "", after: str = "", before: str = "") -> QueryGroup:
    """The query with the filters chosen in the form, checked as if they had been typed."""
    if not (language or after or before):
        return query
    chosen = (("lang", language), ("after", after), ("before", before))
    more = ((Sign.MUST, QueryFilter(name, filter_value(name, value))) for name, value in chosen if value)
    return QueryGroup((*query.parts, *more))


class ScoringSpan(NamedTuple):
    """The position of a scoring part in a text, without its sign, field name and quotation marks."""

    start: int
    end: int
    sign: str
    name: str
    quoted: bool


def scoring_spans(text: str) -> list[ScoringSpan]:
    """The scoring parts of a text: words, phrases, and words for titles. Prefixes and excluded parts do not score; a
    text that is too long has none.
    """
    text, at = text.translate(_QUOTES).rstrip(), 0
    found: list[ScoringSpan] = []
    signs: list[str] = []  # of the enclosing parentheses
    while len(text) <= QUERY_CHARS_MAX and at < len(text):
        match = _token(text, at)
        assert match is not None, "whatever stands there, some part of the pattern takes it"
        at = match.end()
        if match["open"]:
            signs.append(match["open"][:-1])
        elif match["close"]:
            del signs[-1:]
        elif "-" not in (*signs, match["sign"]):
            kind = "quoted" if match["quoted"] is not None else "bare"
            name, (start, end) = (match["name"] or "").lower(), match.span(kind)
            if start < end and name in ("", "intitle") and not (kind == "bare" and text[end - 1] == "*"):
                found.append(ScoringSpan(start, end, match["sign"] or "", name, kind == "quoted"))
    return found


_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"'))
_has_letter = re.compile(r"[^\W_]").search
_words = re.compile(r"[^\W_]+").findall


class _QueryParser:
    """Parses the text once, from left to right."""

    def __init__(self, text: str, all_words: bool) -> None:
        self._text, self._plain = text.rstrip(), Sign.MUST if all_words else Sign.SHOULD
        self._at = self._count = 0

    def group(self, depth: int) -> QueryGroup:
        """The parts up to the closing parenthesis, or the end."""
        if depth > NESTED_MAX:
            raise QueryError(
                message("Too many parentheses inside each other: at most {most} are read.", most=NESTED_MAX)
            )
        units: list[list[tuple[Sign | None, QueryNode]]] = []  # each a list of alternatives
        joined = False
        while (match := self._next()) is not None:
            if match["close"]:
                if depth:
                    break
                continue
            if match["or"]:
                joined = bool(units)
                continue
            unit = self._unit(match, depth)
            if unit is None:
                continue
            if joined:
                units[-1].append(unit)
            else:
                units.append([unit])
            joined = False
        return QueryGroup(tuple(self._part(alternatives) for alternatives in units))

    def _next(self) -> re.Match[str] | None:
        if self._at >= len(self._text):
            return None
        match = _token(self._text, self._at)
        assert match is not None, "whatever stands there, some part of the pattern takes it"
        self._at = match.end()
        return match

    def _unit(self, match: re.Match[str], depth: int) -> tuple[Sign | None, QueryNode] | None:
        """An optional sign, and the part after it; None for an empty part."""
        node: QueryNode | None
        if match["open"]:
            sign, node = match["open"][:-1], self.group(depth + 1)
            if not any(found is not Sign.MUST_NOT for found, _ in node.parts):
                if node.parts:
                    raise QueryError(
                        message("Only things to leave out in a pair of parentheses: add a word to look for.")
                    )
                return None
            if len(node.parts) == 1 and node.parts[0][0] is not Sign.MUST_NOT:
                node = node.parts[0][1]
        else:
            sign, node = match["sign"], self._node(match)
        if node is None:
            return None
        self._count += 1
        if self._count > PARTS_MAX:
            raise QueryError(
                message("The search has too many parts: at most {most} words and phrases are read.", most=PARTS_MAX)
            )
        return Sign(sign) if sign else None, node

    def _part(self, alternatives: list[tuple[Sign | None, QueryNode]]) -> tuple[Sign, QueryNode]:
        sign, node = alternatives[0]
        if len(alternatives) > 1:
            if any(other is Sign.MUST_NOT for other, _ in alternatives[1:]):
                raise QueryError(message("OR joins things to look for: leave the minus sign out, or leave OR out."))
            node = QueryGroup(tuple((Sign.SHOULD, one) for _, one in alternatives))
        return sign or (Sign.MUST if is_condition(node) else self._plain), node

    def _node(self, match: re.Match[str]) -> QueryNode | None:
        body = match["quoted"] if match["quoted"] is not None else match["bare"] or ""
        name = (match["name"] or "").lower()
        if body.endswith(":") and body[:-1].lower() in FILTERS:  # a filter without a value
            name, body = body[:-1].lower(), ""
        if name:
            return QueryFilter(name, filter_value(name, body))
        if not _has_letter(body):
            return None
        if match["quoted"] is None and body.endswith("*"):
            return _prefix(body)
        return _text(body, match["quoted"] is not None)


def _text(body: str, quoted: bool) -> QueryNode:
    """Words; or a letter of a script without spaces, which is searched inside of words, too."""
    text = QueryText(body, quoted)
    if len(body) != 1 or not is_unspaced(body):
        return text
    return QueryGroup(((Sign.SHOULD, text), (Sign.SHOULD, QueryPrefix(body))))


def _prefix(body: str) -> QueryNode:
    *before, last = _words(body)
    if is_unspaced(last):  # is found as a part of longer words anyway
        return _text(body.rstrip("*"), True)
    if len(last) < PREFIX_CHARS_MIN:
        raise QueryError(
            message(
                "A beginning of a word needs at least {least} letters before the star: ca*.", least=PREFIX_CHARS_MIN
            )
        )
    if not before:
        return QueryPrefix(last)
    return QueryGroup(((Sign.MUST, QueryText(" ".join(before))), (Sign.MUST, QueryPrefix(last))))


# -- the values of filters, as the index holds them --------------------------------------------------------------------

_language = re.compile(r"[a-zA-Z]{2,3}([-_]\w+)*").fullmatch
_file_type = re.compile(r"\.?[\w+-]+|[\w.+-]+/[\w.+*-]+", re.ASCII).fullmatch
_class = re.compile(
    r"(?P<class>[\w.-]+|\w[\w.-]*:(?://\S*?|[^\s<>=]*))(?:(?P<compared>[<>]=?|=)(?P<day>[0-9]{4}(?:-[0-9]{1,2}){0,2}))?"
).fullmatch
_date = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?", re.ASCII).fullmatch


def filter_value(name: str, body: str) -> str:
    """The value of a filter as the index holds it."""
    value = FILTERS[name].read(name, body)
    if value is None:
        raise QueryError(Message(FILTERS[name].wanted.text, {"name": name, "got": repr(body[:40])}))
    return value


def _language_value(name: str, body: str) -> str | None:
    return re.split(r"[-_]", body, maxsplit=1)[0].lower() if _language(body) else None


def _host_value(name: str, body: str) -> str | None:
    typed = body.strip().rstrip("/").strip(".")
    url = canonical(typed if "://" in typed else f"http://{typed}/") if typed else None
    if url is None:
        return None
    if "://" not in typed and urlsplit(url).path != "/":  # the pasted URL of a page means its host
        raise QueryError(
            message(
                "{name}: takes a host name alone, as in {name}:{host}; for a part of it, add inurl:.",
                name=name,
                host=host_name(url),
            )
        )
    return host_name(url)


def _words_value(name: str, body: str) -> str | None:
    return body if _has_letter(body) else None


def _type_value(name: str, body: str) -> str | None:
    return body.lower().removeprefix(".") if len(body) <= FILE_TYPE_CHARS_MAX and _file_type(body) else None


def _date_value(name: str, body: str) -> str | None:
    """The first second of the day, month or year: `before` excludes it, `after` includes it."""
    match = _date(body)
    try:
        year, month, day = (int(part or 1) for part in match.groups()) if match else (0, 0, 0)
        return str(int(datetime(year, month, day, tzinfo=UTC).timestamp()))
    except (ValueError, OverflowError):
        return None


def _class_value(name: str, body: str) -> str | None:
    """The entity type as the index holds it and, after a space, the comparison with a day."""
    match = _class(body)
    if match is None or len(body) > IRI_CHARS_MAX:
        return None
    typed, compared, day = match["class"], match["compared"] or "", match["day"] or ""
    kind = expand_prefix(typed) if ":" in typed else f":{typed}"
    if kind is None:
        raise QueryError(
            message(
                "type: does not know the prefix of {got}: write the whole address, in quotation marks.",
                got=repr(typed[:40]),
            )
        )
    day = "-".join(part.zfill(2) for part in day.split("-") if part)
    return f"{kind.lower()} {compared}{day}".rstrip()


def _link_value(name: str, body: str) -> str | None:
    return canonical(body if "://" in body else f"http://{body}") if body.strip() else None


class FilterSyntax(NamedTuple):
    """Reads the value of a filter, None if it is not valid; the message then says what is wanted."""

    read: Callable[[str, str], str | None]
    wanted: Message


_HOST = FilterSyntax(_host_value, message("{name}: needs a host name such as {name}:example.br, not {got}."))
_WORDS = FilterSyntax(_words_value, message("{name}: needs a word such as {name}:pesca, not {got}."))
_DATE = FilterSyntax(_date_value, message("{name}: needs a date such as {name}:2026-01-31, not {got}."))
FILTERS: dict[str, FilterSyntax] = {
    "site": _HOST,
    "host": _HOST,
    "inurl": _WORDS,
    "intitle": _WORDS,
    "filetype": FilterSyntax(
        _type_value, message("filetype: needs a type such as filetype:pdf or filetype:text/html, not {got}.")
    ),
    "lang": FilterSyntax(
        _language_value, message("lang: needs a language code such as lang:pt or lang:en, not {got}.")
    ),
    "before": _DATE,
    "after": _DATE,
    "link": FilterSyntax(_link_value, message("link: needs a URL such as link:http://www.example.br/, not {got}.")),
    "type": FilterSyntax(
        _class_value,
        message(
            "type: needs a class such as type:schema:Event or type:Event, perhaps with a day of it as in "
            "type:schema:Event>=2026-01-31, not {got}."
        ),
    ),
}

_token = re.compile(rf"""\s*(?:
      (?P<open>[+-]?\()  | (?P<close>\))  | (?P<or>(?:OR|\|)(?=[\s()"]|$))
    | (?P<sign>[+-])?(?:(?P<name>(?i:{"|".join(FILTERS)})):)?(?:"(?P<quoted>[^"]*)(?:"|$)|(?P<bare>[^\s"()]+))
    | \S
    )""", re.VERBOSE).match  # fmt: skip
