"""A small Web of data: what the demo's pages state, and what nobody should."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.snapshots import publish

SCHEMA = "https://schema.org/"
TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
DATE_TIME = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")
FETCHED, COLLECTION = NamedNode("urn:tarrafa:fetched"), NamedNode("urn:tarrafa:collection")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE_IRI = "http://evil.test/'onmouseover='alert(3)"


def page_of(number: int) -> str:
    return f"http://h{number % 5}.br.test/p{number}.html"


def thing(page: str, kind: str, **properties: object) -> Iterator[Quad]:
    """A thing and its properties; a dictionary is one thing inside it, with its `kind`."""
    node = BlankNode()
    yield from _node(NamedNode(page), node, kind, properties)


def _node(graph: NamedNode, node: BlankNode, kind: str, properties: dict[str, object]) -> Iterator[Quad]:
    yield Quad(node, TYPE, NamedNode(SCHEMA + kind), graph)
    for name, value in properties.items():
        if isinstance(value, dict):
            part = BlankNode()
            yield Quad(node, NamedNode(SCHEMA + name), part, graph)
            yield from _node(graph, part, value["kind"], {key: it for key, it in value.items() if key != "kind"})
        else:
            yield Quad(node, NamedNode(SCHEMA + name), Literal(str(value)), graph)


def fetched(page: str, number: int, collection: str = "demo") -> Iterator[Quad]:
    when = Literal(f"2026-11-16T10:{number // 60 % 60:02d}:{number % 60:02d}Z", datatype=DATE_TIME)
    yield Quad(NamedNode(page), FETCHED, when, DefaultGraph())
    yield Quad(NamedNode(page), COLLECTION, Literal(collection), DefaultGraph())


def small_web(pages: int = 30) -> Iterator[Quad]:
    """Of every three pages one is of a person, one of an event, one of a product."""
    for number in range(pages):
        page = page_of(number)
        yield from fetched(page, number)
        if number % 3 == 0:
            at = {"kind": "Organization", "name": f"Oficina {number}"}
            yield from thing(page, "Person", name=f"Ana Silva {number}", jobTitle="pescadora", worksFor=at)
        elif number % 3 == 1:
            date = f"202{6 + number % 2}-{1 + number % 12:02d}-03T19:30"
            by = {"kind": "Person", "name": f"Davi {number}"}
            yield from thing(page, "Event", name=f"Festa {number}", startDate=date, performer=by)
        else:
            price = {"kind": "Offer", "price": f"{pages - number}.90", "priceCurrency": "BRL"}
            yield from thing(page, "Product", name=f"Rede {number}", offers=price)


def hostile_page() -> Iterator[Quad]:
    page = "http://evil.test/"
    yield from fetched(page, 0)
    graph, name = NamedNode(page), NamedNode(SCHEMA + "name")
    for node in (NamedNode(HOSTILE_IRI), NamedNode("javascript:alert(4)")):
        yield Quad(node, TYPE, NamedNode(SCHEMA + "Person"), graph)
        yield Quad(node, name, Literal(HOSTILE), graph)
        yield Quad(node, NamedNode(SCHEMA + "jobTitle"), Literal('"><b onclick=alert(5)>', language="pt"), graph)


def new_data(root: Path, parts: int = 1) -> DataDirectory:
    """An empty data directory; of several parts where wanted."""
    data = DataDirectory(root)
    data.create()
    if parts > 1:
        (root / "index" / "shards").write_text(f"{parts}\n")
    return data


def store_of(data: DataDirectory) -> Store:
    data.triples.mkdir(parents=True, exist_ok=True)
    return Store(str(data.triples / "store"))


def filled(data: DataDirectory, quads: Iterable[Quad]) -> Store:
    """A store that holds this, published. Whoever wants to write on keeps it."""
    store = store_of(data)
    store.extend(quads)
    publish(store, data)
    return store
