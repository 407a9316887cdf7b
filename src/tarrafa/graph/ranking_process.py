"""Ranking process: computes PageRank of all pages and the link sums of hosts and sites.

`python -m tarrafa.graph.ranking_process`: reads the graph once into arrays, computes the ranks of all nodes and the
sums of all hosts and sites, writes both, and ends. A process of its own, because it takes memory and a processor for
seconds: the follower that starts it continues, and readers use the former results until the new ones are complete.
Promises: killed at any moment it leaves the former results; the rank file, which names the state of the graph that it
was computed from, is written last, so that an interrupted ranking is repeated. One at a time (by a lock). Knows nothing
of schedules: see `ranking_schedule`.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from tarrafa.clock import Clock, boottime
from tarrafa.errors import data_error_from_os
from tarrafa.graph import rank_file, sites
from tarrafa.graph.adjacency import NO_LINKS, GraphArrays, HostGraph, host_graph, read_graph, site_pairs, status_counts
from tarrafa.graph.pagerank import pagerank
from tarrafa.graph.rank_file import RankFile, RankFileHeader
from tarrafa.graph.sites import SiteRow
from tarrafa.graph.store import graph_file, open_reader
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.url import host_key, host_name
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, try_lock
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.sqlite import rows

NICENESS = 10
FETCHED_STATUSES = frozenset({200, 304})


class GroupNames(msgspec.Struct, frozen=True):
    """The names of the groups of the graph arrays: collection, host key, and the number of the site."""

    collections: list[str]
    keys: list[str]
    site_of: list[int]
    sites: list[tuple[str, str]]  # collection and name


def compute_rankings(data: DataDirectory, clock: Clock | None = None) -> RankFileHeader | None:
    """Compute everything from the present graph. None: another process is computing."""
    lock = try_lock(data.graph / "survey.lock")
    if lock is None:
        return None
    with lock:
        return _compute_rankings(data, clock or Clock.from_environment())


def _compute_rankings(data: DataDirectory, clock: Clock) -> RankFileHeader:
    begun = boottime()
    with closing(open_reader(data)) as connection, graph_file(data).errors(connection):
        found = read_graph(connection, data.graph)
        names = _names(connection, found)
    counting = len(found.links.sources)
    values = _ranks(data, found, names)
    found.links = NO_LINKS  # frees memory for the rest
    _write_sites(data, found, names, values, clock.now())
    stated = RankFileHeader(found.incarnation, found.turned, found.nodes, counting, clock.now(), boottime() - begun)
    rank_file.write_ranks(data, stated, values.tobytes())
    return stated


def _ranks(data: DataDirectory, found: GraphArrays, names: GroupNames) -> NDArray[np.float32]:
    """Start from the former ranks, if there are any of this incarnation of the graph."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.collections))}
    # the last one: empty places
    block_of = np.array([*(numbers[name] for name in names.collections), len(numbers)], np.int32)
    before = RankFile.open(data, found.incarnation).values
    start = np.asarray(before, np.float32) if len(before) else None
    return pagerank(found.links, block_of[found.groups], start).ranks


def _names(connection: apsw.Connection, found: GraphArrays) -> GroupNames:
    collections = {number: (name, suffixes) for number, name, suffixes in rows(
        connection, "SELECT collection, name, suffixes FROM collections"
    )}  # fmt: skip
    keys, site_of, numbers = [], [], dict[tuple[str, str], int]()
    for collection, node in zip(found.collections, found.first_nodes, strict=True):
        name, suffixes = collections[collection]
        url = rows(connection, "SELECT url FROM nodes WHERE node = ?", (node,))[0][0]
        keys.append(host_key(url))
        site_of.append(numbers.setdefault((name, _suffixes(suffixes).site(host_name(url))), len(numbers)))
    return GroupNames([collections[number][0] for number in found.collections], keys, site_of, list(numbers))


@lru_cache(maxsize=16)
def _suffixes(added: str) -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list(), msgspec.json.decode(added, type=tuple[str, ...]))


def _write_sites(
    data: DataDirectory, found: GraphArrays, names: GroupNames, values: NDArray[np.float32], now: float
) -> None:
    keys, counts = found.pairs.totals()
    site_of = np.array(names.site_of, np.int64)
    hosts = host_graph(keys, counts, len(names.keys))
    among = host_graph(*site_pairs(keys, counts, site_of), len(names.sites))
    weights = np.bincount(found.groups, weights=values, minlength=len(names.keys))[: len(names.keys)].astype(np.float64)
    path = sites.path_of(data)
    new = path.with_name(path.name + ".new")
    try:
        rows_of = _site_rows(found, names, among, weights), _host_rows(found, names, hosts, weights)
        sites.write_sites(new, now, found.nodes, found.edges, *rows_of)
        _sync(new)
        new.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise data_error_from_os(error, path) from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _host_rows(
    found: GraphArrays, names: GroupNames, among: HostGraph, weights: NDArray[np.float64]
) -> Iterator[SiteRow]:
    statuses = _statuses(found, range(len(names.keys)))
    for group, (collection, key) in enumerate(zip(names.collections, names.keys, strict=True)):
        name = key.partition("://")[2].rpartition(":")[0]
        figures = _figures(statuses[group], float(weights[group]))
        lists = among.incoming.of(group), among.outgoing.of(group)
        yield SiteRow(collection, name, *figures, *lists, key=key, site=names.site_of[group])


def _site_rows(
    found: GraphArrays, names: GroupNames, among: HostGraph, weights: NDArray[np.float64]
) -> Iterator[SiteRow]:
    statuses, site_of = _statuses(found, names.site_of), np.array(names.site_of, np.int64)
    sums, hosts = np.bincount(site_of, weights=weights), np.bincount(site_of)
    for number, (collection, name) in enumerate(names.sites):
        figures = _figures(statuses[number], float(sums[number]))
        lists = among.incoming.of(number), among.outgoing.of(number)
        yield SiteRow(collection, name, *figures, *lists, hosts=int(hosts[number]))


def _statuses(found: GraphArrays, number_of: Sequence[int]) -> dict[int, Counter[int]]:
    """The numbers of URLs by status, for each host or site; `number_of`: its number for each group."""
    statuses: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for group, status, count in status_counts(found):
        statuses[number_of[group]][status] += count
    return statuses


def _figures(statuses: Counter[int], rank: float) -> tuple[int, int, int, float, dict[int, int]]:
    """URLs known, visited, fetched successfully; their rank; the statuses of those visited."""
    seen = {status: count for status, count in statuses.items() if status}
    fetched = sum(count for status, count in seen.items() if status in FETCHED_STATUSES)
    return statuses.total(), sum(seen.values()), fetched, rank, seen


def main(data: DataDirectory) -> None:
    """Started by `RankingScheduler`."""
    os.nice(NICENESS)
    compute_rankings(data)


if __name__ == "__main__":
    run_child(main)
