"""What does a page state in RDFa?

RDFa Core 1.1 section 7.5, step by step (the numbers are its own), with what HTML+RDFa 1.1 and XHTML+RDFa 1.1 add.
Promises: any tree gives statements and no exception; no recursion; time and memory are linear in the page and bounded
by the names below, and what lies beyond them is not stated.

Only elements that can state something, and those around them, are looked at: most elements of a page have no RDFa,
and `select` finds the others at a small part of what a walk in Python costs. A @rel without a resource (it "hangs",
step 10) may be completed by any element below that names one; only then must those be looked at too, and reading
starts anew.
Knows nothing of JSON-LD or microdata, nor of what is done with statements.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from turbohtml import Document, Element

from tarrafa.parse.curie import TERMS_MAX, Names, Scope, usable
from tarrafa.parse.rdfa_context import HTML, RDFA, XHTML1, XHTML5, XHV, XML, Host, Rules
from tarrafa.parse.rdfa_pattern import COPY, Triple, copied
from tarrafa.parse.rdfa_value import Values
from tarrafa.parse.reference import Base
from tarrafa.parse.statements import RDF, STATEMENTS_LENGTH_MAX, STATEMENTS_MAX, TYPE, Statements

ELEMENTS_MAX = 100_000  # looked at
ATTEMPTS_MAX = 2 * STATEMENTS_MAX  # statements made, whether they were made before or not

_USES_VOCABULARY: Final = f"<{RDFA}usesVocabulary>"
_ROLE: Final = f"<{XHV}role>"
_FIRST, _REST, _NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"

_RESOURCEFUL = frozenset({"about", "resource", "href", "src", "typeof", "property", "rel", "rev"})
_DECLARING = frozenset({"vocab", "prefix", "lang", "xml:lang", "xml:base", "role"})
_RELEVANT = _RESOURCEFUL | _DECLARING
_MAY_BE_CURIE = ("about", "resource")
_OUTERMOST = ("head", "body")  # they speak of what their parent speaks of

_SPEAKING = '[property],[typeof],[vocab],[rel*=":"],[rev*=":"]'
_ANY_LINK = "[property],[typeof],[vocab],[rel],[rev]"
_COMPLETING = f"{_ANY_LINK},[about],[resource],[href],[src]"


def read(document: Document, base: str, statements: Statements, host: Host = "html", location: str = "") -> None:
    """Add what the document states to `statements`. `base` is its base element's IRI, or where it lies. `location` is
    where it lies whatever its base: prefixes that are relative, which they should not be, are seen from there."""
    rules = _rules(document, host)
    found = document.select(_speaking(rules))
    if not found:
        return
    if document.select_one("[vocab]") is not None:
        found = document.select(_ANY_LINK + (",[role]" if rules.role else ""))
    reader = _Reader(base, location or base, statements, rules, hanging=False)
    if not reader.read(found):
        found = document.select(_COMPLETING + (",[role]" if rules.role else ""))
        reader = _Reader(base, location or base, statements, rules, hanging=True)
        reader.read(found)
    reader.state()


def _speaking(rules: Rules) -> str:
    """What finds the elements that state something, as long as no @vocab gives a meaning to all words of @rel."""
    words = (f',[rel*="{word}" i],[rev*="{word}" i]' for word in rules.terms)
    return _SPEAKING + "".join(words) + (",[role]" if rules.role else "")


def _rules(document: Document, host: Host) -> Rules:
    if host == "html":
        return HTML
    if host == "xml":
        return XML
    root = document.root
    if root is not None and (root.attr("version") or "").startswith("XHTML"):
        return XHTML1
    for node in document.children[:8]:
        if "XHTML" in (getattr(node, "public_id", None) or ""):
            return XHTML1
    return XHTML5


class _Lists:
    """The lists that @inlist gathers for one subject."""

    __slots__ = ("items", "subject")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.items: dict[str, list[str]] = {}


_Hanging = tuple[str, bool, list[str] | None]  # predicate; from the subject, or to it; the list that takes it instead


class _Context:
    """The evaluation context: what is in force inside an element."""

    __slots__ = ("hanging", "language", "lists", "literals", "object", "scope", "subject")

    def __init__(
        self,
        subject: str,
        object_: str,
        scope: Scope,
        language: str,
        lists: _Lists,
        hanging: list[_Hanging] | None,
        literals: int,
    ) -> None:
        self.subject = subject
        self.object = object_
        self.scope = scope
        self.language = language
        self.lists = lists
        self.hanging = hanging
        self.literals = literals  # elements around it whose text is a literal already

    def but(self, scope: Scope, language: str) -> "_Context":
        """The same inside an element that declares something, and states nothing."""
        if scope is self.scope and language == self.language:
            return self
        return _Context(self.subject, self.object, scope, language, self.lists, self.hanging, self.literals)


class _HangsError(Exception):
    """A @rel without resource was met, and the elements that could complete it were not asked for."""


class _Reader:
    def __init__(self, base: str, location: str, statements: Statements, rules: Rules, *, hanging: bool) -> None:
        self._statements = statements
        self._rules = rules
        self._may_hang = hanging
        self._triples: dict[tuple[str, str, str], None] = {}
        self._attempts = 0
        self._room = STATEMENTS_LENGTH_MAX  # more than that could not be stated
        self._elements = 0
        self._values = Values(rules)
        self._all_lists: list[_Lists] = []
        self._inside: dict[Element, _Context] = {}
        scope = Scope(Names(statements, Base(location)), Base(base), rules.terms)
        self._page = scope.iri("") or statements.blank()
        self._outside = _Context(self._page, self._page, scope, "", _Lists(self._page), None, 0)

    def read(self, found: list[Element]) -> bool:
        """Read these elements, in the order of the page; False: read again with those that complete what hangs."""
        try:
            for element in found:
                if not self._visit(element):
                    break
        except _HangsError:
            return False
        return True

    def _visit(self, element: Element) -> bool:
        """Read an element after those around it; False when there was enough."""
        inside = self._inside
        waiting = [element]
        node = element.parent
        while type(node) is Element:
            if (context := inside.get(node)) is not None:
                break
            waiting.append(node)
            node = node.parent
        else:
            if type(node) is not Document:
                return True  # in a template
            context = self._outside
        while waiting:
            self._elements += 1
            if self._elements > ELEMENTS_MAX or self._enough() or self._values.room <= 0:
                return False
            node = waiting.pop()
            inside[node] = context = self._element(node, context)
        return True

    def _element(self, element: Element, outer: _Context) -> _Context:
        """Steps 2 to 13 for one element; what is in force inside it."""
        own = _attributes(element)
        if own is None:
            return outer
        scope, language = self._declared(own, outer)
        if self._rules.role and "role" in own:
            self._role(own, scope)
        if not (own.keys() & _RESOURCEFUL):
            return outer.but(scope, language)
        if self._rules.html5 and "property" in own:
            _mute(own)
        place = _Place(element, own, scope, language, outer)
        if "rel" in own or "rev" in own:
            self._link(place)
        else:
            self._thing(place)
        return self._stated(place)

    def _declared(self, own: dict[str, str], outer: _Context) -> tuple[Scope, str]:
        """Steps 2 to 4: @vocab, prefixes, language."""
        rules, scope, language = self._rules, outer.scope, outer.language
        if rules.xml_base and "xml:base" in own:
            scope = scope.at(scope.base.within(own["xml:base"].strip()))
        if (vocabulary := own.get("vocab")) is not None:
            scope = self._vocabulary(vocabulary.strip(), scope)
        namespaces = {}
        for name, meant in own.items():
            if name.startswith("xmlns:") and usable(name[6:], meant):
                namespaces[name[6:]] = meant
            elif name == "xmlns" and rules.as_xml:
                namespaces[""] = meant
        if namespaces or "prefix" in own:
            scope = scope.declaring(namespaces, own.get("prefix", ""))
        if "xml:lang" in own:
            language = own["xml:lang"].strip()
        elif rules.lang and "lang" in own:
            language = own["lang"].strip()
        return scope, language

    def _vocabulary(self, vocabulary: str, scope: Scope) -> Scope:
        if not vocabulary:
            return scope.speaking("")
        term = scope.iri(vocabulary)
        if term is None:
            return scope
        self._add(self._page, _USES_VOCABULARY, term)
        return scope.speaking(term[1:-1])

    def _role(self, own: dict[str, str], scope: Scope) -> None:
        """Role Attribute 1.0 §4: the element is its @id; words are XHTML's, whatever the @vocab."""
        about = scope.iri(f"#{own['id'].strip()}") if own.get("id") else self._statements.blank()
        if about is not None:
            for role in scope.speaking(XHV).all_terms(own["role"]):
                self._add(about, _ROLE, role)

    def _thing(self, place: "_Place") -> None:
        """Step 5: an element without @rel and @rev."""
        own = place.own
        typed = "typeof" in own
        if "property" in own and "content" not in own and "datatype" not in own:
            about = place.resource("about") or (place.outer.object if place.is_root() else None)
            place.subject = about or place.outer.object
            if typed:
                place.typed = about or place.resource("resource", "href", "src") or self._statements.blank()
                place.object = place.typed
            return
        subject = place.resource("about", "resource", "href", "src")
        if subject is None:
            named = not typed or place.is_root() or (self._rules.head_and_body and place.element.tag in _OUTERMOST)
            subject = place.outer.object if named else self._statements.blank()
            place.skip = not typed and "property" not in own
        place.subject = subject
        if typed:
            place.typed = subject

    def _link(self, place: "_Place") -> None:
        """Step 6: an element with @rel or @rev."""
        about = place.resource("about")
        place.subject = about or place.outer.object
        place.object = place.resource("resource", "href", "src")
        if "typeof" in place.own:
            if "about" not in place.own:
                place.object = place.object or self._statements.blank()
            place.typed = about or place.object

    def _stated(self, place: "_Place") -> _Context:
        """Steps 7 to 13."""
        own, outer, subject = place.own, place.outer, place.subject
        if place.typed is not None:
            for kind in place.scope.all_terms(own["typeof"]):
                self._add(place.typed, TYPE, kind)
        if place.skip:
            return outer.but(place.scope, place.language)
        lists = outer.lists if outer.lists.subject == subject else _Lists(subject)
        hanging = self._related(place, lists) if "rel" in own or "rev" in own else None
        literals = outer.literals
        if "property" in own and self._property(place, lists):
            literals += 1
        if outer.hanging:
            self._complete(outer, subject)
        inner = place.object or subject
        if lists.subject != inner:
            lists = _Lists(inner)
        return _Context(subject, inner, place.scope, place.language, lists, hanging, literals)

    def _related(self, place: "_Place", lists: _Lists) -> list[_Hanging] | None:
        """Steps 9 and 10: what @rel and @rev state now, or when somebody below says what they are about."""
        own, scope, subject = place.own, place.scope, place.subject
        forward = scope.predicates(own.get("rel", ""))
        backward = scope.predicates(own.get("rev", ""))
        if (target := place.object) is not None:
            for predicate in forward:
                if "inlist" in own:
                    self._append(self._list(lists, predicate), target)
                else:
                    self._add(subject, predicate, target)
            for predicate in backward:
                self._add(target, predicate, subject)
            return None
        if not forward and not backward:
            return None
        if not self._may_hang:
            raise _HangsError
        place.object = self._statements.blank()
        hanging: list[_Hanging] = []
        for predicate in forward:
            hanging.append((predicate, True, self._list(lists, predicate) if "inlist" in own else None))
        hanging += [(predicate, False, None) for predicate in backward]
        return hanging

    def _complete(self, outer: _Context, found: str) -> None:
        """Step 12: what hangs around this element is about what it speaks of."""
        for predicate, forward, gathered in outer.hanging or ():
            if gathered is not None:
                self._append(gathered, found)
            elif forward:
                self._add(outer.subject, predicate, found)
            else:
                self._add(found, predicate, outer.subject)
            if self._enough():
                break

    def _property(self, place: "_Place", lists: _Lists) -> bool:
        """Step 11; whether the text of the element was read for it."""
        predicates = place.scope.predicates(place.own["property"])
        if not predicates:
            return False
        value = self._resource_value(place)
        is_text = value is None
        if value is None:
            value = self._literal(place)
            is_text = self._values.content(place.element, place.own) is None
        if value is not None:
            for predicate in predicates:
                if "inlist" in place.own:
                    self._append(self._list(lists, predicate), value)
                else:
                    self._add(place.subject, predicate, value)
        return is_text

    def _resource_value(self, place: "_Place") -> str | None:
        """The value where it is no literal."""
        own = place.own
        if "datatype" in own or self._values.content(place.element, own) is not None:
            return None
        if "rel" not in own and "rev" not in own and (found := place.resource("resource", "href", "src")):
            return found
        return place.typed if "typeof" in own and "about" not in own else None

    def _literal(self, place: "_Place") -> str | None:
        scope = place.scope
        datatype = scope.term(place.own.get("datatype", "").strip())
        if datatype and datatype[0] != "<":
            datatype = None
        return self._values.literal(
            place.element, place.own, datatype, place.language, scope.declared, place.outer.literals
        )

    def _list(self, lists: _Lists, predicate: str) -> list[str]:
        if not lists.items:
            self._all_lists.append(lists)
        return lists.items.setdefault(predicate, [])

    def _append(self, gathered: list[str], value: str) -> None:
        self._attempts += 1
        if not self._enough():
            gathered.append(value)
            self._room -= len(value)

    def _add(self, subject: str, predicate: str, value: str) -> None:
        self._attempts += 1
        if not self._enough():
            self._triples[subject, predicate, value] = None
            self._room -= len(subject) + len(predicate) + len(value)

    def _enough(self) -> bool:
        return self._attempts > ATTEMPTS_MAX or self._room <= 0

    def state(self) -> None:
        """Step 14 and what comes after the last element: lists, patterns; then all of it is stated."""
        for lists in self._all_lists:
            for predicate, items in lists.items.items():
                self._chain(lists.subject, predicate, items)
        triples: Iterable[Triple] = self._triples
        if self._rules.html5 and any(predicate == COPY for _, predicate, _ in triples):
            triples = copied(triples, ATTEMPTS_MAX)
        add = self._statements.add
        for subject, predicate, value in triples:
            add(subject, predicate, value)

    def _chain(self, subject: str, predicate: str, items: list[str]) -> None:
        links = [*(self._statements.blank() for _ in items), _NIL]
        self._triples[subject, predicate, links[0]] = None
        for item, (link, following) in zip(items, pairwise(links), strict=True):
            self._triples[link, _FIRST, item] = None
            self._triples[link, _REST, following] = None


