"""How fast do sites move from one PostgreSQL server to another?

    python benchmarks/spread.py [--urls 200000] [--per-host 50]

A frontier of so many URLs on one server is spread over two, at rest, with the usual durability of both. Beside it, in
the same run, some of its hosts travel as images (`tarrafa export`'s way: out, in, forgotten): the peer of the ratio.
"""

import argparse
import asyncio
import time

from tests.contract.postgres_process import Postgres

from tarrafa import config
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.api import DiscoveredUrl
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.rebalance.spreading import Spread
from tarrafa.frontier.transfer.host_export import URLS_MAX, FrontierCursor
from tarrafa.parse.url import host_id, host_key, url_id

BATCH = 4_000
TRAVELLERS = 10_000  # URLs that go as images, roughly
NAME = "bench"


def offer(number: int, per_host: int) -> DiscoveredUrl:
    url = f"http://www.h{number // per_host}.br/section-{number % 97}/page-{number}.html"
    key = host_key(url)
    return DiscoveredUrl(host_id(key), url_id(url), url, key, 1 + number % 5)


async def fill(frontier: PostgresFrontier, urls: int, per_host: int) -> None:
    collection = config.collection_from_table(
        {"name": NAME, "roots": ["http://a.br/"], "scope": {"hosts": ["*"]}}, "bench"
    )
    row = await frontier.open_collection(config.encode_collection(collection))
    for start in range(0, urls, BATCH):
        await frontier.discover(row.id, [offer(number, per_host) for number in range(start, min(start + BATCH, urls))])


async def send_images(source: PostgresFrontier, target: PostgresFrontier) -> tuple[int, int, float]:
    """Hosts, URLs and seconds, for some of them."""
    for collection in (await source.export_catalogue()).collections:
        await target.import_collection(collection)
    began, hosts, urls = time.monotonic(), 0, 0
    place: FrontierCursor | None = FrontierCursor()
    while place is not None and urls < TRAVELLERS:
        album = await source.export_hosts(place, URLS_MAX)
        await target.import_hosts(album.images)
        for image in album.images:
            await source.forget_host(image.id)
        hosts, urls = hosts + len(album.images), urls + sum(image.urls for image in album.images)
        place = album.end
    return hosts, urls, time.monotonic() - began


async def as_images(dsn: str, other: str) -> float:
    source, target = PostgresFrontier([dsn], bundled_suffix_list()), PostgresFrontier([other], bundled_suffix_list())
    hosts, urls, took_s = await send_images(source, target)
    print(f"as images: {hosts:,} hosts, {urls:,} URLs, {hosts / took_s:,.0f} hosts/s, {urls / took_s:,.0f} URLs/s")
    await source.close()
    await target.close()
    return urls / took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--urls", type=int, default=200_000)
    parser.add_argument("--per-host", type=int, default=50)
    options = parser.parse_args()
    servers = [Postgres(durable=True), Postgres(durable=True)]
    try:
        dsns = [server.database("bench") for server in servers]
        frontier = PostgresFrontier(dsns[:1], bundled_suffix_list())
        asyncio.run(fill(frontier, options.urls, options.per_host))
        asyncio.run(frontier.close())
        steps: dict[str, float] = {}
        last = [time.monotonic()]

        def tell(step: str, size: int) -> None:
            now = time.monotonic()
            steps[step] = steps.get(step, 0.0) + now - last[0]
            last[0] = now

        with Spread(dsns, bundled_suffix_list(), tell=tell) as moving:
            done = moving.run()
        rate = done.urls / done.took_s
        print(f"spread: {done.hosts:,} hosts, {done.urls:,} URLs in {done.took_s:.1f} s:"
              f" {done.hosts / done.took_s:,.0f} hosts/s, {rate:,.0f} URLs/s")  # fmt: skip
        print("  by step: " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items() if seconds > 0.05))
        images = asyncio.run(as_images(dsns[0], servers[1].database("images")))
        print(f"ratio: {rate / images:.1f}")
    finally:
        for server in servers:
            server.remove()


if __name__ == "__main__":
    main()
