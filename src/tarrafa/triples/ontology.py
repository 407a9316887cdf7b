"""Ontologies (DATA/ontology.toml): infers classes and properties from the statements of a page.

    # DATA/ontology.toml; without it nothing is inferred
    enabled = true
    files   = ["schema.ttl"]         # in DATA/ontology/; by default all of *.ttl, *.nt and *.rdf that are there

    [[rule]]
    name      = "colleagues"
    construct = "CONSTRUCT { ?a <urn:x:colleague> ?b } WHERE { ?a <urn:x:at> ?o . ?b <urn:x:at> ?o }"

Promises: an entity of a class is also of every class above it (rdfs:subClassOf, owl:equivalentClass), and an entity
with a property has every property above that one (rdfs:subPropertyOf, owl:equivalentProperty), however long the chain
and even if it is a cycle. Inference uses one page alone: so the inferred statements are replaced with it. Nothing is
inferred twice, nor anything that the page states itself. An invalid file is one `ConfigError`. Knows nothing of the
store. For [[rule]] see `construct_rules`.
"""

import logging
import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from pyoxigraph import NamedNode, RdfFormat, parse
from xxhash import xxh3_128_hexdigest

from tarrafa.errors import ConfigError
from tarrafa.parse.rdf.nquads import RDF_TYPE, Statement, iri_of
from tarrafa.parse.rdf.prefixes import normalize_iri, vocabulary_of
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.triples.sparql_check import mentions_service

FILE_BYTES_MAX = 64 << 20  # of one ontology; schema.org's is 1 MB
TOML_BYTES_MAX = 1 << 20
FILES_MAX = 100
PAIRS_MAX = 500_000
ANCESTORS_MAX = 200  # classes above one
INFERRED_MAX = 20_000  # from one page
RULES_MAX = 50
RULE_CHARS_MAX = 20_000
FORMATS = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES, ".rdf": RdfFormat.RDF_XML}

_RDFS, _OWL = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2002/07/owl#"
_CLASS, _PROPERTY = f"{_RDFS}subClassOf", f"{_RDFS}subPropertyOf"
_SAME = {f"{_OWL}equivalentClass": _CLASS, f"{_OWL}equivalentProperty": _PROPERTY}

log = logging.getLogger(__name__)
Ancestors = dict[str, tuple[str, ...]]


class ConstructRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CONSTRUCT query of the user's own."""

    name: str
    construct: str


class OntologyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as written."""

    enabled: bool = True
    files: tuple[str, ...] | None = None
    rule: tuple[ConstructRule, ...] = ()


class Ontology(msgspec.Struct, frozen=True):
    """Classes and properties, each with those above it; and the rules."""

    classes: Ancestors = {}
    properties: Ancestors = {}
    rules: tuple[ConstructRule, ...] = ()

    def infer(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements that follow from those of a page, and are not among them."""
        if not (self.classes or self.properties):
            return []
        stated, found = set(statements), dict[Statement, None]()
        for one in statements:
            if one.predicate == RDF_TYPE:
                added = [
                    Statement(one.subject, RDF_TYPE, f"<{name}>") for name in self.classes.get(iri_of(one.object), ())
                ]
            else:
                above = self.properties.get(iri_of(one.predicate), ())
                added = [Statement(one.subject, f"<{name}>", one.object) for name in above]
            for new in added:
                if new not in stated:
                    found[new] = None
            if len(found) >= INFERRED_MAX:
                break
        return list(found)[:INFERRED_MAX]

    def digest(self) -> str:
        """Identifies the classes and properties; empty if there are none."""
        if not (self.classes or self.properties):
            return ""
        return str(xxh3_128_hexdigest(msgspec.json.encode([self.classes, self.properties])))


EMPTY_ONTOLOGY = Ontology()


class CurrentSubclasses:
    """The classes below a class by the ontology in force, as the index names classes (`parse/rdf/entity.py`). A changed
    file counts from the next call on; while it is invalid, the former ontology stays in force.
    """

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._seen: object = None
        self._below: dict[str, list[str]] = {}

    def __call__(self, kind: str) -> list[str]:
        """The IRIs of the classes below a class, in lower case. The class is an IRI in lower case, or `:name`."""
        seen = files_state(self._data)
        if seen != self._seen:
            with suppress(ConfigError):
                self._below = _subclasses(read_ontology(self._data).classes)
            self._seen = seen
        return self._below.get(kind, [])


def _subclasses(classes: Ancestors) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, above in classes.items():
        for one in above:
            for kind in (one, f":{one[len(vocabulary_of(one)) :]}"):
                found.setdefault(kind.lower(), []).append(name.lower())
    return found


# -- the files ---------------------------------------------------------------------------------------------------------


def path_of(data: DataDirectory) -> Path:
    return data.root / "ontology.toml"


def folder_of(data: DataDirectory) -> Path:
    return data.root / "ontology"


def files_state(data: DataDirectory) -> object:
    """A value that changes whenever one of the files does."""
    return file_fingerprint(path_of(data)), [(path.name, file_fingerprint(path)) for path in _there(folder_of(data))]


