"""Prometheus metrics of collections, nodes and processes (/metrics).

Promises: each response is made from the same snapshot as the pages; conventional names and base units; values that only
grow are counters. There are no labels of hosts or URLs: the number of series is that of collections, statuses, nodes
and processes.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot, NodeSnapshot, SystemSnapshot
from tarrafa.coordinator.node.messages import LogState

CONTENT_TYPE = CONTENT_TYPE_LATEST
COLLECTION_STATES = ("ready", "waiting", "running", "paused", "stopped", "finished")
COLLECTION, NODE, PROCESS = ["collection"], ["node"], ["node", "process", "role"]


def prometheus_text(snapshot: SystemSnapshot, version: str) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_SnapshotCollector(snapshot, version))
    return generate_latest(registry)


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: SystemSnapshot, version: str) -> None:
        self._snapshot, self._version = snapshot, version

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("tarrafa", "What answers.", value={"version": self._version})
        yield from _collections(self._snapshot.collections)
        yield from _nodes(self._snapshot.nodes)
        yield from _scrubs(self._snapshot.nodes)
        yield from _logs(self._snapshot.nodes)
        yield from _processes(self._snapshot.nodes)


def _collections(collections: list[CollectionSnapshot]) -> Iterator[Metric]:
    counters: dict[str, tuple[str, Callable[[CollectionSnapshot], float]]] = {
        "visits": ("Visits that are over.", lambda one: one.status.visits),
        "requests": ("Requests made.", lambda one: one.status.requests),
        "revisits": ("Visits to pages that were kept before.", lambda one: one.status.revisits),
        "changes": ("Revisits that found another text.", lambda one: one.status.changes),
        "received_bytes": ("Bytes of documents received.", lambda one: one.status.bytes),
    }
    for name, (help_text, value) in counters.items():
        family = CounterMetricFamily(f"tarrafa_{name}", help_text, labels=COLLECTION)
        for one in collections:
            family.add_metric([one.name], value(one))
        yield family
    by_status = CounterMetricFamily("tarrafa_responses", "Visits by status; negative ones are ours.",
                                    labels=["collection", "status"])  # fmt: skip
    refused = GaugeMetricFamily("tarrafa_refused_urls", "URLs refused without a visit, by status.",
                                labels=["collection", "status"])  # fmt: skip
    urls = GaugeMetricFamily("tarrafa_urls", "Known URLs by what became of them; one that is to be visited again is "
                             "pending.", labels=["collection", "state"])  # fmt: skip
    hosts = GaugeMetricFamily("tarrafa_hosts", "Hosts with work, by what they do.", labels=["collection", "state"])
    state = GaugeMetricFamily(
        "tarrafa_collection_state", "1 for the state that it is in.", labels=["collection", "state"]
    )
    pages = GaugeMetricFamily("tarrafa_pages", "Pages kept.", labels=COLLECTION)
    searchable = GaugeMetricFamily("tarrafa_searchable_pages", "Pages in the index of this machine.", labels=COLLECTION)
    unsearchable = GaugeMetricFamily("tarrafa_unsearchable_pages", "Pages kept and not in the index here, by reason.",
                                     labels=["collection", "reason"])  # fmt: skip
    fresh = GaugeMetricFamily("tarrafa_fresh_ratio", "Estimated share of pages that are as we have them.",
                              labels=COLLECTION)  # fmt: skip
    for one in collections:
        status, sample = one.status, one.sample
        pages.add_metric([one.name], status.fetched)
        if sample.fresh is not None:
            fresh.add_metric([one.name], sample.fresh)
        for counted in one.statuses:
            by_status.add_metric([one.name, str(counted.status)], counted.count)
            refused.add_metric([one.name, str(counted.status)], counted.refused)
        if one.pages is not None:
            searchable.add_metric([one.name], one.pages.searchable)
            for reason in ("noindex", "taken_down", "waiting", "elsewhere"):
                unsearchable.add_metric([one.name, reason], getattr(one.pages, reason))
        known = {"fetched": status.fetched - status.again, "pending": status.pending, "handed_out": status.handed_out,
                 "failed": status.failed, "dropped": status.dropped, "excluded": status.excluded,
                 "too_deep": status.too_deep, "passed_over": status.passed_over, "aside": status.aside}  # fmt: skip
        for name, count in known.items():
            urls.add_metric([one.name, name], count)
        for name, count in (("active", sample.active), ("waiting", sample.waiting), ("backed_off", sample.backed_off)):
            hosts.add_metric([one.name, name], count)
        for name in COLLECTION_STATES:
            state.add_metric([one.name, name], float(one.state == name))
    yield from (by_status, refused, urls, hosts, state, pages, searchable, unsearchable, fresh)


def _nodes(nodes: list[NodeSnapshot]) -> Iterator[Metric]:
    gauges: dict[str, tuple[str, Callable[[NodeSnapshot], float]]] = {
        "up": ("Whether it was heard of in the last seconds.", lambda one: float(not one.node.is_silent)),
        "cpu_ratio": ("Use of all its cores.", lambda one: one.node.beat.machine.cpu),
        "load1": ("Load of the last minute.", lambda one: one.node.beat.machine.load),
        "memory_bytes": ("Memory.", lambda one: one.node.beat.machine.memory_bytes),
        "memory_free_bytes": ("Memory that could be had.", lambda one: one.node.beat.machine.memory_free_bytes),
        "disk_bytes": ("Size of the disk.", lambda one: one.node.beat.machine.disk_bytes),
        "disk_free_bytes": ("Room on the disk.", lambda one: one.node.beat.machine.disk_free_bytes),
        "clock_ahead_seconds": ("By how much its clock is wrong.", lambda one: one.node.clock_ahead_s),
    }
    for name, (help_text, value) in gauges.items():
        family = GaugeMetricFamily(f"tarrafa_node_{name}", help_text, labels=NODE)
        for one in nodes:
            family.add_metric([one.node.name], value(one))
        yield family


def _scrubs(nodes: list[NodeSnapshot]) -> Iterator[Metric]:
    at = GaugeMetricFamily("tarrafa_verify_last_timestamp_seconds", "When all data were last verified.", labels=NODE)
    took = GaugeMetricFamily("tarrafa_verify_duration_seconds", "How long that took.", labels=NODE)
    losses = GaugeMetricFamily("tarrafa_verify_known_losses", "Visits that are known to be lost.", labels=NODE)
    findings = GaugeMetricFamily(
        "tarrafa_verify_findings", "What it found, by how bad it is.", labels=["node", "severity"]
    )
    for one in nodes:
        if (scrub := one.node.beat.scrub) is not None:
            at.add_metric([one.node.name], scrub.at)
            took.add_metric([one.node.name], scrub.took_s)
            losses.add_metric([one.node.name], scrub.known_losses)
            for severity in ("lost", "derived", "harmless"):
                findings.add_metric([one.node.name, severity], getattr(scrub, severity))
    yield from (at, took, losses, findings)


def _logs(nodes: list[NodeSnapshot]) -> Iterator[Metric]:
    """Of nodes that share one archive."""
    gauges: dict[str, tuple[str, Callable[[LogState], float]]] = {
        "log_behind_segments": ("Segments of the log that are not here yet.", lambda log: log.behind),
        "log_behind_seconds": ("Age of the oldest of them.", lambda log: log.behind_s),
        "store_up": ("Whether the object store answered last.", lambda log: float(not log.store_trouble)),
        "database_up": ("Whether the database of the log answered last.", lambda log: float(not log.database_trouble)),
        "parts": ("Parts of the index that it owns.", lambda log: log.parts),
        "parts_building": ("Those of them that are not complete yet.", lambda log: log.building),
    }
    for name, (help_text, value) in gauges.items():
        family = GaugeMetricFamily(f"tarrafa_node_{name}", help_text, labels=NODE)
        for one in nodes:
            if (log := one.node.beat.log) is not None and not one.node.is_silent:
                family.add_metric([one.node.name], value(log))
        yield family
    draining = GaugeMetricFamily("tarrafa_node_draining", "Whether it ends and gives everything back.", labels=NODE)
    for one in nodes:
        draining.add_metric([one.node.name], float(one.node.beat.is_draining))
    yield draining


def _processes(nodes: list[NodeSnapshot]) -> Iterator[Metric]:
    cpu = GaugeMetricFamily("tarrafa_process_cpu_ratio", "Use of one core.", labels=PROCESS)
    memory = GaugeMetricFamily("tarrafa_process_resident_memory_bytes", "Memory.", labels=PROCESS)
    restarts = CounterMetricFamily("tarrafa_process_restarts", "How often it was started again.", labels=PROCESS)
    lag = GaugeMetricFamily("tarrafa_process_loop_lag_seconds", "How late its event loop was.", labels=PROCESS)
    hosts = GaugeMetricFamily("tarrafa_process_leased_hosts", "Hosts that it has.", labels=PROCESS)
    connections = GaugeMetricFamily("tarrafa_process_connections", "Connections that are open.", labels=PROCESS)
    behind = GaugeMetricFamily("tarrafa_process_behind_bytes", "How far it is behind the archive.", labels=PROCESS)
    for node in nodes:
        for one in (pictured.process for pictured in node.processes):
            labels = [node.node.name, one.name, one.role]
            cpu.add_metric(labels, one.cpu)
            memory.add_metric(labels, one.memory_bytes)
            restarts.add_metric(labels, one.restarts)
            if one.pulse is not None:
                lag.add_metric(labels, one.pulse.lag_s)
                hosts.add_metric(labels, one.pulse.hosts)
                connections.add_metric(labels, one.pulse.connections)
                behind.add_metric(labels, one.pulse.behind_bytes)
    yield from (cpu, memory, restarts, lag, hosts, connections, behind)
