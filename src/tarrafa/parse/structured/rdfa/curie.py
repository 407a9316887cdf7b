"""Resolves RDFa terms, CURIEs and IRIs by the prefixes and vocabulary in scope (RDFa Core 1.1, section 7.4).

Promises: a name gives a term in N-Quads notation, or None if it has no meaning. Results are cached. The prefixes of a
page are bounded, and so are the memory and time of declaring them again and again.
Knows nothing of elements, subjects or statements.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from tarrafa.parse.rdf.nquads import IRI_LENGTH_MAX, StatementSet, iri
from tarrafa.parse.structured.iri_resolution import BaseIri
from tarrafa.parse.structured.rdfa.initial_context import DEFAULT_PREFIX

TERMS_MAX = 256  # of one attribute
PREFIXES_MAX = 256  # in force at one place
SCOPES_MAX = 1_024  # distinct sets of declarations in one page; further declarations are ignored
TOKENS_MAX = 2 * PREFIXES_MAX
REMEMBERED_MAX = 20_000  # cached names of one scope

# RDFa Core §7.4.3, with the letters of XML's NCName. Python's \w is close enough, and accepts slightly more.
_term = re.compile(r"[^\W\d][\w.\-/\u00b7]*").fullmatch
_ncname = re.compile(r"[^\W\d][\w.\-\u00b7]*").fullmatch
_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:").match
_CACHED_LENGTH_MAX = 1_024


@dataclass(slots=True, eq=False)
class TermCache:
    """Shared by all scopes of one page: labelled blank nodes, and cached IRI terms."""

    _statements: StatementSet
    location: BaseIri
    scopes: int = 0
    _written: dict[str, str | None] = field(default_factory=dict)

    def labelled_blank_node(self, label: str) -> str | None:
        """The blank node that the page calls `_:label`."""
        return self._statements.blank_node(("rdfa", label)) if len(label) <= IRI_LENGTH_MAX else None

    def placeholder_node(self, text: str) -> str:
        """The blank node that replaces a text which is no valid IRI."""
        return self._statements.blank_node(("rdfa", None, text) if len(text) <= IRI_LENGTH_MAX else None)

    def iri_term(self, text: str) -> str | None:
        """The IRI as a term."""
        known = self._written
        if text in known:
            return known[text]
        term = iri(text)
        if len(text) <= _CACHED_LENGTH_MAX and len(known) < REMEMBERED_MAX:
            known[text] = term
        return term


@dataclass(slots=True, eq=False)
class CurieScope:
    """The declarations in force at one place of the page. `declared` are the prefixes as the page writes them,
    including `""` for xmlns, which XML literals need. Places with the same declarations share one scope and its cache.
    """

    _names: TermCache
    base: BaseIri
    terms: Mapping[str, str]
    prefixes: Mapping[str, str]
    declared: Mapping[str, str]
    vocabulary: str = ""
    _known: dict[str, str | None] = field(default_factory=dict)
    _predicates: dict[str, list[str]] = field(default_factory=dict)
    _resources: dict[str, str | None] = field(default_factory=dict)
    _within: dict[object, "CurieScope"] = field(default_factory=dict)

    def iri(self, reference: str) -> str | None:
        """The term of an IRI, never of a CURIE; None if it is not valid."""
        return self._names.iri_term(self.base.resolve(reference.strip()))

    def reference(self, text: str) -> str:
        """The term of @href or @src. A text that is no valid IRI still names a resource of its own: a blank node."""
        return self.iri(text) or self._names.placeholder_node(text)

    def resource(self, text: str) -> str | None:
        """The term of @about or @resource: a SafeCURIE, a CURIE or an IRI. None: treat the attribute as absent."""
        if text in self._resources:
            return self._resources[text]
        found = self._resource(text.strip())
        if len(text) <= _CACHED_LENGTH_MAX and len(self._resources) < REMEMBERED_MAX:
            self._resources[text] = found
        return found

    def _resource(self, text: str) -> str | None:
        if text.startswith("[") and text.endswith("]"):
            return self._curie(text[1:-1])
        return self._curie(text) or self.reference(text)

    def term(self, token: str) -> str | None:
        """The term of a word in @property, @rel, @rev, @typeof or @datatype: a term, a CURIE or an absolute IRI."""
        if token in self._known:
            return self._known[token]
        found = self._term(token)
        if len(token) <= _CACHED_LENGTH_MAX and len(self._known) < REMEMBERED_MAX:
            self._known[token] = found
        return found

    def _term(self, token: str) -> str | None:
        if _term(token):
            if self.vocabulary:
                return self._names.iri_term(self.vocabulary + token)
            meant = self.terms.get(token) or self.terms.get(token.lower())
            return self._names.iri_term(meant) if meant else None
        return self._curie(token) or (self._names.iri_term(token) if _scheme(token) else None)

    def all_terms(self, text: str) -> list[str]:
        """The terms of a list of names, each once and in order."""
        tokens = text.split(maxsplit=TERMS_MAX)
        if len(tokens) == 1:
            found = self.term(tokens[0])
            return [found] if found else []
        return list(dict.fromkeys(found for token in tokens[:TERMS_MAX] if (found := self.term(token))))

    def predicates(self, text: str) -> list[str]:
        """Like `all_terms`, without blank nodes. The list is cached: callers must not change it."""
        known = self._predicates.get(text)
        if known is None:
            known = [found for found in self.all_terms(text) if found[0] == "<"]
            if len(text) <= _CACHED_LENGTH_MAX and len(self._predicates) < REMEMBERED_MAX:
                self._predicates[text] = known
        return known

    def _curie(self, text: str) -> str | None:
        prefix, colon, reference = text.partition(":")
        if not colon or reference.startswith("//"):
            return None
        if prefix == "_":
            return self._names.labelled_blank_node(reference)
        namespace = self.prefixes.get(prefix.lower()) if prefix else DEFAULT_PREFIX
        return self._names.iri_term(namespace + reference) if namespace is not None else None

    def with_vocabulary(self, vocabulary: str) -> "CurieScope":
        """The same scope with another @vocab."""
        if vocabulary == self.vocabulary:
            return self
        key = ("vocab", vocabulary)
        return self._within.get(key) or self._changed(key, vocabulary=vocabulary)

    def with_base(self, base: BaseIri) -> "CurieScope":
        """The same scope with another xml:base."""
        return self if base.whole == self.base.whole else self._changed(None, base=base)

    def with_prefixes(self, namespaces: Mapping[str, str], prefix: str) -> "CurieScope":
        """The same scope with the prefixes of xmlns, overridden by those of @prefix (RDFa Core §7.5 step 3)."""
        key = ("prefix", prefix) if not namespaces and len(prefix) <= _CACHED_LENGTH_MAX else None
        if key and (before := self._within.get(key)):
            return before
        if self._names.scopes >= SCOPES_MAX:
            return self
        fresh = {**namespaces, **_parse_prefixes(prefix)}
        fresh = {name: meant for name, meant in fresh.items() if self.declared.get(name) != meant}
        if not fresh:
            return self
        declared = dict(islice({**self.declared, **fresh}.items(), PREFIXES_MAX))
        resolve = self._names.location.resolve
        resolved = {name.lower(): resolve(meant) for name, meant in fresh.items() if name and name in declared}
        return self._changed(key, declared=declared, prefixes={**self.prefixes, **resolved})

    def _changed(self, key: object, **changes: Any) -> "CurieScope":
        names = self._names
        if names.scopes >= SCOPES_MAX:
            return self
        names.scopes += 1
        fresh = replace(self, **changes, _known={}, _predicates={}, _resources={}, _within={})
        if key is not None:
            self._within[key] = fresh
        return fresh


def _parse_prefixes(prefix: str) -> dict[str, str]:
    """The prefixes in `dc: http://purl.org/dc/terms/ ...`. A word that is no prefix is skipped."""
    found: dict[str, str] = {}
    words = iter(prefix.split(maxsplit=TOKENS_MAX)[:TOKENS_MAX])
    for word in words:
        if word.endswith(":") and (meant := next(words, "")) and is_valid_prefix(word[:-1], meant):
            found[word[:-1]] = meant
    return found


def is_valid_prefix(name: str, meant: str) -> bool:
    """RDFa Core §7.5 step 3: `_` is for blank nodes, and the empty prefix may not be declared."""
    return name != "_" and len(name) + len(meant) <= IRI_LENGTH_MAX and _ncname(name) is not None
