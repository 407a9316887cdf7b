"""Answers a CDX query: reads the captures, filters, collapses, sorts and limits them, and writes the lines.

The steps and their order are pywb's: revisits are resolved, then filters, then dates, then what is collapsed, then the
order and the limit. Promises: the work is bounded: rows by `reader.ROWS_READ_MAX`, lines by `cdx_params.LIMIT_MAX`,
expressions by the automaton of SQLite's extension, whose time is linear in the text (Python's `re` may need a lifetime
for 30 letters). What is hidden in `reader` is hidden here.
"""

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import apsw
from apsw import sqlite_extra

from tarrafa.captures.cdx_params import CdxFilter, CdxQuery
from tarrafa.captures.reader import REVISIT_MIME, Capture, CapturesReader, RowRange
from tarrafa.captures.timestamps import earliest, latest, seconds
from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.runtime.sqlite import rows

ERROR_CHARS_MAX = 100
BATCH_LINES = 100  # whose fields are matched by one statement
ORIGINAL_FIELDS = ("length", "offset", "filename")

CdxFields = dict[str, str]  # of a line; the key and the time come first


def cdx_lines(reader: CapturesReader, query: CdxQuery, *, with_files: bool) -> Iterator[str]:
    """The lines of an answer. Without files no line says where a record is."""
    write = _writer(query)
    return (write(found) for found in cdx_fields(reader, query, with_files=with_files))


def cdx_fields(reader: CapturesReader, query: CdxQuery, *, with_files: bool) -> Iterator[CdxFields]:
    """The same as fields by name."""
    page = None if query.page is None else RowRange(query.page_size, query.page * query.page_size)
    needs_order = bool(query.closest or query.collapses or query.collapse_time or query.resolves_revisits or page)
    reads_backwards = not needs_order and query.reverse != (query.limit < 0)
    is_one_key = query.match == "exact" and not query.resolves_revisits and page is None
    captures = reader.scan(
        query.keys,
        reverse=reads_backwards,
        since=earliest(query.since) if query.since and is_one_key else "",
        until=latest(query.until) if query.until and is_one_key else "",
        page=page,
    )
    found: Iterator[CdxFields] = (_fields_of(capture, with_files=with_files) for capture in captures)
    if query.resolves_revisits:
        found = _with_originals(found, with_files=with_files)
    found = _collapsed(_between(_filtered(found, query.filters), query), query)
    return _in_order(found, query, reads_backwards)