class _Place:
    """An element, and what steps 5 and 6 establish about it."""

    __slots__ = ("element", "language", "object", "outer", "own", "scope", "skip", "subject", "typed")

    def __init__(self, element: Element, own: dict[str, str], scope: Scope, language: str, outer: _Context) -> None:
        self.element = element
        self.own = own
        self.scope = scope
        self.language = language
        self.outer = outer
        self.skip = False
        self.subject = outer.object
        self.object: str | None = None  # "current object resource"
        self.typed: str | None = None  # "typed resource"

    def resource(self, *names: str) -> str | None:
        """The first of these attributes that names something."""
        own, scope = self.own, self.scope
        for name in names:
            if (text := own.get(name)) is not None:
                found = scope.resource(text) if name in _MAY_BE_CURIE else scope.iri(text)
                if found is not None:
                    return found
        return None

    def is_root(self) -> bool:
        return type(self.element.parent) is Document


def _attributes(element: Element) -> dict[str, str] | None:
    """The attributes, if any of them concerns us."""
    attributes = element.attrs.copy()
    if attributes.keys().isdisjoint(_RELEVANT) and not any(name.startswith("xmlns") for name in attributes):
        return None
    own = {name: value for name, value in attributes.items() if isinstance(value, str)}
    for name in ("rel", "rev"):
        if name in attributes and name not in own:
            own[name] = element.attr(name) or ""
    return own


def _mute(own: dict[str, str]) -> None:
    """HTML+RDFa §3.1: beside a @property, the words of @rel and @rev are HTML's, and mean nothing here."""
    for name in ("rel", "rev"):
        if name in own:
            kept = " ".join(token for token in own[name].split(maxsplit=TERMS_MAX)[:TERMS_MAX] if ":" in token)
            if kept:
                own[name] = kept
            else:
                del own[name]
