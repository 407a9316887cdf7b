"""Which cases of the W3C's suites of JSON-LD in HTML and of microdata are passed? Shared by tests and benchmarks."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin

import turbohtml
from pyoxigraph import CanonicalizationAlgorithm, Dataset, RdfFormat, parse

from tarrafa.parse.rdf.nquads import StatementSet
from tarrafa.parse.structured import microdata
from tarrafa.parse.structured.jsonld import jsonld_extractor as jsonld
from tests.conformance_data import CONFORMANCE_DIR

JSONLD = "jsonld/html-manifest.jsonld"
MICRODATA = "microdata/manifest.jsonld"
JSONLD_HOME = "https://w3c.github.io/json-ld-api/tests/"
MICRODATA_HOME = "http://w3c.github.io/microdata-rdf/tests/"

Extract = Callable[["Case"], str]  # N-Quads; ValueError where the case cannot be read


class Case(NamedTuple):
    """A page, and the statements wanted of it; None: it is an error, and nothing is wanted."""

    name: str
    purpose: str
    markup: str
    base: str
    wanted: str | None
    wanted_format: RdfFormat
    home: str  # against which what is wanted is read
    options: dict[str, Any]


def same_graph(found: str, wanted: str, wanted_format: RdfFormat, home: str) -> bool:
    """Do both say the same, whatever their blank nodes are called?"""
    graphs = (
        Dataset(parse(found, RdfFormat.N_QUADS)),
        Dataset(parse(wanted, wanted_format, base_iri=home)),
    )
    for graph in graphs:
        graph.canonicalize(CanonicalizationAlgorithm.RDFC_1_0)
    return graphs[0] == graphs[1]


def passes(case: Case, extract: Extract) -> bool:
    try:
        found = extract(case)
    except ValueError:
        return case.wanted is None
    return case.wanted is not None and same_graph(found, case.wanted, case.wanted_format, case.home)


def _base_of(markup: str, url: str) -> str:
    element = turbohtml.parse(markup, positions=False).select_one("base[href]")
    return urljoin(url, (element.attr("href") if element else "") or "")


def jsonld_cases() -> list[Case]:
    """The toRdf cases; none where the data is absent."""
    if not (CONFORMANCE_DIR / JSONLD).exists():
        return []
    cases = []
    for entry in json.loads((CONFORMANCE_DIR / JSONLD).read_text(encoding="utf-8"))["sequence"]:
        if "jld:ToRDFTest" not in entry["@type"]:
            continue
        path, target = urldefrag(entry["input"])
        options = {**entry["option"], "target": target}
        markup = (CONFORMANCE_DIR / "jsonld" / path).read_text(encoding="utf-8")
        base = _base_of(markup, options.get("base") or JSONLD_HOME + path)
        wanted = (
            (CONFORMANCE_DIR / "jsonld" / entry["expect"]).read_text(encoding="utf-8") if "expect" in entry else None
        )
        cases.append(Case(entry["@id"], entry["name"], markup, base, wanted, RdfFormat.N_QUADS, base, options))
    return cases


def read_jsonld(case: Case) -> str:
    """As the suite has it: the first script, the one that the fragment names, or all as one document."""
    statements = StatementSet()
    scripts: jsonld.Scripts = "together" if case.options.get("extractAllScripts") else "first"
    document = turbohtml.parse(case.markup, positions=False)
    if jsonld.extract(document, case.base, statements, scripts=scripts, target=case.options["target"]):
        raise ValueError("not all could be read")
    return statements.to_nquads()


def microdata_cases() -> list[Case]:
    """The cases with a graph to compare; none where the data is absent."""
    if not (CONFORMANCE_DIR / MICRODATA).exists():
        return []
    cases = []
    for entry in json.loads((CONFORMANCE_DIR / MICRODATA).read_text(encoding="utf-8"))["@graph"][0]["entries"]:
        if "result" in entry:
            markup = (CONFORMANCE_DIR / "microdata" / entry["action"]).read_text(encoding="utf-8")
            wanted = (CONFORMANCE_DIR / "microdata" / entry["result"]).read_text(encoding="utf-8")
            base, home = MICRODATA_HOME + entry["action"], MICRODATA_HOME + entry["result"]
            cases.append(Case(entry["@id"], entry["comment"], markup, base, wanted, RdfFormat.TURTLE, home, entry))
    return cases


def read_microdata(case: Case) -> str:
    """With the suite's own registry beside ours: two cases are about vocabularies that exist nowhere else."""
    statements = StatementSet()
    registry = json.loads((CONFORMANCE_DIR / "microdata" / "test-registry.json").read_text(encoding="utf-8"))
    known = {
        prefix: {name: next(iter(means.values())) for name, means in entry["properties"].items()}
        for prefix, entry in registry.items()
        if not prefix.startswith("@")
    }
    document = turbohtml.parse(case.markup, positions=False)
    microdata.extract(document, case.base, statements, {**microdata.REGISTRY, **known})
    return statements.to_nquads()
