"""Query parameters of entity search: class, vocabulary, conditions; resolves short names to IRIs.

Promises: every choice is a parameter, and every link keeps all parameters but those that it changes; reading them never
fails, an impossible value is a `QueryError` when names are resolved. Classes and properties are named by their IRI, in
short (`schema:Event`), or bare (`Event`): then the one on most pages is meant. The page, its JSON and the command line
use the same parameters.

    q            words in any property           vocabulary   schema, or its IRI      collection
    class        of this class                   not          not of this class
    where        a condition, any number of them: `startDate>=2026-01-01`, `price<50`, `name=Ana`; `name ana silva` has
                 these words; `email` exists; an IRI in angle brackets: `<http://a.br/?v=1> x`
    property, is, value   the same from the fields of a form, in their order

Knows nothing of the search itself or of HTML.
"""

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Literal, cast
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace
from starlette.datastructures import QueryParams

from tarrafa.errors import QueryError
from tarrafa.i18n import Message, message
from tarrafa.parse.rdf.prefixes import PREFIXES, expand_prefix, normalize_iri, shorten_iri, vocabulary_of
from tarrafa.server.search.params import VALUE_CHARS_MAX
from tarrafa.triples.entity_query import EntityCondition, EntityQuery
from tarrafa.triples.entity_reader import CONDITIONS_MAX, NAMES_MAX, EntityReader, TermCounts

Operator = Literal["words", "=", "<", "<=", ">", ">="]
OPERATORS: tuple[Operator, ...] = ("words", "=", "<", "<=", ">", ">=")
QUOTED_CHARS_MAX = 60  # in error messages

_condition = re.compile(r"\s*(<[^<>]*>|[^\s<>=]*)\s*(<=|>=|<|>|=)?(.*)", re.DOTALL).fullmatch


class EntityParams(msgspec.Struct, frozen=True):
    """The parameters of an entity search. Names are as given; `resolve_names` makes them IRIs."""

    q: str = ""
    vocabulary: str = ""
    of_class: str = ""
    not_class: str = ""
    where: tuple[EntityCondition, ...] = ()
    collection: str = ""
    hl: str = ""

    @classmethod
    def from_query(cls, given: QueryParams) -> "EntityParams":
        def line(name: str) -> str:
            return given.get(name, "").strip()[:VALUE_CHARS_MAX]

        where = [parse_condition(text[:VALUE_CHARS_MAX]) for text in given.getlist("where") if text.strip()]
        rows = zip_longest(*(given.getlist(name) for name in ("property", "is", "value")), fillvalue="")
        where += [
            _condition_from_fields(*(text.strip()[:VALUE_CHARS_MAX] for text in row))
            for row in rows
            if row[0] or row[2]
        ]
        chosen = given.get("q", "").strip(), line("vocabulary"), line("class"), line("not")
        return cls(*chosen, tuple(where), line("collection"), line("hl"))

    def resolve_names(self, reader: EntityReader) -> "EntityParams":
        """The same with IRIs for names."""
        count, most = len(self.where) + bool(self.q), CONDITIONS_MAX
        if count > most:
            raise QueryError(
                message("At most {most} conditions can be used at once, not {count}.", most=most, count=count)
            )
        vocabulary = _resolve_vocabulary(self.vocabulary, reader)

        def resolve_class(name: str) -> str:
            unknown = message("No crawled page has a class called {name}.", name=quoted(name))
            return _resolve_name(name, unknown, reader.classes, (vocabulary,)) if name else ""

        of_class, not_class = resolve_class(self.of_class), resolve_class(self.not_class)
        where = tuple(_resolve_condition(one, reader, of_class, vocabulary) for one in self.where)
        return replace(self, vocabulary=vocabulary, of_class=of_class, not_class=not_class, where=where)

    def entity_query(self, n: int, offset: int) -> EntityQuery:
        """The query to the reader; names must be resolved."""
        conditions = (EntityCondition("", self.q), *self.where) if self.q else self.where
        return EntityQuery(self.of_class, self.not_class, self.vocabulary, conditions, self.collection, offset, n)

    def without(self, place: int) -> tuple[EntityCondition, ...]:
        """The conditions except one."""
        return self.where[:place] + self.where[place + 1 :]

    def fields(self) -> list[tuple[str, str]]:
        """Names and values for the hidden fields of a form, which has the words and the conditions itself."""
        return [(name, value) for name, value in self.pairs() if name not in ("q", "where")]

    def address(self, path: str = "/data", more: Sequence[tuple[str, object]] = (), **changed: object) -> str:
        """A link that keeps all parameters except the changed ones."""
        kept = replace(self, **changed).pairs() + [(name, str(value)) for name, value in more if value]
        return f"{path}?{urlencode(kept)}" if kept else path

    def pairs(self) -> list[tuple[str, str]]:
        """The parameters that are not empty, with short names."""
        named = (self.vocabulary, self.of_class, self.not_class)
        short = [(name, shorten_iri(iri)) for name, iri in zip(("vocabulary", "class", "not"), named, strict=True)]
        where = [("where", format_condition(one)) for one in self.where]
        pairs = [("q", self.q), *short, *where, ("collection", self.collection), ("hl", self.hl)]
        return [(name, value) for name, value in pairs if value]


