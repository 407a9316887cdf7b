"""Checks the text of a SPARQL query: refuses SERVICE, and bounds length and nesting.

Promises: no text in which Oxigraph would read the keyword SERVICE is accepted (it would send requests to other
machines), whatever strings, comments, names or IRIs stand around it; texts that only mention the word are. Checks for a
query's keywords (FROM, LIMIT, COUNT…) use its *skeleton*: the text without strings, comments and names. Length and
nesting are bounded. No text raises an exception other than `QueryError`. Knows nothing of what a query means.

Oxigraph's grammar has no tokens: a keyword may follow anything at once (`1SERVICE`, `trueSERVICE`), and where a longer
reading fails, a shorter one is tried. So a text can be read in more than one way, and a checker that decides on one of
them can miss the keyword. Tried, and understood by Oxigraph 0.5 as SERVICE:

    FILTER(1<2)SERVICE#>            `<2)SERVICE#>` is no IRI there, but "less than" and a comment
    FILTER(1<2)#> \"""              the same, and what looks like a string afterwards is not one
    SERVICE:x {}                    not the name `SERVICE:x` but the name `:x` after the keyword
    :p ex:SERVICE <…> {}            with PREFIX ex: <http://a:8>, `http://a:8SERVICE` is no IRI, so the name is `ex:`
    \"""a" } SERVICE                an empty string and another one, if the long one never ends, or holds a bad escape

Therefore every way in which a `<` or three quotation marks may be read is followed (each position is checked once, so
the cost is the same), names with the word before their colon are refused, and names with it behind the colon are
accepted if no prefix of the query can make them fail. Escapes of whole characters (`ser\\u0076ice`, SPARQL 1.1 section
19.2), which Oxigraph knows in strings and IRIs only, are checked both ways.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tarrafa.errors import QueryError

QUERY_CHARS_MAX = 100_000
PREFIX_CHARS_MAX = 100  # the end of a longer one is read as a word
NESTING_MAX = 64  # of ( [ {; the parser recurses at each of them, and its time may double

QUERY_KINDS = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
UPDATE_KINDS = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")
NO_SERVICE = (
    "SERVICE is not supported: this endpoint sends no requests to other machines; leave that part of the query out "
    "(and give no prefix that name)"
)

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_U = f"_{_BASE}"
_CHARS = rf"\-{_U}0-9\u00b7\u0300-\u036f\u203f-\u2040"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:[{_U}:0-9]|{_PLX})(?:(?:[{_CHARS}:]|{_PLX})|\.+(?=[{_CHARS}:%\\]))*"

_blank = re.compile(r"[ \t\r\n]+|#[^\r\n]*")
_iri = re.compile(r"<[^\x00-\x20<>\"{}|^`\x7f-\x9f]*>")
_surely_iri = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*://")  # after "less than" a name is possible, but not two slashes
_long = re.compile(r"'''(?:''?(?!')|[^'\\]|\\.)*'''|\"\"\"(?:\"\"?(?!\")|[^\"\\]|\\.)*\"\"\"", re.DOTALL)
_short = re.compile(r"'(?:[^'\\\r\n]|\\.)*'|\"(?:[^\"\\\r\n]|\\.)*\"")
_variable = re.compile(rf"[?$][{_U}0-9][{_U}0-9\u00b7\u0300-\u036f\u203f-\u2040]*")
_node = re.compile(rf"_:[{_U}0-9][{_CHARS}]*")
_PREFIX = rf"[{_BASE}](?:[{_CHARS}]|\.(?=\.*[{_CHARS}])){{0,{PREFIX_CHARS_MAX}}}"
_name = re.compile(rf"((?:{_PREFIX})?):((?:{_LOCAL})?)")
_word = re.compile(r"[A-Za-z0-9_]+")
_codepoint = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_prefix_iri = re.compile(r":(?:[ \t\r\n]|#[^\r\n]*)*<([^>]*)>")
# With any local name appended, such an IRI is still valid.
_safe_prefix = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/?#\\]+/(?:[^\\]*[/#])?|[^/\\][^\\]*[:/#])").fullmatch

_kind = re.compile(r"\s*(?:(?:PREFIX|BASE|VERSION)\s+)*([A-Z]+)")


class SparqlToken(NamedTuple):
    """A piece of a query: a word or a sign in capital letters; " " for a string, a comment, a name, an IRI, a variable
    or blanks."""

    start: int
    end: int
    word: str


class QuerySkeleton(NamedTuple):
    """The words and signs of a query in capital letters, with blanks instead of strings, comments, names and IRIs."""

    text: str

    def has(self, word: str) -> bool:
        return word in self.text

    def count(self, word: str) -> int:
        return self.text.count(word)

    def first(self, pattern: re.Pattern[str]) -> str:
        """The first of these words that occurs; empty: none does."""
        found = pattern.search(self.text)
        return " ".join(found[0].split()) if found else ""

    @property
    def limit(self) -> int | None:
        """The number after LIMIT, of a query without subqueries."""
        found = re.search(r"LIMIT\s*(\d{1,18})", self.text)
        return int(found[1]) if found else None


def check_query(query: str) -> QuerySkeleton:
    """The skeleton of a valid query. Raises QueryError with one sentence for any other."""
    if not query.strip():
        raise QueryError("the query is empty: write one, as in SELECT * { ?s ?p ?o } LIMIT 10")
    if len(query) > QUERY_CHARS_MAX:
        raise QueryError(f"the query is too long: {len(query):,} characters, at most {QUERY_CHARS_MAX:,} are read")
    refuse_service(query)
    skeleton = _skeleton(query)
    _check_nesting(skeleton)
    return QuerySkeleton(skeleton)


def refuse_service(query: str) -> None:
    """Raise QueryError if SERVICE may occur in the text; also for texts that are made of a checked one."""
    decoded = _codepoint.sub(_character, query)
    if mentions_service(query) or (decoded != query and mentions_service(decoded)):
        raise QueryError(NO_SERVICE)


def wrong_kind(query: str) -> str:
    """Why the text is no query at all, by its first keyword; empty if it begins like one."""
    kind = _kind.match(_skeleton(query))
    if kind is None or kind[1].startswith(QUERY_KINDS):
        return ""
    if kind[1] in UPDATE_KINDS:
        return f"{kind[1]}: nothing can be changed here: the triple store follows the crawled pages"
    return f"{kind[1][:40]}: a query begins with {', '.join(QUERY_KINDS[:-1])} or {QUERY_KINDS[-1]}"


def mentions_service(query: str) -> bool:
    """Whether the keyword occurs in any reading of the text."""
    if "service" not in query.lower():
        return False
    names_are_safe = all(map(_safe_prefix, _prefix_iri.findall(query)))
    places, seen = [0], set[int]()
    while places:
        place = places.pop()
        while place < len(query) and place not in seen:
            seen.add(place)
            end, is_word, other = _step(query, place)
            if is_word and _is_keyword(query, place, end, names_are_safe):
                return True
            if other:
                places.append(other)
            place = end
    return False


def _is_keyword(query: str, place: int, end: int, names_are_safe: bool) -> bool:
    """Whether a word or name contains what may be read as the keyword."""
    if "service" not in query[place:end].lower():
        return False
    name = _name.match(query, place)
    return name is None or not names_are_safe or "service" in name[1].lower()


def _step(query: str, place: int) -> tuple[int, bool, int]:
    """The end of the token at this position, whether it is a word or a name, and an alternative position to continue at
    (0: none).

    A string without an end is an error whatever follows: the check continues after its first quotation mark, which
    cannot hide anything.
    """
    sign = query[place]
    if sign == "<":
        found = _iri.match(query, place)
        if found is None:
            return place + 1, False, 0
        is_clear = _surely_iri.match(query, place) or not re.search("[#']", found[0])
        return found.end(), False, 0 if is_clear else place + 1
    if sign in "'\"":
        whole, short = _long.match(query, place), _short.match(query, place)
        if whole is not None:
            return whole.end(), False, place + 2 if "\\" in whole[0] else 0
        return (short.end() if short else place + 1), False, 0
    for skipped in (_blank, _variable, _node):
        found = skipped.match(query, place)
        if found is not None:
            return found.end(), False, 0
    found = _name.match(query, place) or _word.match(query, place)
    return (found.end(), True, 0) if found else (place + 1, False, 0)


def tokens(query: str) -> Iterator[SparqlToken]:
    """The tokens of a text, in the most usual reading."""
    place = 0
    while place < len(query):
        end, is_word, _ = _step(query, place)
        is_sign = end == place + 1 and query[place] not in "'\"#"
        is_language = place > 0 and query[place - 1] == "@"
        is_shown = is_sign or (is_word and not is_language and _name.match(query, place) is None)
        yield SparqlToken(place, end, query[place:end].upper() if is_shown else " ")
        place = end


def _skeleton(query: str) -> str:
    return "".join(token.word for token in tokens(query))


def _check_nesting(skeleton: str) -> None:
    depth = 0
    for sign in skeleton:
        if sign in "([{":
            depth += 1
            if depth > NESTING_MAX:
                raise QueryError(f"the query is nested too deeply: at most {NESTING_MAX} brackets may be open at once")
        elif sign in ")]}":
            depth -= 1


def _character(found: re.Match[str]) -> str:
    number = int(found[1] or found[2], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else found[0]
