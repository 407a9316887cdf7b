"""Four machines crawl and revisit one Web while everything that can fail does fail. Is it all there in the end?

Each machine is a network namespace with a disk of its own; the archive is a segment log in a real object store
(SeaweedFS), the frontier a PostgreSQL under Patroni. Processes are killed, machines lose their disks and stand still
beyond their leases, store and primary go away; which, and when, follows from the seed. Then, at rest, what the machines
know is compared with the log, as an independent reader finds it in the store, and with the truth of the Web.

    python -m benchmarks.fault_injection [--minutes 20] [--seed 1] [--servers 2 | --one-machine]

Only root can make network namespaces. Exit status 1: an assertion does not hold.
"""

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.crawl import current_commit, describe_machine
from benchmarks.fault_injection.assertions import (
    Assertions,
    check_in_links,
    check_index,
    check_log,
    check_mirrors,
    check_politeness,
    check_search,
    check_truth,
    check_verify,
    frontier_rows,
)
from benchmarks.fault_injection.engines import Engines, engines
from benchmarks.fault_injection.journey import Journey, Settings
from benchmarks.fault_injection.log_reader import LogFacts, StoredLog, file_visits
from benchmarks.fault_injection.machines import TARRAFA, Network
from benchmarks.fault_injection.web_truth import WebTruth
from benchmarks.fault_injection.whole_index import build_whole_index
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.orphans import sweep_orphans
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest

INTERRUPTED, TERMINATED = 130, 143


def parse_options() -> tuple[Settings, Path | None]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=2_000)
    parser.add_argument("--pages", type=int, default=6_000)
    parser.add_argument("--machines", type=int, default=4, choices=range(2, 9))
    parser.add_argument("--parts", type=int, default=4, help="of the index, owned by the machines")
    parser.add_argument("--delay", type=float, default=1.0, help="between two requests to a host, in seconds")
    parser.add_argument("--revisits", type=float, default=25.0, help="a second, of all machines")
    parser.add_argument("--folder", type=Path, help="where everything is kept; default: removed at the end")
    bodies = parser.add_mutually_exclusive_group()
    bodies.add_argument("--servers", type=int, default=1, choices=(1, 2), help="of PostgreSQL")
    bodies.add_argument("--one-machine", action="store_true", help="files and a SQLite frontier, no store")
    given = parser.parse_args()
    servers, machines = (0, 1) if given.one_machine else (given.servers, given.machines)
    settings = Settings(
        given.minutes, given.seed, given.hosts, given.pages, machines, servers, given.parts, given.delay, given.revisits
    )
    return settings, given.folder


def check_stopped(found: Assertions, journey: Journey) -> None:
    """Every machine ends as it should, and none has failed in a way of its own."""
    codes = {machine.name: machine.stop() for machine in journey.machines}
    found.check("every machine ends by Ctrl-C", set(codes.values()) == {INTERRUPTED}, codes)
    errors = {machine.name: logs for machine in journey.machines if (logs := machine.tracebacks())}
    found.check("no process has ended with an unexpected error", not errors, errors or "none")


def check_store(found: Assertions, engines: Engines, stored: StoredLog) -> tuple[str, str]:
    """The store has just what the manifest names; the digests of the log's files."""
    manifest = PostgresManifest(engines.dsns[0])
    log = manifest.identity()
    assert log is not None
    swept = sweep_orphans(ObjectStore(log.store), log, manifest)
    manifest.close()
    differing = stored.object_names() ^ stored.named_by_rows()
    found.check_none("no orphan is left in the store", differing, len(stored.rows) * 2)
    digests = stored.digests()
    found.check("objects are those of the manifest", not stored.faults, stored.faults or f"{swept} orphans were swept")
    return digests


def assert_all(journey: Journey, folder: Path) -> Assertions:
    found, truth = Assertions(), WebTruth(journey.world, journey.plan)
    found.check("everything came to rest", journey.come_to_rest(truth.is_gone), "see above")
    finished, newest = frontier_rows(journey.fetch)
    check_verify(found, journey.machines, journey.where)
    check_stopped(found, journey)
    nodes, digests = [machine.data for machine in journey.machines], None
    if journey.engines is not None:
        stored = StoredLog(journey.engines.dsns[0])
        digests, facts = check_store(found, journey.engines, stored), LogFacts(stored.visits())
    else:
        facts = LogFacts(file_visits(nodes[0].archive))
    print(f"log: {sum(facts.numbers.values()):,} visits, statuses {dict(facts.statuses.most_common())}")
    check_log(found, facts, finished, newest)
    check_truth(found, facts, truth)
    check_in_links(found, facts, newest, nodes)
    check_politeness(found, journey.requests(), journey.settings.delay_s, truth)
    if digests is not None:
        check_mirrors(found, nodes, digests)
    check_index(found, facts, truth, nodes)
    whole = build_whole_index(journey.machines[0], nodes[0].archive, folder / "whole")
    check_search(found, facts, truth, nodes, whole, journey.settings.seed)
    return found


@contextlib.contextmanager
def a_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True)
        yield given
    else:
        with tempfile.TemporaryDirectory(prefix="tarrafa-faults-") as made:
            yield Path(made)


def main() -> int:
    settings, given = parse_options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # engines and namespaces are removed
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, commit {current_commit()}, {describe_machine()}\n{settings}", flush=True)
    with contextlib.ExitStack() as stack:
        folder, network = stack.enter_context(a_folder(given)), stack.enter_context(Network())
        used = stack.enter_context(engines(settings.servers)) if settings.servers else None
        journey = Journey(settings, folder.resolve(), network, used)
        journey.run()
        found = assert_all(journey, folder.resolve())
        found.print_table()
        restarts = sum(machine.restarts for machine in journey.machines)
        print(f"\nfaults: {journey.happened}; machines started again by themselves: {restarts}")
        print(f"{found.failed} of {len(found.rows)} assertions failed, {TARRAFA[0].rpartition('/')[2]}, {settings}")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