def _there(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in FORMATS)
    except OSError:
        return []


def read_ontology(data: DataDirectory) -> Ontology:
    """The ontology in force; an empty one, unless the file enables it."""
    path, folder = path_of(data), folder_of(data)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return EMPTY_ONTOLOGY
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    written = _written(path, content)
    if not written.enabled:
        return EMPTY_ONTOLOGY
    names = _there(folder) if written.files is None else [_named(path, folder, name) for name in written.files]
    if len(names) > FILES_MAX:
        raise ConfigError(f"{folder}: {len(names)} files are more than the {FILES_MAX} allowed")
    pairs = {_CLASS: set[tuple[str, str]](), _PROPERTY: set[tuple[str, str]]()}
    for name in names:
        _read_pairs(name, pairs)
    return Ontology(_transitive_closure(pairs[_CLASS]), _transitive_closure(pairs[_PROPERTY]), written.rule)


def _written(path: Path, content: bytes) -> OntologyConfig:
    if len(content) > TOML_BYTES_MAX:
        raise ConfigError(f"{path}: larger than the {TOML_BYTES_MAX >> 20} MB allowed")
    try:
        written = msgspec.convert(tomllib.loads(content.decode("utf-8-sig")), OntologyConfig)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error))}") from None
    if len(written.rule) > RULES_MAX:
        raise ConfigError(f"{path}: {len(written.rule)} rules are more than the {RULES_MAX} allowed")
    names = [rule.name for rule in written.rule]
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: [[rule]] name: two rules have the same name; give each its own")
    for rule in written.rule:
        if wrong := rule_objection(rule.construct):
            raise ConfigError(f"{path}: [[rule]] {rule.name[:80]!r}: {wrong}")
    return written


def _explain(message: str) -> str:
    what, _, where = message.partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    if unknown := re.search(r"unknown field `([^`]*)`", what):
        allowed = "name, construct" if where.startswith("rule") else "enabled, files, [[rule]]"
        return f"unknown key {unknown[1]!r} (allowed: {allowed})"
    return f"{where}: {what[0].lower()}{what[1:]}".removeprefix(": ")


def _named(path: Path, folder: Path, name: str) -> Path:
    if Path(name).name != name or Path(name).suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: files: {name[:80]!r} must be the name of a {', '.join(FORMATS)} file in {folder}")
    return folder / name


def _read_pairs(path: Path, pairs: dict[str, set[tuple[str, str]]]) -> None:
    """Collect the pairs of sub and super terms of a file."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: larger than the {FILE_BYTES_MAX >> 20} MB allowed")
        for quad in parse(path=str(path), format=FORMATS[path.suffix.lower()], base_iri="urn:tarrafa:ontology"):
            name, below, above = quad.predicate.value, quad.subject, quad.object
            if not (isinstance(below, NamedNode) and isinstance(above, NamedNode)):
                continue
            known = pairs.get(_SAME.get(name, name))
            if known is not None:
                known.add((normalize_iri(below.value), normalize_iri(above.value)))
                if name in _SAME:
                    known.add((normalize_iri(above.value), normalize_iri(below.value)))
                if len(known) > PAIRS_MAX:
                    raise ConfigError(f"{path}: more than the {PAIRS_MAX:,} classes or properties allowed")
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())[:200]}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None


def _transitive_closure(pairs: Iterable[tuple[str, str]]) -> Ancestors:
    """Every term with all terms above it, the nearest first."""
    direct: dict[str, list[str]] = {}
    for below, above in sorted(pairs):
        if below != above:
            direct.setdefault(below, []).append(above)
    closed: Ancestors = {}
    for name in sorted(direct):
        found = dict.fromkeys(direct[name])
        waiting = list(found)
        while waiting and len(found) < ANCESTORS_MAX:
            added = [above for below in waiting for above in direct.get(below, ()) if above not in found]
            waiting = list(dict.fromkeys(added))
            found |= dict.fromkeys(waiting)
        found.pop(name, None)
        closed[name] = tuple(found)[:ANCESTORS_MAX]
    return closed


# -- allowed rules -----------------------------------------------------------------------------------------------------

_token = re.compile(
    r"<[^<>\"{}|^`\\\x00-\x20]*>"
    r"|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*'"
    r"|#[^\n\r]*|(?P<word>[?$@]?[\w:.\-]+)",
    re.DOTALL,
)
_escape = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def rule_objection(construct: str) -> str:
    """Why a rule is refused; empty: it is accepted, and SPARQL reports further errors."""
    if len(construct) > RULE_CHARS_MAX:
        return f"too long: {len(construct):,} characters, at most {RULE_CHARS_MAX:,} are read"
    if _escape.search(construct):  # SPARQL would unescape it anywhere in the query
        return "write characters as they are, not as \\u escapes"
    words = [found["word"].upper() for found in _token.finditer(construct) if found["word"]]
    if mentions_service(construct):
        return "SERVICE is not allowed; rules see this store only"
    return "" if "CONSTRUCT" in words else "must be a CONSTRUCT query"
