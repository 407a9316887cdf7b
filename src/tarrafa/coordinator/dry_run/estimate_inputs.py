"""Gathers the inputs of an estimate: known hosts from the link graph, robots.txt delays, sampled page sizes.

Sources: the survey of the link graph (pages of each host), the frontier (what waits, robots.txt) and the archive (a
sample: size and duration of answers). Promises: contacts no other machine than the frontier's; reads bounded amounts,
however large the crawl; what is not known is left out, and `crawl_estimate` assumes it.
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from statistics import mean

import msgspec

from tarrafa import config
from tarrafa.archive.warc_reader import follow, visit_lengths
from tarrafa.config import Collection
from tarrafa.coordinator.dry_run.crawl_estimate import EstimateInputs, KnownHost
from tarrafa.crawl.explain.frontier_lookup import open_frontier_lookup
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.fetcher import user_agent
from tarrafa.errors import ConfigError, DataError, Unreachable
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.address import Address
from tarrafa.frontier.messages import CollectionRow, FrontierOverview
from tarrafa.graph.sites import HostVisitSummary, SiteReader
from tarrafa.model import NO_REQUEST, UrlRole
from tarrafa.parse.url import host_key
from tarrafa.runtime.data_dir import DataDirectory

HOSTS_READ_MAX = 1_000_000
HOSTS_ASKED_MAX = 100  # the largest, whose robots.txt is read: they bound the time
FILES_SAMPLED_MAX, RECORDS_PER_FILE_MAX = 8, 500  # of the archive, the newest
SAMPLE_MIN = 20  # pages
FILES_MEASURED_MAX = 100_000
_NO_REQUEST_STATUSES = frozenset(str(int(status)) for status in NO_REQUEST)


async def gather_estimate_inputs(
    data: DataDirectory, collection: Collection, workers: int = 2, address: Address | None = None
) -> EstimateInputs:
    """The inputs of the estimate; without a data directory, the roots only."""
    roots = await asyncio.to_thread(lambda: list(dict.fromkeys(map(host_key, collection.roots))))
    if not data.version.exists() and address is None:
        return EstimateInputs(unmet=roots, workers=workers)
    try:
        async with open_frontier_lookup(data, address) as lookup:
            overview, rows = await lookup.overview(), await lookup.collections()
        alike = await asyncio.to_thread(_with_same_scope, rows, collection)
    except (DataError, Unreachable):
        overview, alike = FrontierOverview([], []), set()
    done = {one.name for one in overview.collections if not one.pending and not one.handed_out and one.known}
    hosts = await asyncio.to_thread(_known_hosts, data, collection, alike, done, overview)
    hosts = await _with_delays(data, collection, hosts, address)
    measured = await asyncio.to_thread(_sample_archive, data, collection)
    met = {host.key for host in hosts}
    unmet = await asyncio.to_thread(lambda: [key for key in roots if key not in met])
    pages = sum(one.fetched for one in overview.collections)
    return EstimateInputs(
        hosts=hosts,
        unmet=unmet,
        again=bool(alike & done),
        answer_s=measured[0],
        page_bytes=measured[1],
        kept_bytes=await asyncio.to_thread(_kept_bytes, data, pages),
        workers=workers,
    )


def _with_same_scope(rows: list[CollectionRow], collection: Collection) -> set[str]:
    """The collections that look for the same pages."""
    found, wanted = set(), _scope_key(collection)
    for row in rows:
        try:
            other = config.decode_collection(row.config)
        except ConfigError:  # of another version
            continue
        if _scope_key(other) == wanted:
            found.add(row.name)
    return found


def _scope_key(collection: Collection) -> tuple[object, ...]:
    fetch = collection.fetch
    return (
        collection.root_set, collection.scope, collection.strategy.order, collection.politeness.robots,
        fetch.sitemaps, fetch.feeds, collection.identity,
    )  # fmt: skip


def _known_hosts(
    data: DataDirectory, collection: Collection, alike: set[str], done: set[str], overview: FrontierOverview
) -> list[KnownHost]:
    """The hosts in scope, each as a collection of the same scope knows it, else the one that fetched most of it."""
    there: Counter[str] = Counter()
    admission, best = Admission(collection), dict[str, tuple[tuple[bool, int], HostVisitSummary]]()
    roots = set(map(host_key, collection.roots))
    try:
        for sums in SiteReader(data).hosts(HOSTS_READ_MAX):
            there[sums.collection] += sums.fetched
            if sums.visited and (sums.host in roots or admission.has_host(f"{sums.host}/")):
                rank = (sums.collection in alike, sums.fetched)
                if sums.host not in best or rank > best[sums.host][0]:
                    best[sums.host] = (rank, sums)
    except DataError:  # no survey yet
        return []
    kept = {one.name: min(1.0, one.fetched / there[one.name]) for one in overview.collections if there[one.name]}
    return [
        KnownHost(
            sums.host,
            sums.fetched
            * kept.get(sums.collection, 1.0),  # the survey also counts sitemaps and pages that were not kept
            sum(count for status, count in sums.statuses.items() if status not in _NO_REQUEST_STATUSES),
            sums.known,
            whole=sums.collection in done,
            alike=is_alike,
        )
        for (is_alike, _), sums in best.values()
    ]


async def _with_delays(
    data: DataDirectory, collection: Collection, hosts: list[KnownHost], address: Address | None
) -> list[KnownHost]:
    """The hosts; the largest ones with the Crawl-delay of their robots.txt, as it was last seen."""
    largest = {host.key for host in nlargest(HOSTS_ASKED_MAX, hosts, key=lambda host: host.known)}
    agent, delays = user_agent(collection), dict[str, float]()
    try:
        async with open_frontier_lookup(data, address) as lookup:
            for key in largest:
                facts = (await lookup.facts(f"{key}/")).host
                if facts is not None and facts.robots:
                    delays[key] = parse_robots(facts.robots).crawl_delay(agent) or 0.0
    except (DataError, Unreachable):
        return hosts
    return [msgspec.structs.replace(host, asked_s=delays.get(host.key, 0.0)) for host in hosts]


def _sample_archive(data: DataDirectory, collection: Collection) -> tuple[float | None, float | None]:
    """Mean duration of an answer and size of a page, on the collection's hosts or else on any; None: too few pages."""
    admission = Admission(collection)
    own, any_host = list[tuple[float, int]](), list[tuple[float, int]]()
    try:
        for url, elapsed_s, length in _recent_pages(data.archive):
            any_host.append((elapsed_s, length))
            if admission.has_host(url):
                own.append((elapsed_s, length))
    except (DataError, OSError):
        return None, None
    chosen = own if len(own) >= SAMPLE_MIN else any_host
    if len(chosen) < SAMPLE_MIN:
        return None, None
    elapsed, lengths = zip(*chosen, strict=True)
    return mean(elapsed), mean(lengths)


def _recent_pages(archive: Path) -> Iterator[tuple[str, float, int]]:
    """Pages of the newest files."""
    files = visit_lengths(archive) if archive.exists() else {}
    newest = nlargest(FILES_SAMPLED_MAX, files, key=lambda name: (archive / f"{name}.durable").stat().st_mtime)
    for name in newest:
        for entry in islice(follow(archive, {}, upto={name: files[name]}), RECORDS_PER_FILE_MAX):
            outcome = entry.record.outcome
            if outcome.kept and outcome.role == UrlRole.PAGE and outcome.status == 200:
                yield entry.record.url, outcome.elapsed_s, outcome.length


def _kept_bytes(data: DataDirectory, pages: int) -> float | None:
    """Bytes on disk for each page so far."""
    if pages < SAMPLE_MIN:
        return None
    files = [data.frontier]
    for folder in (data.archive, data.captures, data.graph, data.root / "index", data.root / "triples"):
        found = (Path(where) / name for where, _, names in os.walk(folder) for name in names)
        files += islice(found, FILES_MEASURED_MAX)
    size = 0
    for file in files:
        with contextlib.suppress(OSError):  # the file is gone
            size += file.stat().st_size
    return size / pages
