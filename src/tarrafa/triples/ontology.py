"""What follows from what a page states, by the ontologies that people have laid in?"""

from collections.abc import Sequence

from tarrafa.parse.statements import Statement


class Ontology:
    """Classes and properties, each with those above it."""

    def infer(self, statements: Sequence[Statement]) -> list[Statement]:
        return []
