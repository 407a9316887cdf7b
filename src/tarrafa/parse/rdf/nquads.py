"""Writes and reads RDF statements as N-Quads, within limits.

A statement is one line of N-Quads. Terms are passed around in N-Quads notation: `<iri>`, `_:b3`, `"text"@pt`.
Promises: for any page the lines are valid N-Quads that any tool reads. Nothing in a term can end the term or begin
another line. Number and length of the lines are bounded; further statements are dropped, and `is_cut` says so. Each
statement is written once. Reading gives back the statements that were written.
Knows nothing of RDFa, JSON-LD or microdata.
"""

import re
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pyoxigraph import Literal, NamedNode

STATEMENTS_MAX = 10_000  # of one page
STATEMENTS_LENGTH_MAX = 2_000_000  # characters, all together
LITERAL_LENGTH_MAX = 32_768  # longer texts are cut; longer typed literals are dropped: a cut would change the value
IRI_LENGTH_MAX = 2_048
LANGUAGE_LENGTH_MAX = 35  # BCP 47 §4.4.1

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_TYPE = f"<{RDF}type>"
XSD_STRING = f"{XSD}string"

# The first is the default and is never written; the others need a language tag, and no tool reads them without one.
_NO_DATATYPES = (XSD_STRING, f"{RDF}langString", f"{RDF}dirLangString")

_never_in_an_iri = re.compile(
    r"[\x00-\x20<>\"{}|\\^`\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]|%(?![0-9A-Fa-f]{2})"
)
# Characters that XML and JSON cannot carry: controls, lone surrogates, non-characters.
_unfit = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_special = re.compile(r'[\\"\n\r]')
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
_UNESCAPED = {escaped: plain for plain, escaped in _ESCAPED.items()}
_statement = re.compile(
    r'(<[^>]*>|_:\S+) (<[^>]*>) (<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:@\S+|\^\^<[^>]*>)?)(?: (<[^>]*>|_:\S+))? \.'
).fullmatch
_escape = re.compile(r"\\[\\\"nr]")


class Statement(NamedTuple):
    """Three terms in N-Quads notation; `graph` where the page itself groups its statements (JSON-LD can)."""

    subject: str
    predicate: str
    object: str
    graph: str = ""


class LiteralValue(NamedTuple):
    """The text, language and datatype of a literal."""

    text: str
    language: str = ""
    datatype: str = XSD_STRING


class StatementSet:
    """Collects the statements of a page."""

    def __init__(self) -> None:
        self._lines: dict[str, Statement] = {}
        self._room = STATEMENTS_LENGTH_MAX
        self._blanks: dict[Hashable, str] = {}
        self._count = 0
        self._names: dict[str, None] = {}
        self.is_cut = False  # the page has more statements, which are left out: the extractor may stop

    @property
    def is_full(self) -> bool:
        """Whether no more statements are accepted."""
        return self._room <= 0 or len(self._lines) >= STATEMENTS_MAX

    @property
    def length(self) -> int:
        """The length of `to_nquads`."""
        return STATEMENTS_LENGTH_MAX - self._room

    def blank_node(self, key: Hashable = None) -> str:
        """A new blank node; with a key, always the same blank node for that key."""
        known = self._blanks.get(key) if key is not None else None
        if known is None:
            known = f"_:b{self._count}"
            self._count += 1
            if key is not None:
                self._blanks[key] = known
        return known

    def add(self, subject: str, predicate: str, value: str, graph: str = "") -> None:
        """Add a statement. The terms come from `iri`, `literal` and `blank_node`."""
        line = f"{subject} {predicate} {value} {graph} ." if graph else f"{subject} {predicate} {value} ."
        if line not in self._lines:
            if self._room <= 0 or len(self._lines) >= STATEMENTS_MAX:  # `is_full`, inlined: it runs for every statement
                self.is_cut = True
                return
            self._lines[line] = Statement(subject, predicate, value, graph)
            self._room -= len(line) + 1
        self._names[value if predicate == RDF_TYPE else predicate] = None

    def take_names(self) -> list[str]:
        """The properties and classes of the statements added since the last call, as terms, also of those that were
        there before."""
        names, self._names = list(self._names), {}
        return names

    def to_nquads(self) -> str:
        """All statements, one per line."""
        return "\n".join((*self._lines, "")) if self._lines else ""

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._lines.values())

    def __len__(self) -> int:
        return len(self._lines)


def iri(text: str) -> str | None:
    """An IRI as a term. Invalid characters are escaped, as browsers do; None if it is still no IRI."""
    if len(text) > IRI_LENGTH_MAX:
        return None
    try:
        return str(NamedNode(text))
    except ValueError:
        pass
    try:
        return str(NamedNode(_never_in_an_iri.sub(_percent, text)))
    except ValueError:
        return None


def _percent(found: re.Match[str]) -> str:
    if found[0] == "%":
        return "%25"
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def literal(text: str, language: str = "", datatype: str = "") -> str | None:
    """A text as a term. `datatype` is an IRI; an invalid language is left out. None: too long for its datatype."""
    if len(text) > LITERAL_LENGTH_MAX:
        if datatype and datatype != XSD_STRING:
            return None
        text = text[:LITERAL_LENGTH_MAX]
    if text.isprintable() and '"' not in text and "\\" not in text:  # the usual case
        quoted = f'"{text}"'
    else:
        quoted = f'"{_special.sub(_escaped, _unfit.sub("�", text))}"'
    if language and _is_language(language):
        return f"{quoted}@{language.lower()}"
    if datatype and datatype not in _NO_DATATYPES:
        written = iri(datatype)
        return f"{quoted}^^{written}" if written else quoted
    return quoted


@lru_cache(1_000)
def _is_language(tag: str) -> bool:
    """Whether the tag is a language tag (BCP 47)."""
    if len(tag) > LANGUAGE_LENGTH_MAX:
        return False
    try:
        Literal("", language=tag)
    except ValueError:
        return False
    return True


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPED[found[0]]


def parse_nquads(text: str) -> Iterator[Statement]:
    """The statements in a text. Lines that `to_nquads` did not write, such as those of another program, are skipped."""
    for line in text.split("\n"):
        found = _statement(line)
        if found:
            yield Statement(found[1], found[2], found[3], found[4] or "")


def literal_value(term: str) -> LiteralValue | None:
    """The parts of a literal; None for an IRI or a blank node."""
    if not term.startswith('"'):
        return None
    quoted, _, rest = term.rpartition('"')
    text = _escape.sub(lambda found: _UNESCAPED[found[0]], quoted[1:]) if "\\" in quoted else quoted[1:]
    if rest.startswith("@"):
        return LiteralValue(text, rest[1:], f"{RDF}langString")
    return LiteralValue(text, "", rest[3:-1] if rest else XSD_STRING)


def iri_of(term: str) -> str:
    """The IRI of a term; empty for a literal or a blank node."""
    return term[1:-1] if term.startswith("<") else ""
