"""Applies the RDFa processing rules (RDFa Core section 7.5, step by step) to the elements of a page.

The step numbers are those of RDFa Core 1.1; the additions of HTML+RDFa 1.1 and XHTML+RDFa 1.1 are included.
Promises: no recursion; time and memory are linear in the page and bounded by the constants below, and anything beyond
them is not stated. Elements that were not requested are read only if they enclose a requested one. A context never
changes after it is made, so that elements can share it.
Knows nothing of how elements are found.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, cast

from turbohtml import Document, Element

from tarrafa.parse.rdf.nquads import RDF, RDF_TYPE, STATEMENTS_LENGTH_MAX, STATEMENTS_MAX, StatementSet
from tarrafa.parse.structured.iri_resolution import BaseIri
from tarrafa.parse.structured.rdfa.curie import TERMS_MAX, CurieScope, TermCache, is_valid_prefix
from tarrafa.parse.structured.rdfa.initial_context import PREFIXES, RDFA, XHV, HostLanguageRules
from tarrafa.parse.structured.rdfa.literals import LiteralBuilder, element_attributes

ELEMENTS_MAX = 100_000  # visited
ATTEMPTS_MAX = 2 * STATEMENTS_MAX  # statements made, duplicates included

_USES_VOCABULARY: Final = f"<{RDFA}usesVocabulary>"
_ROLE: Final = f"<{XHV}role>"
_COPY, _PATTERN = f"<{RDFA}copy>", f"<{RDFA}Pattern>"
_FIRST, _REST, _NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"

_RESOURCEFUL = frozenset({"about", "resource", "href", "src", "typeof", "property", "rel", "rev"})
_DECLARING = frozenset({"vocab", "prefix", "lang", "xml:lang", "xml:base"})
RELEVANT = _RESOURCEFUL | _DECLARING | {"role"}  # attributes
# Without any of these, an element with a @property states its text or its link about its parent's subject.
_UNUSUAL = (RELEVANT | {"inlist", "datatype", "datetime", "value"}) - {"property", "resource", "href", "src"}
_LINKING = frozenset({"resource", "href", "src"})
# An element with no other attributes declares no namespaces. (Checking the prefix of each name takes longer.)
_ORDINARY = (
    {"alt", "class", "content", "datatype", "datetime", "height", "id", "inlist", "itemprop", "media", "name", "style"}
    | {"target", "title", "type", "value", "width"}
    | RELEVANT
)
_OUTERMOST = ("head", "body")  # they have the same subject as their parent

_MAY_BE_CURIE = ("about", "resource")

Triple = tuple[str, str, str]
# Predicate; from the subject, or to it; the list that takes it instead.
IncompleteTriple = tuple[str, bool, list[str] | None]


@dataclass(slots=True, eq=False)
class ListMapping:
    """The lists that @inlist collects for one subject, by predicate."""

    subject: str
    items: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class EvaluationContext:
    """The values in force inside an element. `lists` belong to its `object`, the subject of the children; `literals`
    counts the enclosing elements whose text is already a literal.
    """

    subject: str
    object: str
    scope: CurieScope
    language: str
    lists: ListMapping
    incomplete: list[IncompleteTriple] | None
    literals: int
    _plain: "EvaluationContext | None" = None
    _text: "EvaluationContext | None" = None

    @classmethod
    def initial(cls, page: str, scope: CurieScope, language: str) -> "EvaluationContext":
        """The context before the first element."""
        return cls(page, page, scope, language, ListMapping(page), None, 0)

    def with_declarations(self, scope: CurieScope, language: str) -> "EvaluationContext":
        """The context inside an element that declares prefixes or a language, and states nothing."""
        if scope is self.scope and language == self.language:
            return self
        return EvaluationContext(self.subject, self.object, scope, language, self.lists, self.incomplete, self.literals)

    def for_property_element(self, *, texts: int) -> "EvaluationContext":
        """The context inside an element that states a property of its parent's subject: shared by all such elements."""
        known = self._text if texts else self._plain
        if known is None:
            literals = self.literals + texts
            known = EvaluationContext(self.object, self.object, self.scope, self.language, self.lists, None, literals)
            if texts:
                self._text = known
            else:
                self._plain = known
        return known


