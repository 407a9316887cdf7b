"""Pages with the fingerprints that parsing gives them."""

from typing import Any

import msgspec
import pytest

from tarrafa.graph import follower as graph
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.index import follower as index
from tarrafa.model import Link, SearchResult, VisitRecord
from tarrafa.parse.fingerprint import content_id, fold, simhash
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import scatter_gather
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import COLLECTION, PORTUGUESE, a_record, write

LONG = f"{PORTUGUESE} {' '.join(reversed(PORTUGUESE.split()))} {PORTUGUESE[::-1]}"  # over 100 different words and pairs


def a_page(
    url: str,
    text: str,
    title: str = "",
    *,
    visit: int = 1,
    links: tuple[Link, ...] = (),
    collection: str = COLLECTION,
) -> VisitRecord:
    """One visit to a page, as the archive has it."""
    record = a_record(url, visit, title=title, text=text, links=links, collection=collection)
    assert record.page is not None
    folded = fold(f"{title}\n{text}")
    page = msgspec.structs.replace(record.page, content_id=content_id(folded), simhash=simhash(folded))
    return msgspec.structs.replace(record, page=page)


PATIENCE_S = 60.0  # with a vocabulary: it is there in milliseconds


class Asker:
    """Asks with the words of a `Question`, without saying `Question` each time."""

    def __init__(self, data: DataDirectory) -> None:
        self.data, self.searcher = data, Searcher.open(data, patience_s=PATIENCE_S)

    def search(self, text: str, n: int = 10, offset: int = 0, **chosen: Any) -> SearchResult:
        return self.searcher.search(SearchRequest(text, n, offset, **chosen))


def fill(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> Asker:
    """Archived, linked, ranked and indexed."""
    write(data, records, worker)
    graph.catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    index.catch_up(data)
    return Asker(data)


def set_block(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """So many matches are ranked together."""
    monkeypatch.setattr(scatter_gather, "BLOCK_MATCHES", block)