def parse_condition(text: str) -> EntityCondition:
    """A condition from one line."""
    found = _condition(text)
    assert found is not None, "each part of the pattern may be empty, and the last one takes the rest"
    return _condition_from_fields(*found.groups(default=""))


def format_condition(one: EntityCondition) -> str:
    """A condition as one line, which `parse_condition` reads again."""
    short = shorten_iri(one.property)
    name = f"<{short}>" if "://" in short or not short or any(sign in short for sign in "<>= ") else short
    return f"{name} {one.words}".rstrip() if one.operator == "words" else f"{name}{one.operator}{one.words}"


def _condition_from_fields(name: str, operator: str, value: str) -> EntityCondition:
    """The value loses the comparison signs before it, which `parse_condition` would read as another operator."""
    bare, value = re.sub(r"\A[<>=\s]+", "", value), value.strip()
    if value.startswith("<") and value.endswith(">"):
        bare = bare[:-1]
    name = name.strip().removeprefix("<").removesuffix(">")
    return EntityCondition(name, bare.strip(), cast(Operator, operator or "words"))


def _resolve_condition(one: EntityCondition, reader: EntityReader, of_class: str, vocabulary: str) -> EntityCondition:
    if one.operator not in OPERATORS:
        raise QueryError(message("A comparison is words, =, <, <=, > or >=, not {got}.", got=quoted(one.operator)))
    if not one.property:
        return one
    unknown = message("No crawled page has a property called {name}.", name=quoted(one.property))
    found = _resolve_name(one.property, unknown, reader.properties, (of_class, ""), ("", vocabulary))
    return replace(one, property=found)


def _resolve_name(name: str, unknown: Message, lookup: Callable[..., TermCounts], *narrower: tuple[str, ...]) -> str:
    """The IRI of a class or property, among the names of the `narrower` lookups first."""
    known = expand_prefix(name)
    if known is not None:
        return known
    for arguments in (*filter(any, narrower), ()):
        for one in lookup(*arguments, n=NAMES_MAX, holding=name).names:
            own = one.iri[len(vocabulary_of(one.iri)) :]
            if name in (one.iri, own) or (own.casefold() == name.casefold() and ":" not in name):
                return one.iri
    raise QueryError(unknown)


def quoted(text: str) -> str:
    """A text of the request, for an error message."""
    return repr(text[:QUOTED_CHARS_MAX])


def _resolve_vocabulary(name: str, reader: EntityReader) -> str:
    known = PREFIXES.get(name.removesuffix(":").lower())
    if known is not None or not name:
        return known or ""
    if "://" in name:
        return normalize_iri(name)
    if any(one.iri == name for one in reader.vocabularies(n=NAMES_MAX, holding=name).names):
        return name
    raise QueryError(message("No vocabulary is known as {name}: write its whole IRI.", name=quoted(name)))