@dataclass(slots=True, eq=False)
class LocalValues:
    """An element with its attributes, and the values that steps 5 and 6 establish for it."""

    element: Element
    own: dict[str, str]
    scope: CurieScope
    language: str
    outer: EvaluationContext
    skip: bool = False
    subject: str = ""  # "new subject"
    object: str | None = None  # "current object resource"
    typed: str | None = None  # "typed resource"

    def resource(self, *names: str) -> str | None:
        """The resource of the first of these attributes that names one."""
        for name in names:
            if (text := self.own.get(name)) is not None:
                found = self.scope.resource(text) if name in _MAY_BE_CURIE else self.scope.reference(text)
                if found is not None:
                    return found
        return None

    def is_root(self) -> bool:
        return type(self.element.parent) is Document


class IncompleteTripleError(Exception):
    """A @rel without a resource was met, and the elements that could complete it were not requested."""


class RdfaProcessor:
    """Reads the elements of one page."""

    def __init__(
        self,
        base: str,
        location: str,
        statements: StatementSet,
        rules: HostLanguageRules,
        *,
        allow_incomplete: bool = False,
    ) -> None:
        self._statements = statements
        self._rules = rules
        self._allow_incomplete = allow_incomplete
        self._triples: dict[Triple, None] = {}
        self._attempts = 0
        self._room = STATEMENTS_LENGTH_MAX  # characters; more could not be stated
        self._elements = 0
        self._values = LiteralBuilder(rules)
        self._all_lists: list[ListMapping] = []
        self._inside: dict[Element, EvaluationContext] = {}
        scope = CurieScope(TermCache(statements, BaseIri(location)), BaseIri(base), rules.terms, PREFIXES, {})
        self._page = scope.iri("") or statements.blank_node()
        self._outside = EvaluationContext.initial(self._page, scope, "")

    def process(self, found: Iterable[Element]) -> None:
        """Process these elements, in document order."""
        inside = self._inside
        for element in found:
            parent = element.parent
            outer = inside.get(parent) if type(parent) is Element else None
            if outer is None and (outer := self._process_ancestors(element)) is None:
                continue
            if self._elements >= ELEMENTS_MAX or self._attempts >= ATTEMPTS_MAX:
                break
            inside[element] = self._process_element(element, outer)

    def _process_ancestors(self, element: Element) -> EvaluationContext | None:
        """Process the ancestors, from the outermost on. None inside a template, of which nothing is read."""
        inside, waiting = self._inside, []
        node = element.parent
        context = None
        while type(node) is Element:
            if (context := inside.get(node)) is not None:
                break
            waiting.append(node)
            node = node.parent
        if context is None:
            if type(node) is not Document:
                return None
            context = self._outside
        while waiting and self._elements < ELEMENTS_MAX:
            around = waiting.pop()
            inside[around] = context = self._process_element(around, context)
        return context

    def _process_element(self, element: Element, outer: EvaluationContext) -> EvaluationContext:
        """Steps 2 to 13 for one element. Returns the context inside it."""
        self._elements += 1
        own = _attributes(element)
        namespaces = not _ORDINARY.issuperset(own) and any(name.startswith("xmlns") for name in own)
        if not namespaces:
            if RELEVANT.isdisjoint(own):
                return outer
            if "property" in own and outer.incomplete is None and _UNUSUAL.isdisjoint(own):
                return self._process_simple_property(LocalValues(element, own, outer.scope, outer.language, outer))
        scope, language = outer.scope, outer.language
        if namespaces or not _DECLARING.isdisjoint(own):
            scope, language = self._declared(own, outer)
            if outer is self._outside and scope.base is not outer.scope.base:  # the root's xml:base is the document's
                outer = EvaluationContext.initial(scope.iri("") or self._page, scope, language)
        if self._rules.role and "role" in own:
            self._role(own, scope)
        if _RESOURCEFUL.isdisjoint(own):
            return outer.with_declarations(scope, language)
        if self._rules.html5 and "property" in own:
            _drop_html_rel_words(own)
        return self._state_element(LocalValues(element, own, scope, language, outer))

    def _process_simple_property(self, place: LocalValues) -> EvaluationContext:
        """Steps 5, 11 and 13, faster, for a @property with a @content, a link or nothing, and no incomplete triple."""
        own, outer = place.own, place.outer
        links = not _LINKING.isdisjoint(own)
        content = own.get("content")
        if links and content is not None:
            return self._state_element(place)  # of another subject
        predicates = outer.scope.predicates(own["property"])
        if not predicates:
            return outer.for_property_element(texts=0)
        value = place.resource("resource", "href", "src") if links else None
        texts = 0
        if value is None and content is not None:
            value = self._values.plain(content, outer.language)
        elif value is None:
            value = self._values.text(place.element, outer.language, outer.literals)
            texts = 1
        if value is not None:
            for predicate in predicates:
                self._add(outer.object, predicate, value)
        return outer.for_property_element(texts=texts)

    def _declared(self, own: dict[str, str], outer: EvaluationContext) -> tuple[CurieScope, str]:
        """Steps 2 to 4: @vocab, prefixes, language."""
        rules, scope, language = self._rules, outer.scope, outer.language
        if rules.xml_base and "xml:base" in own:
            scope = scope.with_base(BaseIri(scope.base.resolve(own["xml:base"].strip())))
        if (vocabulary := own.get("vocab")) is not None:
            scope = self._vocabulary(vocabulary.strip(), scope)
        namespaces = {}
        for name, meant in own.items():
            if name.startswith("xmlns:") and is_valid_prefix(name[6:], meant):
                namespaces[name[6:]] = meant
            elif name == "xmlns" and rules.as_xml:
                namespaces[""] = meant
        if namespaces or "prefix" in own:
            scope = scope.with_prefixes(namespaces, own.get("prefix", ""))
        for name in rules.languages:
            if name in own:
                return scope, own[name].strip()
        return scope, language

    def _vocabulary(self, vocabulary: str, scope: CurieScope) -> CurieScope:
        if not vocabulary:
            return scope.with_vocabulary("")
        term = scope.iri(vocabulary)
        if term is None:
            return scope
        self._add(self._page, _USES_VOCABULARY, term)
        return scope.with_vocabulary(term[1:-1])

    def _role(self, own: dict[str, str], scope: CurieScope) -> None:
        """Role Attribute 1.0 §4: the subject is the element's @id; words are XHTML's, whatever the @vocab."""
        about = scope.iri(f"#{own['id'].strip()}") if own.get("id") else self._statements.blank_node()
        if about is not None:
            for role in scope.with_vocabulary(XHV).all_terms(own["role"]):
                self._add(about, _ROLE, role)

    def _set_subject(self, place: LocalValues) -> None:
        """Step 5: an element without @rel and @rev."""
        own = place.own
        typed = "typeof" in own
        if "property" in own and "content" not in own and "datatype" not in own:
            about = place.resource("about")
            place.subject = about or place.outer.object
            if typed:
                place.typed = place.object = about or self._typed(place)
            return
        subject = place.resource("about", "resource", "href", "src")
        if subject is None:
            named = not typed or place.is_root() or (self._rules.head_and_body and place.element.tag in _OUTERMOST)
            subject = place.outer.object if named else self._statements.blank_node()
            place.skip = not typed and "property" not in own
        place.subject = subject
        if typed:
            place.typed = subject

    def _typed(self, place: LocalValues) -> str:
        if place.is_root():
            return place.outer.object
        return place.resource("resource", "href", "src") or self._statements.blank_node()

    def _set_link_subject(self, place: LocalValues) -> None:
        """Step 6: an element with @rel or @rev."""
        about = place.resource("about")
        place.subject = about or place.outer.object
        place.object = place.resource("resource", "href", "src")
        if "typeof" in place.own:
            if about is None:
                place.object = place.object or self._statements.blank_node()
            place.typed = about or place.object

    def _state_element(self, place: LocalValues) -> EvaluationContext:
        """Steps 5 to 13."""
        own, outer = place.own, place.outer
        links = "rel" in own or "rev" in own
        if links:
            self._set_link_subject(place)
        else:
            self._set_subject(place)
        if place.skip:
            return outer.with_declarations(place.scope, place.language)
        subject = place.subject
        if place.typed is not None:
            for kind in place.scope.all_terms(own["typeof"]):
                self._add(place.typed, RDF_TYPE, kind)
        lists = outer.lists if outer.lists.subject == subject else ListMapping(subject)
        incomplete = self._state_links(place, lists) if links else None
        literals = outer.literals
        if "property" in own and self._property(place, lists):
            literals += 1
        if outer.incomplete:
            self._complete(outer, subject)
        inner = place.object or subject
        if lists.subject != inner:
            lists = ListMapping(inner)
        return EvaluationContext(subject, inner, place.scope, place.language, lists, incomplete, literals)

    def _state_links(self, place: LocalValues, lists: ListMapping) -> list[IncompleteTriple] | None:
        """Steps 9 and 10: the triples of @rel and @rev, or incomplete triples that a descendant completes."""
        own, scope, subject = place.own, place.scope, place.subject
        forward = scope.predicates(own["rel"]) if "rel" in own else ()
        backward = scope.predicates(own["rev"]) if "rev" in own else ()
        if not forward and not backward:
            return None
        in_list = "inlist" in own
        if (target := place.object) is not None:
            for predicate in forward:
                if in_list:
                    self._append(self._list(lists, predicate), target)
                else:
                    self._add(subject, predicate, target)
            for predicate in backward:
                self._add(target, predicate, subject)
            return None
        if not self._allow_incomplete:
            raise IncompleteTripleError
        place.object = self._statements.blank_node()
        incomplete: list[IncompleteTriple] = [
            (name, True, self._list(lists, name) if in_list else None) for name in forward
        ]
        incomplete += [(name, False, None) for name in backward]
        return incomplete

    def _complete(self, outer: EvaluationContext, found: str) -> None:
        """Step 12: complete the incomplete triples of the enclosing elements with this element's subject."""
        for predicate, forward, gathered in outer.incomplete or ():
            if gathered is not None:
                self._append(gathered, found)
            elif forward:
                self._add(outer.subject, predicate, found)
            else:
                self._add(found, predicate, outer.subject)

    def _property(self, place: LocalValues, lists: ListMapping) -> bool:
        """Step 11. Returns whether the text of the element was read for it."""
        predicates = place.scope.predicates(place.own["property"])
        if not predicates:
            return False
        content = self._values.content(place.element, place.own)
        value = self._resource(place) if content is None and "datatype" not in place.own else None
        reads = value is None and content is None
        if value is None:
            datatype = place.scope.term(place.own.get("datatype", "").strip())
            value = self._values.literal(place, content, datatype)
        if value is not None:
            for predicate in predicates:
                if "inlist" in place.own:
                    self._append(self._list(lists, predicate), value)
                else:
                    self._add(place.subject, predicate, value)
        return reads

    def _resource(self, place: LocalValues) -> str | None:
        """The value of a @property where it is no literal."""
        own = place.own
        if "rel" not in own and "rev" not in own and (found := place.resource("resource", "href", "src")):
            return found
        return place.typed if "typeof" in own and "about" not in own else None

    def _list(self, lists: ListMapping, predicate: str) -> list[str]:
        if not lists.items:
            self._all_lists.append(lists)
        return lists.items.setdefault(predicate, [])

    def _append(self, gathered: list[str], value: str) -> None:
        self._attempts += 1
        if self._attempts < ATTEMPTS_MAX:
            gathered.append(value)
            self._room -= len(value)
            if self._room <= 0:
                self._attempts = ATTEMPTS_MAX

    def _add(self, subject: str, predicate: str, value: str) -> None:
        self._attempts += 1
        if self._attempts < ATTEMPTS_MAX:
            self._triples[subject, predicate, value] = None
            self._room -= len(subject) + len(predicate) + len(value)
            if self._room <= 0 or self._values.room <= 0:
                self._attempts = ATTEMPTS_MAX

    def emit_statements(self) -> None:
        """Step 14 and the work after the last element: emit lists, copy patterns, then add all statements."""
        for lists in self._all_lists:
            for predicate, items in lists.items.items():
                self._state_list(lists.subject, predicate, items)
        triples: Iterable[Triple] = self._triples
        if self._rules.html5 and any(predicate == _COPY for _, predicate, _ in triples):
            triples = _copy_patterns(triples, ATTEMPTS_MAX)
        add = self._statements.add
        for subject, predicate, value in triples:
            add(subject, predicate, value)
        if self._attempts >= ATTEMPTS_MAX:
            self._statements.is_cut = True

    def _state_list(self, subject: str, predicate: str, items: list[str]) -> None:
        links = [*(self._statements.blank_node() for _ in items), _NIL]
        self._triples[subject, predicate, links[0]] = None
        for item, (link, following) in zip(items, pairwise(links), strict=True):
            self._triples[link, _FIRST, item] = None
            self._triples[link, _REST, following] = None


