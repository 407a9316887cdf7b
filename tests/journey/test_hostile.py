"""A Web in which a part of the hosts does everything that can go wrong: what is good is found, what is bad is named."""

import asyncio
import itertools
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tarrafa.cli.demo import HOST_LIMITS, SHORT_TIMEOUTS, HostileVerdict, verdicts
from tarrafa.clock import boottime
from tarrafa.crawl.worker.parser_with_sandbox import DOCUMENT_MEMORY_BYTES_MAX
from tarrafa.model import Status
from tarrafa.parse.url import canonical
from tarrafa.testweb.hostile import FORBIDDEN_ROOTS, HOSTILE_HOSTS, SUFFIXES, hostile_host_of, hostile_roots
from tarrafa.testweb.hostile.spider_traps import BOUNDED
from tarrafa.testweb.http.request_log import LoggedRequest
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import TIMER_S, TYPES, Journey, a_journey, assert_polite, check_warc, peak_mb

MEMORY_MB_MAX = 500  # of any process but the one that reads what could hurt, which has a limit of its own


def a_hostile_journey(folder: Path, world: World) -> Journey:
    journey = a_journey(folder, world)
    journey.roots = [
        world.root(1),
        *(hostile_roots() if world.hostile else []),
        *(FORBIDDEN_ROOTS if world.hostile else []),
    ]
    connect_to = ", ".join(f'"{name}" = "{target}"' for name, target in journey.web.connections.items())
    journey.network = f"connect_to = {{{connect_to}}}"
    journey.politeness, _, fetch = SHORT_TIMEOUTS.partition("\n\n")
    journey.sections = fetch
    journey.suffixes = ["br.test", "pt.test", "com.test", *SUFFIXES]
    return journey


def run(journey: Journey, caps: str = HOST_LIMITS) -> tuple[float, dict[str, int]]:
    """Crawl to the end: how long, and each process's peak of memory."""
    started, peaks = boottime(), dict[str, int]()
    process = journey.start(journey.write_collection(scope='hosts = ["*.test"]' + caps), "--workers", "2", "--quiet")
    while True:
        for name, peak in peak_mb(process).items():
            peaks[name] = max(peaks.get(name, 0), peak)
        try:
            _, said = process.communicate(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 0, said
    return boottime() - started, peaks


def by_corner(entries: list[LoggedRequest]) -> dict[str, list[LoggedRequest]]:
    found = defaultdict(list)
    for entry in entries:
        corner = hostile_host_of(entry.host)
        if corner is not None:
            found[corner.name].append(entry)
    return found


def assert_bounded(peaks: dict[str, int]) -> None:
    for name, peak in peaks.items():
        assert peak <= (DOCUMENT_MEMORY_BYTES_MAX >> 20) + 200 if "reading" in name else peak <= MEMORY_MB_MAX, peaks


def elsewhere(host: str) -> bool | None:
    """Whether a host is none of the good ones."""
    return None if host.startswith("h") and hostile_host_of(host) is None else True


def assert_the_good_are_found(journey: Journey) -> None:
    truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
    kept = {url for url in journey.kept() if hostile_host_of(url.split("/")[2]) is None}
    assert kept == truth.kept
    names = {journey.world.host(number).name for number in range(1, journey.world.hosts + 1)}
    asked = [entry for entry in journey.requests() if entry.host in names]
    assert {entry.url for entry in asked} <= truth.requests, "nothing disallowed, nothing unwanted"
    assert max(Counter(entry.url for entry in asked).values()) == 1, "robots.txt among them"
    first: dict[str, str] = {}
    for entry in sorted(asked, key=lambda one: one.start):
        first.setdefault(entry.host, entry.path)
    assert set(first.values()) == {"/robots.txt"}


def assert_the_bad_are_named(journey: Journey, more: int = 0) -> list[HostileVerdict]:
    """`more` is what hosts that only their cap can end may be asked for beyond what is expected."""
    found = verdicts(journey.data, "journey")
    assert not [fault for verdict in found for fault in verdict.wrong]
    asked = by_corner(journey.requests())
    late = [record.url.split("/")[2] for record in journey.records() if record.outcome.status == Status.STARVED]
    ours = Counter(corner.name for corner in map(hostile_host_of, late) if corner is not None)  # tried again: it was us
    for name, entries in asked.items():
        expects = HOSTILE_HOSTS[name].expects
        urls = Counter(entry.url for entry in entries)
        most = expects.requests_max + (more if expects.requests_max >= BOUNDED else 0) + ours[name]
        assert len(entries) <= most, (name, len(entries), urls.most_common(5))
        assert not [url for url in urls if url.startswith(expects.never)] or not expects.never, name
        for hosts in _per_host(entries).values():
            assert hosts[0].path == "/robots.txt", (name, hosts[0].path)
            starts = [entry.start for entry in hosts]
            gaps = [later - sooner for sooner, later in itertools.pairwise(starts)]
            assert min(gaps, default=1.0) >= journey.delay_s - TIMER_S, (name, min(gaps))
    (status,) = asyncio.run(journey.overview()).collections
    assert status.statuses["-14"] == len({canonical(url) for url in FORBIDDEN_ROOTS}), "no connection to any of them"
    kept = journey.kept()
    for url in kept:
        corner = hostile_host_of(url.split("/")[2])
        assert corner is None or corner.expects.may_be_kept(url), url
    return found


def _per_host(entries: list[LoggedRequest]) -> dict[str, list[LoggedRequest]]:
    groups = defaultdict(list)
    for entry in sorted(entries, key=lambda one: one.start):
        groups[entry.host].append(entry)
    return groups


@pytest.mark.alone
def test_good_pages_are_all_found_beside_every_kind_of_bad_host(tmp_path):
    journey = a_hostile_journey(tmp_path, World(seed=31, hosts=20, pages=400, hostile=True))
    with journey.web:
        elapsed_s, peaks = run(journey)
        assert_the_good_are_found(journey)
        found = assert_the_bad_are_named(journey)
        assert_polite(journey, elsewhere)
        print(f"{len(found)} corners in {elapsed_s:.0f} s; peak MB {peaks}; {check_warc(journey)} WARC records")
        assert_bounded(peaks)


@pytest.mark.long
def test_five_hundred_good_hosts_are_crawled_at_more_than_half_their_speed_beside_the_bad(tmp_path):
    rates = {}
    for corners in (False, True):
        folder = tmp_path / str(corners)
        folder.mkdir()
        journey = a_hostile_journey(folder, World(seed=32, hosts=500, pages=15_000, hostile=corners))
        with journey.web:
            elapsed_s, peaks = run(journey, HOST_LIMITS.replace("host_pages_max = 300", "host_pages_max = 2500"))
            assert_the_good_are_found(journey)
            assert_polite(journey, elsewhere)
            good = [
                r.outcome.at for r in journey.records() if r.outcome.kept and not hostile_host_of(r.url.split("/")[2])
            ]
            rates[corners] = len(good) / (max(good) - min(good))
            print(f"{len(good)} good pages at {rates[corners]:.0f}/s, {elapsed_s:.0f} s in all; peak MB {peaks}")
            if corners:
                found = assert_the_bad_are_named(journey, 2200)
                print(f"{len(found)} bad hosts, {len(FORBIDDEN_ROOTS)} forbidden addresses, each with its right status")
                assert_bounded(peaks)
    print(f"beside the bad hosts: {rates[True] / rates[False]:.2f} of the rate without them")
    assert rates[True] > rates[False] / 2