def count_pages(reader: CapturesReader, query: CdxQuery) -> int:
    """The number of pages of the range, of so many captures before filters."""
    return -(-reader.count(query.keys) // query.page_size)


def _fields_of(capture: Capture, *, with_files: bool) -> CdxFields:
    return {"urlkey": capture.urlkey, "timestamp": capture.timestamp} | capture.fields(with_files=with_files)


def _with_originals(found: Iterator[CdxFields], *, with_files: bool) -> Iterator[CdxFields]:
    """Revisits have type and status of the first capture with their digest, and `orig.` fields say where that is."""
    originals: dict[str, CdxFields] = {}
    names = [name for name in ORIGINAL_FIELDS if with_files or name == "length"]
    for one in found:
        original = None
        if one["digest"]:
            original = originals.get(one["digest"])
            if original is None and one.get("mime") != REVISIT_MIME:
                originals[one["digest"]] = one
        if original is None or one.get("mime") != REVISIT_MIME:
            yield one | {f"orig.{name}": "-" for name in names}
        else:
            resolved = {"mime": original.get("mime", ""), "status": original.get("status", "")}
            yield one | resolved | {f"orig.{name}": original[name] for name in names}


# -- filters -----------------------------------------------------------------------------------------------------------


def _filtered(found: Iterator[CdxFields], filters: Sequence[CdxFilter]) -> Iterator[CdxFields]:
    for one in filters:
        found = _by_expression(found, one) if one.how == "regex" else filter(_predicate(one), found)
    return found


def _text_of(line: CdxFields, name: str) -> str:
    return line.get(name, "") if name else _cdxj(line)


def _predicate(one: CdxFilter) -> Callable[[CdxFields], bool]:
    if one.how == "exact":
        return lambda line: (_text_of(line, one.field) == one.value) != one.is_negated
    return lambda line: (one.value in _text_of(line, one.field)) != one.is_negated


def _by_expression(found: Iterator[CdxFields], one: CdxFilter) -> Iterator[CdxFields]:
    """The lines whose field begins with a match."""
    matcher = ExpressionMatcher(one.value)
    while lines := list(islice(found, BATCH_LINES)):
        matches = matcher.matches([_text_of(line, one.field) for line in lines])
        yield from (line for line, matched in zip(lines, matches, strict=True) if matched != one.is_negated)


class ExpressionMatcher:
    """Matches the beginnings of texts by an expression of SQLite's `regexp` extension."""

    def __init__(self, expression: str) -> None:
        self._connection = apsw.Connection(":memory:")
        sqlite_extra.load(self._connection, "regexp")
        self._expression = f"^({expression})"
        try:
            self.matches([""])
        except apsw.Error as error:
            shown = str(error)[:ERROR_CHARS_MAX]
            raise QueryError(message("filter: the expression cannot be read: {error}.", error=shown)) from None

    def matches(self, texts: Sequence[str]) -> list[bool]:
        sql = "SELECT regexp(?1, value) FROM json_each(?2)"
        return [bool(found) for (found,) in rows(self._connection, sql, (self._expression, json.dumps(texts)))]


def _between(found: Iterator[CdxFields], query: CdxQuery) -> Iterator[CdxFields]:
    if not (query.since or query.until):
        return found
    first, last = earliest(query.since), latest(query.until)
    return (one for one in found if first <= one["timestamp"] <= last)


def _collapsed(found: Iterator[CdxFields], query: CdxQuery) -> Iterator[CdxFields]:
    if query.collapse_time:
        length = query.collapse_time
        found = _first_of_equals(found, lambda one: (one["timestamp"][:length], one.get("status", "")))
    for name, length in query.collapses:
        end = length or None
        found = _first_of_equals(found, lambda one, name=name, end=end: _text_of(one, name)[:end])  # type: ignore[misc]
    return found


def _first_of_equals(found: Iterator[CdxFields], key: Callable[[CdxFields], object]) -> Iterator[CdxFields]:
    last: object = None
    for one in found:
        if (present := key(one)) != last:
            last = present
            yield one


# -- order and limit ---------------------------------------------------------------------------------------------------


def _in_order(found: Iterator[CdxFields], query: CdxQuery, reads_backwards: bool) -> Iterator[CdxFields]:
    """The lines in their order, limited. With a limit below 0 the last ones of that order."""
    most = abs(query.limit)
    if query.closest:
        at = seconds(query.closest)
        if query.limit > 0:
            return iter(heapq.nsmallest(most, found, key=lambda one: abs(seconds(one["timestamp"]) - at)))
        ordered = sorted(found, key=lambda one: abs(seconds(one["timestamp"]) - at))
        return iter(ordered[-most:])
    if reads_backwards:
        some = islice(found, most)
        return some if query.reverse else reversed(list(some))
    if query.reverse:
        return reversed(list(islice(found, most))) if query.limit < 0 else reversed(deque(found, most))
    return iter(deque(found, most)) if query.limit < 0 else islice(found, most)


# -- writing -----------------------------------------------------------------------------------------------------------


def _writer(query: CdxQuery) -> Callable[[CdxFields], str]:
    names = query.fields
    if query.output == "json":
        return lambda one: json.dumps(one if not names else {name: one[name] for name in names if name in one}) + "\n"
    if query.output == "text":
        return lambda one: " ".join([one.get(name, "-") or "-" for name in names or one]) + "\n"
    return lambda one: _cdxj(one, names) + "\n"


def _cdxj(line: CdxFields, names: Sequence[str] = ()) -> str:
    rest = {name: value for name, value in line.items() if name not in ("urlkey", "timestamp")}
    if names:
        rest = {name: rest[name] for name in names if name in rest}
    return f"{line['urlkey']} {line['timestamp']} {json.dumps(rest)}"
