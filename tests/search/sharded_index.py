"""The same pages as one index, in parts, and behind a URL."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.search.remote_shard import RemoteShard
from tarrafa.search.request import Shard
from tarrafa.search.scatter_gather import open_local_shard
from tests.graph.archived_web import new_data, small_web, write
from tests.search.sample_pages import LONG, a_page
from tests.server.conftest import RunningSite

TOKEN = Token(b"a token of many letters")
PATIENCE_S = 30.0  # what no test waits for


def pages() -> list[VisitRecord]:
    """A small Web of seven hosts, and others with copies, a common word, and one of a second collection. Some are ten
    times as long as others."""
    copies = [a_page(f"http://m{n}.copias.br/{'x' * n}", f"espelho {LONG}", "A água como espelho") for n in range(4)]
    long = ["palavra " * (20 + 15 * n) for n in range(30)]
    many = [a_page(f"http://w{n}.muitos.br/", f"rede comum {n} {text}", f"Rede {n}") for n, text in enumerate(long)]
    again = [a_page("http://h1.br.test/p1.html", "a rede de outra coleção", collection="outra")]
    return [*small_web(120), *copies, *many, *again]


def divided(root: Path, into: str, records: Iterable[VisitRecord] | None = None) -> DataDirectory:
    """An archive of these pages, with an index in so many parts."""
    data = new_data(root)
    shards.set_layout(data, shards.parse_layout(into, "test"))
    write(data, pages() if records is None else records)
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    return data


@contextmanager
def behind_a_url(data: DataDirectory, token: Token = TOKEN) -> Iterator[RemoteShard]:
    with RunningSite(data, shard_token=token) as running:
        shard = RemoteShard(running.address, token, limit_s=PATIENCE_S)
        try:
            yield shard
        finally:
            shard.close()


def body(name: str, root: Path) -> Iterator[Shard]:
    """One body of the protocol: `local 4`, `remote 1`."""
    where, into = name.split()
    data = divided(root, into)
    if where == "local":
        yield open_local_shard(data)
        return
    with behind_a_url(data) as shard:
        yield shard
