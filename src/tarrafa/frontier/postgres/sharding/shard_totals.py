"""Totals over shards: merges overviews, host counts, status facts and export catalogues of several servers."""

from collections import defaultdict
from typing import Any

from msgspec.structs import replace

from tarrafa.frontier.export_import.export_records import ExportCatalogue
from tarrafa.frontier.messages import (
    CollectionStatus,
    FrontierOverview,
    HostCounts,
    RegisteredWorker,
    RetryBatch,
    UrlLookup,
    UrlStatusFacts,
)
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.lookup import HOSTS_SHOWN, SAMPLES_SHOWN
from tarrafa.model import HostId

SUMMED_FIELDS = (
    "known", "fetched", "pending", "failed", "hosts", "pages_per_s", "handed_out", "dropped", "excluded", "too_deep",
    "visits", "requests", "bytes", "revisits", "changes", "passed_over", "table", "sites_chosen",
    "earlier", "requests_before", "visits_before", "aside", "again",
    "requisites", "requisites_queue",
)  # fmt: skip


def merge_overviews(views: list[FrontierOverview]) -> FrontierOverview:
    collections: dict[str, CollectionStatus] = {}
    nodes: dict[str, RegisteredWorker] = {}
    for view in views:
        for one in view.collections:
            before = collections.get(one.name)
            collections[one.name] = one if before is None else _sum_statuses(before, one)
        for node in view.nodes:
            other = nodes.get(node.name, replace(node, hosts=0))
            soonest = min(other.deadline_s, node.deadline_s)
            nodes[node.name] = replace(other, hosts=other.hosts + node.hosts, deadline_s=soonest)
    notes = [note for view in views for note in view.notes]
    return FrontierOverview(list(collections.values()), [nodes[name] for name in sorted(nodes)], notes)


def _sum_statuses(one: CollectionStatus, other: CollectionStatus) -> CollectionStatus:
    numbers: dict[str, Any] = {name: getattr(one, name) + getattr(other, name) for name in SUMMED_FIELDS}
    for name in ("to_sweep", "sweeping"):
        numbers[name] = getattr(one, name) or getattr(other, name)
    numbers["ended"] = max(one.ended, other.ended)
    for name in ("statuses", "refused", "types", "unkept", "calibration"):
        both = defaultdict(int, getattr(one, name))
        for key, value in getattr(other, name).items():
            both[key] += value
        numbers[name] = {key: value for key, value in both.items() if value}
    return replace(one, **numbers)


def sum_host_counts(found: list[HostCounts]) -> HostCounts:
    numbers = {name: sum(getattr(one, name) for one in found) for name in ("active", "waiting", "backed_off", "idle")}
    return HostCounts(**numbers, counted=all(one.counted for one in found))


def merge_status_facts(found: list[UrlStatusFacts]) -> UrlStatusFacts:
    numbers: dict[str, Any] = {
        name: sum(getattr(one, name) for one in found) for name in ("looked", "urls", "hosts", "waiting", "failed")
    }
    hour, day, week = (sum(one.lately[span] for one in found) for span in range(3))
    hosts = sorted((host for one in found for host in one.most), key=lambda host: (-host.urls, host.key))
    samples = sorted((url for one in found for url in one.samples), key=lambda url: (-url.at, url.url))
    return UrlStatusFacts(
        status=found[0].status,
        whole=all(one.whole for one in found),
        first=min((one.first for one in found if one.first is not None), default=None),
        last=max((one.last for one in found if one.last is not None), default=None),
        lately=(hour, day, week),
        most=hosts[:HOSTS_SHOWN],
        samples=samples[:SAMPLES_SHOWN],
        **numbers,
    )


def merge_catalogues(found: list[ExportCatalogue]) -> ExportCatalogue:
    """The first server's collections, with the counts of all servers."""
    first, *others = found
    collections = []
    for image in first.collections:
        counters = defaultdict(int, image.counters)
        for there in (one for other in others for one in other.collections if one.name == image.name):
            for bucket, count in there.counters.items():
                counters[bucket] = max(counters[bucket], count) if bucket == Bucket.ENDED else counters[bucket] + count
        collections.append(replace(image, counters=dict(counters)))
    return ExportCatalogue(collections, first.suffixes, first.deleted)


def merge_retries(found: list[RetryBatch]) -> RetryBatch:
    """Up to the cursor that all servers have reached: a server that is ahead repeats its part, which is harmless."""
    ends = [one.end for one in found if one.end is not None]
    end = min(ends, key=lambda place: (place.host, place.url), default=None)
    return RetryBatch(sum(one.urls for one in found), end)


def choose_lookup(found: list[UrlLookup]) -> UrlLookup:
    """The answer of the server that knows the URL, else of one that knows its host."""
    return next((one for one in found if one.urls), None) or next((one for one in found if one.host), found[0])


def sum_counts(found: list[int]) -> int:
    return sum(found)


def choose_text(found: list[bytes]) -> bytes:
    return next((text for text in found if text), b"")


def lowest_host(found: list[HostId | None]) -> HostId | None:
    return min((host for host in found if host is not None), default=None)
