"""A small Web, already crawled: some hundred records with links among them, in an archive of their own.

Shared by the tests of everything that follows the archive (graph, index, search, serve).
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.graph.graph_writer import graph_file
from tarrafa.graph.reader import GraphReader
from tarrafa.model import Link, Outcome, Page, PageDate, RobotsMeta, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows

COLLECTION = "small"
FIRST_AT = 1_790_000_000.0

PORTUGUESE = (
    "a rede de pesca redonda é lançada sobre a água por um pescador na beira do rio e volta com peixes de toda espécie "
    "entre as canoas do porto as crianças aprendem a costurar malhas finas que o mar não rompe nem o tempo desfaz "
    "as funções públicas do município publicam relatórios sobre educação saúde transporte e cultura todos os meses"
)
ENGLISH = (
    "the round net is thrown over shallow water by a fisher standing near the river and returns with fishes "
    "between the boats of the harbour children learn to mend fine meshes which neither sea nor weather will break "
    "libraries publish reports about education health transport and culture for everybody who likes reading them"
)


def a_record(
    url: str,
    visit: int = 1,
    depth: int = 1,
    links: Iterable[Link | str] = (),
    *,
    title: str = "",
    text: str = "corpo",
    language: str = "pt",
    status: int = 200,
    kept: bool | None = None,
    headings: tuple[str, ...] = (),
    robots: RobotsMeta | None = None,
    location: str = "",
    collection: str = COLLECTION,
    at: float = FIRST_AT,
    last_modified: str | None = None,
    published: PageDate | None = None,
    modified: PageDate | None = None,
    announced: float = 0.0,
    changed: bool = False,
    same_since: float = 0.0,
) -> VisitRecord:
    """One visit; a page comes with it when the status is 200."""
    ways = tuple(Link(link) if isinstance(link, str) else link for link in links)
    page = None
    if status == 200:
        page = Page(
            url, title, text, headings, ways, language, "utf-8", robots=robots or RobotsMeta(), published=published,
            modified=modified,
        )  # fmt: skip
    keep = status == 200 if kept is None else kept
    outcome = Outcome(
        status, at, keep, "text/html", location=location, last_modified=last_modified, announced=announced,
        changed=changed, same_since=same_since,
    )  # fmt: skip
    return VisitRecord(collection, url, visit, depth, outcome, page=page)


def graph_size(data: DataDirectory) -> tuple[int, int]:
    """How many nodes and edges the graph has."""
    with graph_file(data).reading() as connection:
        sql = "SELECT (SELECT count(*) FROM nodes), (SELECT value FROM counters WHERE name = 'edges')"
        ((nodes, edges),) = rows(connection, sql)
    return nodes, edges


def url_of(number: int) -> str:
    return f"http://h{number % 7}.br.test/p{number}.html" if number % 7 or number else "http://h0.br.test/"


def small_web(pages: int = 120, seed: int = 7) -> list[VisitRecord]:
    """Pages 0..n-1, each linked from an earlier one; every third in English; old ones have the most in-links."""
    rng = random.Random(seed)
    depth = {0: 0}
    links: dict[int, list[Link]] = {number: [] for number in range(pages)}
    for number in range(1, pages):
        parent = rng.randrange(max(1, number // 2 + 1))
        depth[number] = depth[parent] + 1
        links[parent].append(Link(url_of(number), f"veja a página {number}"))
    for number in range(pages):
        for _ in range(rng.randrange(6)):
            target = int(pages * rng.random() ** 3)
            links[number].append(Link(url_of(target), f"mais sobre {target}", "nofollow" if rng.random() < 0.1 else ""))
        links[number].append(Link(f"http://longe.test/{number % 11}", "longe"))
    return [_page(number, depth[number], links[number], rng) for number in range(pages)]


def _page(number: int, depth: int, links: list[Link], rng: random.Random) -> VisitRecord:
    english = number % 3 == 2
    vocabulary = (ENGLISH if english else PORTUGUESE).split()
    words = [rng.choice(vocabulary) for _ in range(120)]
    return a_record(
        url_of(number),
        depth=depth,
        links=links,
        title=f"{'The net' if english else 'A tarrafa'} number{number}",
        text=" ".join(words) + f" only{number} here.",
        language="en" if english else "pt",
        headings=(" ".join(words[:4]),),
        at=FIRST_AT + number * 3600,
    )


def write(data: DataDirectory, records: Iterable[VisitRecord], worker: str = "w1") -> None:
    """Append the records to an archive file of their own, and make them durable."""
    writer = WarcWriter(data.archive, worker, FIRST_AT)
    for record in records:
        writer.append(record, None)
    writer.close()


def new_data(root: Path) -> DataDirectory:
    data = DataDirectory(root)
    data.create()
    return data


def in_links_in(graph: GraphReader, ids: Sequence[bytes], collection: str | None = None) -> dict[bytes, int]:
    return {key: in_links for key, (in_links, _) in graph.standings(ids, collection).items()}


def ranks_in(graph: GraphReader, ids: Sequence[bytes], collection: str | None = None) -> dict[bytes, float]:
    return {key: rank for key, (_, rank) in graph.standings(ids, collection).items()}