def _attributes(element: Element) -> dict[str, str]:
    """All attributes, with @rel and @rev as texts; other token lists, such as @class, are not needed."""
    own = cast("dict[str, str]", element_attributes(element))
    for name in ("rel", "rev"):
        if name in own:
            own[name] = element.attr(name) or ""
    return own


def _drop_html_rel_words(own: dict[str, str]) -> None:
    """HTML+RDFa §3.1: beside a @property, HTML's own words in @rel and @rev are ignored."""
    for name in ("rel", "rev"):
        if name in own:
            kept = " ".join(token for token in own[name].split(maxsplit=TERMS_MAX)[:TERMS_MAX] if ":" in token)
            if kept:
                own[name] = kept
            else:
                del own[name]


def _copy_patterns(triples: Iterable[Triple], made_max: int) -> list[Triple]:
    """HTML+RDFa 1.1 §3.5: a subject that copies (`rdfa:copy`) an `rdfa:Pattern` states everything that the pattern
    states, including what the pattern copies in turn. Patterns that were copied are then removed. Cyclic patterns end;
    at most `made_max` statements are made.
    """
    triples = list(triples)
    patterns = {subject for subject, predicate, value in triples if predicate == RDF_TYPE and value == _PATTERN}
    stated: dict[str, list[tuple[str, str]]] = defaultdict(list)
    copies: dict[str, list[str]] = defaultdict(list)
    for subject, predicate, value in triples:
        if predicate == _COPY and value in patterns:
            copies[subject].append(value)
        elif subject in patterns and not (predicate == RDF_TYPE and value == _PATTERN):
            stated[subject].append((predicate, value))
    used = {target for targets in copies.values() for target in targets}
    kept = [
        triple for triple in triples if triple[0] not in used and not (triple[1] == _COPY and triple[2] in patterns)
    ]
    for subject in copies:
        if subject not in used:
            made_max -= _copy_pattern(subject, copies, stated, kept, made_max)
    return kept


def _copy_pattern(
    subject: str,
    copies: dict[str, list[str]],
    stated: dict[str, list[tuple[str, str]]],
    kept: list[Triple],
    made_max: int,
) -> int:
    """Add the statements that a subject copies. Returns the amount of work."""
    waiting, seen, work = list(copies[subject]), set[str](), 0
    while waiting and work < made_max:
        pattern = waiting.pop()
        work += 1
        if pattern in seen:
            continue
        seen.add(pattern)
        room = made_max - work
        kept += [(subject, predicate, value) for predicate, value in stated.get(pattern, ())[:room]]
        waiting += copies.get(pattern, ())[: made_max - work]
        work += len(stated.get(pattern, ())[:room]) + len(copies.get(pattern, ()))
    return work
