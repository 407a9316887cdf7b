"""Fetcher: bandwidth of a collection, and nothing is fetched while too much waits to be parsed."""

import asyncio
from pathlib import Path
from typing import cast

from tarrafa.crawl.worker import fetcher as fetcher_module
from tarrafa.crawl.worker.fetcher import Fetcher, RequestCredentials, build_request
from tarrafa.crawl.worker.resource_limits import ResourceShare
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.worker.session_harness import a_collection

URL = "http://www.a.br/"


class FakeClient:
    """Answers at once."""

    def __init__(self) -> None:
        self.sent: list[FetchRequest] = []

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        self.sent.append(request)
        return FetchResponse(200, raw_head=b"HTTP/1.1 200 OK\r\n\r\n", raw_body=b"abc")


def a_fetcher(tmp_path: Path, client: FakeClient, stats: WorkerStats) -> Fetcher:
    data = DataDirectory(tmp_path / "d")
    data.create()
    return Fetcher(cast("HttpClient", client), RequestCredentials(data), ResourceShare(data, 2, 100), stats)


async def test_requests_of_a_collection_share_this_workers_part_of_its_bandwidth(tmp_path):
    client, stats = FakeClient(), WorkerStats()
    fetcher = a_fetcher(tmp_path, client, stats)
    limited, unlimited = a_collection(fetch={"bandwidth": 1_000_000}), a_collection()
    for collection in (limited, limited, unlimited, a_collection(fetch={"bandwidth": 4_000_000})):
        await fetcher.fetch(build_request(URL, collection), collection)
    first, second, third, fourth = (request.limiter for request in client.sent)
    assert first is not None
    assert first is second
    assert first.rate == 500_000
    assert third is None
    assert fourth is not None
    assert fourth.rate == 2_000_000, "as it is configured by now"
    assert stats.bytes == 4 * len(b"HTTP/1.1 200 OK\r\n\r\nabc")


async def test_nothing_is_fetched_while_too_many_bytes_wait_to_be_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(fetcher_module, "UNPARSED_BYTES_MAX", 100)

    client, collection = FakeClient(), a_collection()
    fetcher = a_fetcher(tmp_path, client, WorkerStats())
    with fetcher.hold_body(100):
        await fetcher.fetch(build_request(URL, collection), collection)
        with fetcher.hold_body(1):
            pending = asyncio.create_task(fetcher.fetch(build_request(URL, collection), collection))
            await asyncio.sleep(0)  # lets the loop run once, so that the fetch begins
            assert len(client.sent) == 1
        await pending
    assert len(client.sent) == 2
