"""Model of the simulated Web: crawlers, servers, documents and all their changes drawn in advance.

Promises: validated crawlers, servers and documents, with every change of a document drawn beforehand: two policies on
one `WebModel` see exactly the same changes, so they differ by their decisions and not by chance.
Knows nothing of policies or visits.

Seconds and bytes throughout; rates are changes per second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tarrafa.errors import ConfigError
from tarrafa.simulate import change_process
from tarrafa.simulate.change_process import ChangeProcess, ChangeTimes

CHANGES_MAX = 50_000_000  # expected total: eight bytes each, and an event


@dataclass(slots=True, frozen=True)
class SimulatedCrawler:
    """A crawler that downloads one document at a time."""

    speed: float = math.inf  # bytes per second


@dataclass(slots=True, frozen=True)
class SimulatedServer:
    """A server that never gets two requests at once. The pause between two is counted from the start of the last one,
    as in the classic study, or from its end, as in the live crawl.
    """

    pause_s: float
    speed: float = math.inf  # bytes per second
    pause_from: Literal["start", "end"] = "end"
    dated: bool = False  # its Last-Modified is trusted

    def next_start_s(self, start_s: float, end_s: float) -> float:
        """The earliest start of the next download."""
        return end_s + self.pause_s if self.pause_from == "end" else max(end_s, start_s + self.pause_s)

    def shortest_interval_s(self, download_s: float) -> float:
        """The time from one start to the next at full speed."""
        return self.next_start_s(0.0, download_s)


@dataclass(slots=True, frozen=True)
class SimulatedDocument:
    server: int
    rate: float
    size: float = 10_000.0
    weight: float = 1.0  # importance
    process: ChangeProcess = ChangeProcess.POISSON


@dataclass(slots=True, frozen=True)
class WebModel:
    """The Web and all its changes until `until_s`."""

    crawlers: tuple[SimulatedCrawler, ...]
    servers: tuple[SimulatedServer, ...]
    documents: tuple[SimulatedDocument, ...]
    until_s: float
    lives: list[ChangeTimes]

    @property
    def is_poisson(self) -> bool:
        return all(document.process is ChangeProcess.POISSON for document in self.documents)


def server_intervals_s(web: WebModel) -> list[float]:
    """The shortest time between two visits of each server, start to start, on average over its documents."""
    fastest = max(crawler.speed for crawler in web.crawlers)
    sizes, counts = [0.0] * len(web.servers), [0] * len(web.servers)
    for one in web.documents:
        sizes[one.server] += one.size
        counts[one.server] += 1
    return [
        server.shortest_interval_s(size / max(count, 1) / min(fastest, server.speed))
        for server, size, count in zip(web.servers, sizes, counts, strict=True)
    ]


def make_web_model(
    crawlers: Sequence[SimulatedCrawler],
    servers: Sequence[SimulatedServer],
    documents: Sequence[SimulatedDocument],
    until_s: float,
    seed: int,
) -> WebModel:
    """Draw all changes. To replay real changes, pass their `ChangeTimes` to `WebModel` instead."""
    _check(crawlers, servers, documents, until_s)
    drawn = change_process.draw_all_changes(
        [one.process for one in documents], [one.rate for one in documents], until_s, seed
    )
    return WebModel(tuple(crawlers), tuple(servers), tuple(documents), until_s, drawn)


def _check(
    crawlers: Sequence[SimulatedCrawler],
    servers: Sequence[SimulatedServer],
    documents: Sequence[SimulatedDocument],
    until_s: float,
) -> None:
    for what, things in (("crawler", crawlers), ("server", servers), ("document", documents)):
        if not things:
            raise ConfigError(f"a simulation needs at least one {what}")
    fastest = max(crawler.speed for crawler in crawlers)
    for number, document in enumerate(documents):
        if not 0 <= document.server < len(servers):
            raise ConfigError(f"document {number}: server must be 0 to {len(servers) - 1}, got {document.server}")
        server = servers[document.server]
        if server.shortest_interval_s(document.size / min(fastest, server.speed)) <= 0.0:
            raise ConfigError(f"document {number}: with no pause and no download time it could be visited for ever")
    expected = sum(document.rate for document in documents) * until_s
    if not expected <= CHANGES_MAX:
        raise ConfigError(f"some {expected:,.0f} changes are more than the {CHANGES_MAX:,} allowed; simulate less time")
