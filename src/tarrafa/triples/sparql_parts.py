"""Answers a SELECT over all parts of a triple store at once: aggregates, ORDER BY and OFFSET.

The pattern of the query is asked of each part. The solutions are gathered in a store of their own, one node for each,
and the rest of the query (SELECT expressions, GROUP BY, HAVING, ORDER BY, LIMIT, VALUES) is asked of that store.
Promises: the result is that of one store that holds the solutions of all parts, for every aggregate: none is merged
from partial results. At most SOLUTIONS_MAX solutions are gathered; a query that needs more is refused. What a part
cannot answer alone (MINUS, EXISTS, a query inside another, statements) is refused, never answered wrongly.
Knows nothing of results and formats.

Where only the number of equal solutions matters (COUNT, MIN, MAX, SAMPLE, DISTINCT), each part counts them, and
COUNT(*) becomes the sum of these counts: `SELECT ?class (COUNT(*) AS ?n) { ?x a ?class } GROUP BY ?class` gathers one
solution per class and part. SUM, AVG and GROUP_CONCAT gather every solution. Solutions are no VALUES clause, because
that cannot hold blank nodes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, QueryBoolean, QuerySolutions, QueryTriples, Store

from tarrafa.errors import QueryError, QueryLimitExceeded
from tarrafa.parse.rdf.nquads import XSD
from tarrafa.parse.rdf.prefixes import PREFIXES
from tarrafa.triples.sparql_check import QuerySkeleton, refuse_service, tokens

SOLUTIONS_MAX = 200_000
_ROW = "urn:tarrafa:row:"
_INTEGER = NamedNode(f"{XSD}integer")
_AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
_COUNTED_ALIKE = frozenset({"MIN", "MAX", "SAMPLE"})  # equal solutions change nothing

# Keywords for which the parts must be asked together, and those that this module cannot answer.
_together = re.compile(
    r"\b(?:COUNT|SUM|MIN|MAX|AVG|SAMPLE|GROUP_CONCAT)\s*\(|GROUP\s*BY|HAVING|ORDER\s*BY|OFFSET|MINUS|EXISTS"
)
_counted_variable = re.compile(r"COUNT\s*\(\s*[?$]([^\s(){}]+)\s*\)", re.IGNORECASE).fullmatch
_apart = re.compile(r"MINUS|EXISTS")
_other_kinds = re.compile("CONSTRUCT|DESCRIBE|ASK")

QueryResults = QuerySolutions | QueryBoolean | QueryTriples
AskPart = Callable[[str], QueryResults]  # asks one part, with the dataset of the request


class _Clauses(NamedTuple):
    """The text of a SELECT query in pieces. `select` has everything from behind the keyword on."""

    prologue: str
    select: str
    dataset: str
    pattern: str
    rest: str


class _Aggregate(NamedTuple):
    """An aggregate in a text, from its name to the closing bracket, and the words and signs in it."""

    start: int
    end: int
    name: str
    words: tuple[str, ...]
    counted: str = ""  # the variable of COUNT(?variable)

    @property
    def is_alike(self) -> bool:
        """Whether the number of equal solutions is enough for this aggregate."""
        if self.name in _COUNTED_ALIKE or self.words[:1] == ("DISTINCT",):
            return not self.counts_wholes
        return self.name == "COUNT" and (self.words == ("*",) or bool(self.counted))

    @property
    def counts_wholes(self) -> bool:
        return self.name == "COUNT" and self.words == ("DISTINCT", "*")


def needs_all_parts(skeleton: QuerySkeleton, count: int) -> bool:
    """Whether the parts must be asked together. Raises QueryError for queries that they cannot answer."""
    is_select = not skeleton.first(_other_kinds)
    found = skeleton.first(_apart if is_select else _together)
    if not found and skeleton.count("SELECT") > is_select:
        found = "a query inside another"
    if not found and skeleton.limit is not None and not is_select:
        found = "LIMIT of statements"
    if found:
        raise _refusal(found.rstrip(" ("), count)
    return bool(skeleton.first(_together))


def _refusal(name: str, count: int) -> QueryError:
    return QueryError(
        f"{name}: the store has {count} parts, and this needs all of them at once, which is not possible; "
        f"query one part after the other (part=1-of-{count}), or leave it out"
    )


def query_together(text: str, parts: Sequence[AskPart]) -> QuerySolutions:
    """The solutions of a query that `needs_all_parts`."""
    Store().query(text, prefixes=PREFIXES)  # its errors have their places in this text
    outer = _OuterQuery(_split(text, len(parts)))
    rows = Store()
    rows.bulk_extend(outer.statements(_solutions(outer.inner_text(), parts), len(parts)))
    rest = outer.text()
    refuse_service(rest)
    found = rows.query(rest, prefixes=PREFIXES)
    assert isinstance(found, QuerySolutions)
    return found


def _solutions(text: str, parts: Iterable[AskPart]) -> Iterator[QuerySolutions]:
    for ask in parts:
        found = ask(text)
        assert isinstance(found, QuerySolutions)
        yield found


class _OuterQuery:
    """What is asked of the gathered solutions."""

    def __init__(self, clauses: _Clauses) -> None:
        self._clauses = clauses
        mark = "tarrafa"
        while mark in f"{clauses.select}{clauses.rest}":
            mark += "_"
        self._row, self._times, self._whole = (f"?{mark}_{name}" for name in ("row", "times", "whole"))
        texts = clauses.select, clauses.rest
        aggregates = [one for text in texts for one in _aggregates(text)]
        is_grouped = bool(aggregates) or any(one.word in ("GROUP", "HAVING") for one in tokens(clauses.rest))
        self._is_counted = is_grouped and all(one.is_alike for one in aggregates)
        self._needs_whole = any(one.counts_wholes for one in aggregates)
        last = [one for one in tokens(clauses.select) if one.word != " "][-1:]
        self._star = last[0] if last and last[0].word == "*" else None
        self._names: list[str] = []
        self._always, self._ever = set[str](), set[str]()  # variables that every solution has, or any

    def inner_text(self) -> str:
        """The query for each part: the variables that the rest of the query uses, with the number of equal solutions
        where that is enough."""
        clauses = self._clauses
        head = f"{clauses.prologue} SELECT"
        if self._star is not None or self._needs_whole:
            return f"{head} * {clauses.dataset} WHERE {clauses.pattern}"
        variables = " ".join(f"?{name}" for name in _variables(clauses.select, clauses.rest))
        if not self._is_counted:
            return f"{head} {variables or '*'} {clauses.dataset} WHERE {clauses.pattern}"
        grouping = f"GROUP BY {variables}" if variables else ""
        return f"{head} {variables} (COUNT(*) AS {self._times}) {clauses.dataset} WHERE {clauses.pattern} {grouping}"

    def statements(self, found: Iterable[QuerySolutions], count: int) -> Iterator[Quad]:
        """The solutions as statements; their variables are known afterwards."""
        wholes: dict[object, int] = {}
        number = 0
        for solutions in found:
            names = [variable.value for variable in solutions.variables]
            if not self._names:
                self._names, self._always = names, set(names)
            places = [NamedNode(f"{_ROW}{place}") for place in range(len(names))]
            for solution in solutions:
                number += 1
                if number > SOLUTIONS_MAX:
                    raise QueryLimitExceeded(
                        f"the query has more than {SOLUTIONS_MAX:,} solutions in the {count} parts of the store, which "
                        f"is more than can be gathered; ask for less, or query one part after the other "
                        f"(part=1-of-{count})"
                    )
                row, terms = BlankNode(), list(solution)
                if self._needs_whole:
                    whole = wholes.setdefault(tuple(terms), len(wholes))
                    yield Quad(row, NamedNode(f"{_ROW}whole"), Literal(str(whole), datatype=_INTEGER))
                yield Quad(row, NamedNode(f"{_ROW}number"), Literal(str(number), datatype=_INTEGER))
                for name, place, term in zip(names, places, terms, strict=True):
                    if term is None:
                        self._always.discard(name)
                    else:
                        self._ever.add(name)
                        yield Quad(row, place, term)

    def text(self) -> str:
        """The rest of the query, over the gathered solutions."""
        always, sometimes = [f"{self._row} <{_ROW}number> {self._row}_number ."], []
        for place, name in enumerate(self._names):
            told = f"{self._row} <{_ROW}{place}> ?{name} ."
            if name in self._always:
                always.append(told)
            elif name in self._ever:  # others are the names of new values
                sometimes.append(f"OPTIONAL {{ {told} }}")
        if self._needs_whole:
            always.append(f"{self._row} <{_ROW}whole> {self._whole} .")
        clauses = self._clauses
        select, rest = self._rewritten(clauses.select), self._rewritten(clauses.rest)
        if self._star is not None:
            select = clauses.select[: self._star.start] + " ".join(f"?{name}" for name in self._names)
        return f"{clauses.prologue} SELECT {select} WHERE {{ {' '.join(always + sometimes)} }} {rest}"

    def _rewritten(self, text: str) -> str:
        """The text, with COUNT as the sum of the counts of the parts."""
        for one in reversed(_aggregates(text)):
            if one.counts_wholes:
                text = f"{text[: one.start]}COUNT(DISTINCT {self._whole}){text[one.end :]}"
            elif self._is_counted and one.name == "COUNT" and one.words == ("*",):
                text = f"{text[: one.start]}SUM({self._times}){text[one.end :]}"
            elif self._is_counted and one.counted:
                times = f"IF(BOUND(?{one.counted}), {self._times}, 0)"
                text = f"{text[: one.start]}SUM({times}){text[one.end :]}"
        return text


def _split(text: str, count: int) -> _Clauses:
    """The clauses of a SELECT query without queries inside it."""
    depth, select, dataset, opened, closed, braces = 0, -1, -1, -1, -1, 0
    before_pattern = -1
    for one in tokens(text):
        if one.word in ("(", "["):
            depth += 1
        elif one.word in (")", "]"):
            depth -= 1
        elif one.word == "{":
            if opened < 0 and not depth and select >= 0:
                opened = one.start
            braces += 1
        elif one.word == "}":
            braces -= 1
            if opened >= 0 and not braces and closed < 0:
                closed = one.end
        elif depth or opened >= 0:
            continue
        elif one.word == "SELECT" and select < 0:
            select = one.end
        elif one.word == "FROM" and dataset < 0:
            dataset = one.start
        elif one.word == "WHERE":
            before_pattern = one.start
    if select < 0 or closed < 0:  # words that are written together: Oxigraph reads them, and tokens() does not
        raise _refusal("this way to write SELECT", count)
    before_pattern = before_pattern if before_pattern >= 0 else opened
    ends = dataset if dataset >= 0 else before_pattern
    return _Clauses(
        text[: select - len("SELECT")],
        text[select:ends],
        text[ends:before_pattern],
        text[opened:closed],
        text[closed:],
    )


def _aggregates(text: str) -> list[_Aggregate]:
    """The aggregates in a text; none contains another."""
    found, seen = list[_Aggregate](), [one for one in tokens(text) if one.word != " "]
    for place, one in enumerate(seen[:-1]):
        if one.word not in _AGGREGATES or seen[place + 1].word != "(":
            continue
        depth = 0
        for end in range(place + 1, len(seen)):
            depth += (seen[end].word == "(") - (seen[end].word == ")")
            if not depth:
                words = tuple(inner.word for inner in seen[place + 2 : end])
                counted = _counted_variable(text[one.start : seen[end].end])
                found.append(_Aggregate(one.start, seen[end].end, one.word, words, counted[1] if counted else ""))
                break
    return found


def _variables(*texts: str) -> list[str]:
    """The names of all variables, each once."""
    found: dict[str, None] = {}
    for text in texts:
        for one in tokens(text):
            if text[one.start] in "?$" and one.end > one.start + 1:
                found[text[one.start + 1 : one.end]] = None
    return list(found)
