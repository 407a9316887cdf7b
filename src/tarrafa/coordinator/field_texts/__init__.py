"""Texts of the fields of a collection: label, help and choices in each language.

One module per language with the same keys: names of sections, of fields (label and help) and of choices. Another
language is another module and one more name in `LANGUAGES`.
"""

import msgspec


class FieldWords(msgspec.Struct, frozen=True):
    """A field in one language."""

    label: str
    help: str


class Words(msgspec.Struct, frozen=True):
    """All about a collection's fields in one language. Choices are named by field and value: `scope.keep all`."""

    code: str
    sections: dict[str, str]
    fields: dict[str, FieldWords]
    choices: dict[str, str]
    notes: dict[str, str]  # what a dry run cannot know
    estimate: dict[str, str]  # what bounds an estimate, and what it takes for granted

    def of(self, name: str) -> FieldWords:
        """A field that nobody has named yet has its own name for a label."""
        return self.fields.get(name) or FieldWords(name, "")

    def choice(self, name: str, value: str) -> str:
        return self.choices.get(f"{name} {value}", value)


def from_rows(rows: str) -> dict[str, FieldWords]:
    """`name | label | help`, one per line."""
    found = {}
    for row in rows.strip().splitlines():
        name, label, said = (part.strip() for part in row.split("|"))
        found[name] = FieldWords(label, said)
    return found


def pairs(rows: str) -> dict[str, str]:
    """`name | text`, one per line."""
    return {name.strip(): text.strip() for name, _, text in (row.partition("|") for row in rows.strip().splitlines())}
