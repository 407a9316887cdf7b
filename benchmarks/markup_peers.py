"""What does extruct find in the cases of the W3C's suites of JSON-LD in HTML and microdata?

It ends in items, not in statements; they are told as RDF here, by the plainest reading that favours it: what looks like
an address is one, and JSON-LD goes through the same parser as ours.
"""

import json
from collections.abc import Iterator
from typing import Any

from pyoxigraph import RdfFormat, parse, serialize
from tests.structured_data_suites import Case

from tarrafa.parse.rdf.nquads import RDF_TYPE, StatementSet, iri, literal


def jsonld(case: Case) -> str:
    """All scripts as one document: it knows no other way. ImportError where it is not installed."""
    from extruct.jsonld import JsonLdExtractor  # type: ignore[import-untyped,import-not-found,unused-ignore]

    items = JsonLdExtractor().extract(case.markup, base_url=case.base)
    if not items and case.options["target"]:
        raise ValueError("nothing found, which is as good as refused")
    try:
        quads = parse(json.dumps(items), RdfFormat.JSON_LD, base_iri=case.base)
        return (serialize(quads, format=RdfFormat.N_QUADS) or b"").decode()
    except SyntaxError as error:
        raise ValueError(str(error)) from None


def microdata(case: Case) -> str:
    from extruct.w3cmicrodata import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
        MicrodataExtractor,
    )

    statements = StatementSet()
    for item in MicrodataExtractor(strict=True).extract(case.markup, base_url=case.base):
        _tell(item, "", case.base, statements)
    return statements.to_nquads()


def _tell(item: dict[str, Any], vocabulary: str, base: str, statements: StatementSet) -> str:
    subject = (iri(item["id"]) if "id" in item else None) or statements.blank_node()
    for kind in item.get("type", []):
        if ":" in kind and (written := iri(kind)):
            statements.add(subject, RDF_TYPE, written)
            vocabulary = kind[: max(kind.rfind("#"), kind.rfind("/")) + 1]
    for name, values in item.get("properties", {}).items():
        predicate = iri(name if ":" in name else f"{vocabulary}{name}" if vocabulary else f"{base}#{name}")
        for value in _terms(values, vocabulary, base, statements):
            if predicate:
                statements.add(subject, predicate, value)
    return subject


def _terms(values: list[Any], vocabulary: str, base: str, statements: StatementSet) -> Iterator[str]:
    for value in values:
        if isinstance(value, dict):
            yield _tell(value, vocabulary, base, statements)
        elif isinstance(value, str):
            address = iri(value) if value.startswith(("http://", "https://", "mailto:")) else None
            if term := address or literal(value):
                yield term
