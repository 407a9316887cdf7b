"""Holds the RDFa evaluation context and the local values of an element (RDFa Core 1.1 section 7.5).

Promises: a context never changes after it is made, so that elements can share it.
Knows nothing of how statements are made.
"""

from dataclasses import dataclass, field

from turbohtml import Document, Element

from tarrafa.parse.structured.rdfa.curie import CurieScope

_MAY_BE_CURIE = ("about", "resource")

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
