"""Parameters of the CDX server: names as pywb and the Wayback Machine have them, each with its bounds.

Promises: every value is checked before anything is read; one that is too long or out of range, and an unknown
parameter, raises a `QueryError` that names it. Regular expressions are checked by `cdx_lines`; an unknown field is an
empty one, as in pywb. Nothing here depends on the index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast, get_args

from tarrafa.captures.reader import COUNTED_MAX, KeyRange
from tarrafa.captures.surt import surt
from tarrafa.captures.timestamps import is_timestamp
from tarrafa.errors import QueryError
from tarrafa.i18n import message

URL_CHARS_MAX = 4_000
LIMIT_DEFAULT, LIMIT_MAX = 10_000, 50_000
PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX = 3_000, 20_000
FILTERS_MAX, FILTER_CHARS_MAX = 10, 300
FIELDS_MAX, COLLAPSES_MAX = 20, 3
VALUE_CHARS_SHOWN = 60

MatchType = Literal["exact", "prefix", "host", "domain"]
Output = Literal["text", "json", "cdxj"]
ALIASES = {
    "original": "url", "mimetype": "mime", "statuscode": "status", "u": "url", "m": "mime", "d": "digest",
    "t": "timestamp", "k": "urlkey", "l": "length", "o": "offset", "f": "filename", "s": "status",
}  # fmt: skip
IGNORED = frozenset({"allowFuzzy", "gzip", "fastLatest", "hl"})  # they change nothing here
SAME = {"fields": "fl", "from_ts": "from"}  # two names of one parameter
MANY = frozenset({"filter", "collapse"})
KNOWN = (
    "url", "matchType", "from", "to", "closest", "limit", "sort", "reverse", "filter", "fl", "output", "collapse",
    "collapseTime", "page", "pageSize", "showNumPages", "resolveRevisits",
)  # fmt: skip


class CdxFilter(NamedTuple):
    """`[!][=~]field:value`; without a field the whole line is compared."""

    field: str
    how: Literal["contains", "exact", "regex"]
    value: str
    is_negated: bool


class CdxCollapse(NamedTuple):
    """Of neighbouring captures with equal beginnings of a field, the first is kept. `length` 0: the whole field."""

    field: str
    length: int = 0


@dataclass(frozen=True, slots=True)
class CdxQuery:
    """A checked query. `limit` below 0: the last ones."""

    url: str
    match: MatchType
    keys: KeyRange
    since: str = ""
    until: str = ""
    closest: str = ""
    limit: int = LIMIT_DEFAULT
    reverse: bool = False
    filters: tuple[CdxFilter, ...] = ()
    fields: tuple[str, ...] = ()
    output: Output = "cdxj"
    collapses: tuple[CdxCollapse, ...] = ()
    collapse_time: int = 0
    page: int | None = None
    page_size: int = PAGE_SIZE_DEFAULT
    counts_pages: bool = False
    resolves_revisits: bool = False


@dataclass(slots=True)
class _Given:
    """The parameters as given, each name once but for those of which there may be many."""

    single: dict[str, str] = field(default_factory=dict)
    many: dict[str, list[str]] = field(default_factory=dict)

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        text = self.single.get(name, "")
        if not text:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and least <= int(text) <= most):
            raise QueryError(
                message("{name} must be a number from {least} to {most}.", name=name, least=str(least), most=str(most))
            )
        return int(text)

    def is_on(self, name: str) -> bool:
        text = self.single.get(name, "").lower()
        if text not in {"", "0", "1", "false", "true"}:
            raise QueryError(message("{name} must be true or false.", name=name))
        return text in {"1", "true"}

    def timestamp(self, name: str) -> str:
        text = self.single.get(name, "")
        if text and not is_timestamp(text):
            raise QueryError(message("{name} must be a timestamp of at most 14 digits, such as 20261118.", name=name))
        return text

    def one_of(self, name: str, kinds: Sequence[str]) -> str:
        text = self.single.get(name, "")
        if text and text not in kinds:
            raise QueryError(message("{name} must be one of: {known}.", name=name, known=", ".join(kinds)))
        return text


def parse_cdx_query(parameters: Iterable[tuple[str, str]]) -> CdxQuery:
    """Check the parameters of a request."""
    given = _read(parameters)
    url, match, keys = _range(given)
    sort = given.one_of("sort", ("default", "reverse", "closest"))
    closest, reverse = given.timestamp("closest"), sort == "reverse" or given.is_on("reverse")
    if sort == "closest" and not closest:
        raise QueryError(message("sort=closest needs closest=, a timestamp."))
    page_size = given.integer("pageSize", PAGE_SIZE_DEFAULT, 1, PAGE_SIZE_MAX)
    if given.single.get("limit", "").strip("-0") == "" and "limit" in given.single:
        raise QueryError(message("limit must not be 0."))
    return CdxQuery(
        url,
        match,
        keys,
        since=given.timestamp("from"),
        until=given.timestamp("to"),
        closest=closest,
        limit=given.integer("limit", LIMIT_DEFAULT, -LIMIT_MAX, LIMIT_MAX),
        reverse=reverse,
        filters=tuple(map(_filter, given.many.get("filter", []))),
        fields=_fields(given.single.get("fl", "")),
        output=cast(Output, given.one_of("output", get_args(Output)) or "cdxj"),
        collapses=tuple(map(_collapse, given.many.get("collapse", []))),
        collapse_time=given.integer("collapseTime", 0, 1, 14),
        page=given.integer("page", 0, 0, COUNTED_MAX // page_size) if "page" in given.single else None,
        page_size=page_size,
        counts_pages=given.is_on("showNumPages"),
        resolves_revisits=given.is_on("resolveRevisits"),
    )


def _read(parameters: Iterable[tuple[str, str]]) -> _Given:
    given = _Given()
    for typed, value in parameters:
        name = SAME.get(typed, typed)
        if name in IGNORED:
            continue
        if name not in KNOWN:
            raise QueryError(
                message(
                    "Unknown parameter {name!r}; known ones: {known}.",
                    name=typed[:VALUE_CHARS_SHOWN],
                    known=", ".join(KNOWN),
                )
            )
        most = URL_CHARS_MAX if name == "url" else FILTER_CHARS_MAX
        if len(value) > most:
            raise QueryError(message("{name} may have at most {most} characters.", name=name, most=str(most)))
        if name in MANY:
            given.many.setdefault(name, []).append(value)
        elif given.single.setdefault(name, value) != value:
            raise QueryError(message("{name} is there twice, with different values.", name=name))
    for name, most in (("filter", FILTERS_MAX), ("collapse", COLLAPSES_MAX)):
        if len(given.many.get(name, [])) > most:
            raise QueryError(message("{name} may be there at most {most} times.", name=name, most=str(most)))
    return given


def _range(given: _Given) -> tuple[str, MatchType, KeyRange]:
    """The keys that a URL stands for. `*.a.br` is its domain, `a.br/x*` what begins so, as pywb reads it."""
    url = given.single.get("url", "").strip()
    match = given.one_of("matchType", get_args(MatchType))
    if not match:
        if url.startswith("*."):
            url, match = url[2:], "domain"
        elif url.endswith("*"):
            url, match = url[:-1], "prefix"
    if not url:
        raise QueryError(message("Which URL? The address needs ?url=."))
    kind = cast(MatchType, match or "exact")
    return url, kind, key_range(url, kind)


def key_range(url: str, match: MatchType) -> KeyRange:
    """The keys of a URL, of what begins like it, of its host, or of its domain with all hosts below it."""
    key = surt(url)
    if match == "exact":
        return KeyRange(key, f"{key}\0")
    if match == "prefix":
        for end in "/?":
            key += end if url.endswith(end) and not key.endswith(end) else ""
        return KeyRange(key, key[:-1] + chr(ord(key[-1]) + 1))
    host = key.split(")/")[0]
    if match == "host":
        return KeyRange(f"{host})/", f"{host}*")
    return KeyRange(f"{host})/" if "," in host else f"{host},", f"{host}-")


def _filter(text: str) -> CdxFilter:
    is_negated, rest = text.startswith("!"), text.removeprefix("!")
    how: Literal["contains", "exact", "regex"] = "contains"
    if rest.startswith(("=", "~")):
        how, rest = "exact" if rest[0] == "=" else "regex", rest[1:]
    name, colon, value = rest.partition(":")
    name, value = (ALIASES.get(name, name), value) if colon else ("", rest)
    if not value and how == "regex":
        raise QueryError(message("filter: an expression is missing behind ~."))
    return CdxFilter(name, how, value, is_negated)


def _fields(text: str) -> tuple[str, ...]:
    names = tuple(ALIASES.get(name.strip(), name.strip()) for name in text.split(",")) if text else ()
    if len(names) > FIELDS_MAX:
        raise QueryError(message("{name} may name at most {most} fields.", name="fl", most=str(FIELDS_MAX)))
    return names


def _collapse(text: str) -> CdxCollapse:
    name, _, length = text.partition(":")
    if length and not (length.isascii() and length.isdigit() and 0 < int(length[:6]) <= URL_CHARS_MAX):
        raise QueryError(message("collapse: write a field, or a field and a length: timestamp:8."))
    return CdxCollapse(ALIASES.get(name, name), int(length or 0))
