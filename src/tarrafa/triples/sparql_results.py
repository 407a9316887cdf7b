"""SPARQL results: collects and serializes solutions, triples and booleans of several stores.

Solutions as JSON, XML, CSV or TSV (SPARQL 1.1 Query Results), statements as Turtle, N-Triples, RDF/XML or JSON-LD.
Promises: results of several stores are merged, without duplicates where required; no result has more solutions,
statements or bytes than its limit, and a cut result is marked. Knows nothing of stores.
"""

from typing import Any

import msgspec
from pyoxigraph import (
    BlankNode,
    Literal,
    NamedNode,
    QueryResultsFormat,
    RdfFormat,
    Triple,
    parse_query_results,
    serialize,
)

from tarrafa.errors import QueryLimitExceeded
from tarrafa.parse.rdf.prefixes import PREFIXES

RESULT_BYTES_MAX = 64 << 20
STRING = "http://www.w3.org/2001/XMLSchema#string"

SOLUTION_FORMATS = {
    "json": QueryResultsFormat.JSON,
    "xml": QueryResultsFormat.XML,
    "csv": QueryResultsFormat.CSV,
    "tsv": QueryResultsFormat.TSV,
}
GRAPH_FORMATS = {
    "ttl": RdfFormat.TURTLE,
    "nt": RdfFormat.N_TRIPLES,
    "rdf": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}

RdfTerm = NamedNode | BlankNode | Literal | Triple
_encode = msgspec.json.encode


def formats_for(name: str) -> tuple[str, str]:
    """The formats that a name such as `json` stands for, for solutions and for statements; empty: not for this kind."""
    graph = {"json": "jsonld", "xml": "rdf"}.get(name, name)
    return name if name in SOLUTION_FORMATS else "", graph if graph in GRAPH_FORMATS else ""


class SolutionResults:
    """Solutions, from one store after the other. `distinct`: each one once, across all stores."""

    def __init__(self, most: int, limit: int | None, distinct: bool) -> None:
        self._most, self._limit = most, limit
        self._seen: set[bytes] | None = set() if distinct else None
        self._rows: list[bytes] = []
        self._names: list[str] = []
        self._bytes = 0
        self.is_cut = False

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, found: Any) -> bool:
        """Add the solutions of one store; whether there is room for more."""
        self._names = [variable.value for variable in found.variables]
        for solution in found:
            row = {name: _as_json(term) for name, term in zip(self._names, solution, strict=True) if term is not None}
            written = _encode(row)
            if self._seen is not None:
                if written in self._seen:
                    continue
                self._seen.add(written)
            if self._limit is not None and len(self._rows) >= self._limit:
                return False
            if len(self._rows) >= self._most:
                self.is_cut = True
                return False
            self._rows.append(written)
            self._bytes = _more(self._bytes, len(written))
        return True

    def written(self, name: str) -> bytes:
        body = b'{"head":%b,"results":{"bindings":[%b]}}' % (_encode({"vars": self._names}), b",".join(self._rows))
        if name != "json":
            self._rows.clear()
            body = parse_query_results(body, QueryResultsFormat.JSON).serialize(format=SOLUTION_FORMATS[name]) or b""
        return _bounded(body)


class GraphResults:
    """Triples, from one store after the other, each of them once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._triples: dict[Triple, None] = {}
        self._bytes = 0
        self.is_cut = False

    def __len__(self) -> int:
        return len(self._triples)

    def take(self, found: Any) -> bool:
        """Add the triples of one store; whether there is room for more."""
        for triple in found:
            if triple in self._triples:
                continue
            if len(self._triples) >= self._most:
                self.is_cut = True
                return False
            self._triples[triple] = None
            self._bytes = _more(self._bytes, len(str(triple)))
        return True

    def written(self, name: str) -> bytes:
        plain = serialize(self._triples, format=RdfFormat.N_TRIPLES) or b""
        used = {prefix: iri for prefix, iri in PREFIXES.items() if b"<%b" % iri.encode() in plain}
        return _bounded(serialize(self._triples, format=GRAPH_FORMATS[name], prefixes=used) or b"")


class BooleanResult:
    """True if one of the stores says so."""

    is_cut = False

    def __init__(self) -> None:
        self._is_true = False

    def __len__(self) -> int:
        return 1

    def take(self, found: Any) -> bool:
        self._is_true = bool(found)
        return not self._is_true

    def written(self, name: str) -> bytes:
        body = b'{"head":{},"boolean":%b}' % (b"true" if self._is_true else b"false")
        if name == "json":
            return body
        return parse_query_results(body, QueryResultsFormat.JSON).serialize(format=SOLUTION_FORMATS[name]) or b""


def _as_json(term: RdfTerm) -> dict[str, Any]:
    """By the SPARQL 1.1 Query Results JSON Format; triples as RDF 1.2 has them."""
    if isinstance(term, NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, Triple):
        parts = (("subject", term.subject), ("predicate", term.predicate), ("object", term.object))
        return {"type": "triple", "value": {name: _as_json(part) for name, part in parts}}
    written: dict[str, Any] = {"type": "literal", "value": term.value}
    if term.language:
        written["xml:lang"] = term.language
        if term.direction is not None:
            written["its:dir"] = term.direction.value
    elif term.datatype.value != STRING:
        written["datatype"] = term.datatype.value
    return written


def _more(count: int, added: int) -> int:
    if count + added > RESULT_BYTES_MAX:
        raise QueryLimitExceeded(
            f"the answer is larger than {RESULT_BYTES_MAX >> 20} MB; ask for less, for example with LIMIT"
        )
    return count + added


def _bounded(body: bytes) -> bytes:
    _more(0, len(body))
    return body
