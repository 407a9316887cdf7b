"""Runs the CONSTRUCT rules of the user over the triple store, in a child process.

Their results are in the graph urn:tarrafa:rules. Rules run one after the other, in the file's order, over all pages and
the statements inferred from them, as one graph (`GRAPH` separates pages). Each rule also sees the results of the
earlier ones in the same run, and none of former runs: so no result outlives its premises. Promises: the follower is
never delayed; a run is bounded in time, memory and statements; the pause between two runs is several times the duration
of the last one. A rule that fails is reported once, and the others continue.

`python -m tarrafa.triples.construct_rules` is the child.
"""

import logging
import resource
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
from pyoxigraph import BlankNode, Quad, QueryTriples, RdfFormat, Store, Triple, parse, serialize

from tarrafa.clock import boottime
from tarrafa.errors import data_error_from_os
from tarrafa.runtime.child_process import child_command, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.ontology import ConstructRule
from tarrafa.triples.triple_writer import RULES_GRAPH

TIME_S_MAX = 60.0  # of a run
MEMORY_BYTES_MAX = 4 << 30
STATEMENTS_MAX = 200_000  # of all rules together
PAUSE_S_MIN, PAUSE_TIMES = 2.0, 4.0
WHY_CHARS_MAX = 200

log = logging.getLogger(__name__)


class RuleReport(msgspec.Struct, frozen=True):
    """The result of a run: the errors of failed rules, by name."""

    failed: dict[str, str] = {}


def folder(data: DataDirectory) -> Path:
    return data.triples / "ruling"


class RuleRunner:
    """Runs rules. `turned` counts the writes of pages; a run covers the state at its start."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._rules: tuple[ConstructRule, ...] = ()
        self._covered = -1
        self._covers = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._began = self._took_s = 0.0
        self._ended = -1e9
        self._warned: set[tuple[str, str]] = set()

    def set_rules(self, rules: tuple[ConstructRule, ...]) -> None:
        """Set the rules in force."""
        if rules != self._rules:
            self._rules, self._covered = rules, -1
            self._ended = -1e9
            self.stop()

    def is_due(self, turned: int, now: float, *, at_once: bool = False) -> bool:
        if self._child is not None or not self._rules or turned == self._covered:
            return False
        return at_once or now - self._ended >= max(PAUSE_S_MIN, PAUSE_TIMES * self._took_s)

    def begin(self, store: Store, turned: int) -> None:
        """Start a run on the present store."""
        place = folder(self._data)
        self._clear()
        try:
            place.mkdir(parents=True)
            store.backup(str(place / "store"))
            (place / "rules").write_bytes(msgspec.msgpack.encode(self._rules))
            command = child_command("tarrafa.triples.construct_rules", folder=place)
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise data_error_from_os(error, place) from None
        self._covers, self._began = turned, boottime()

    def result(self) -> list[Quad] | None:
        """The statements of a run that has just ended, if any; a run that takes too long is ended."""
        if self._child is None:
            return None
        code = self._child.poll()
        if code is None:
            if boottime() - self._began < TIME_S_MAX:
                return None
            self._child.kill()
            self._child.wait()
        return self._ended_with(code)

    def wait(self) -> list[Quad] | None:
        """The same, blocking."""
        while self._child is not None:
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(max(0.01, TIME_S_MAX - (boottime() - self._began)))
            found = self.result()
            if found is not None:
                return found
        return None

    def _ended_with(self, code: int | None) -> list[Quad] | None:
        """`code` is None for a run that took too long."""
        self._child, self._covered, self._ended = None, self._covers, boottime()
        self._took_s = self._ended - self._began
        found: list[Quad] | None = None
        if code == 0:
            found = self._read()
        elif code is None:
            self._warn_once("all of them", f"they take longer than {TIME_S_MAX:g} s; what they last constructed stands")
        else:
            self._warn_once("all of them", f"their process ended with {code}; what they last constructed stands")
        self._clear()
        return found

    def _read(self) -> list[Quad]:
        place = folder(self._data)
        report = msgspec.json.decode((place / "report").read_bytes(), type=RuleReport)
        for name, why in report.failed.items():
            self._warn_once(repr(name), why)
        triples = parse(path=str(place / "constructed.nt"), format=RdfFormat.N_TRIPLES)
        return [Quad(one.subject, one.predicate, one.object, RULES_GRAPH) for one in triples]

    def _warn_once(self, name: str, why: str) -> None:
        if (name, why) not in self._warned:
            self._warned.add((name, why))
            log.warning("ontology.toml: [[rule]] %s: %s", name, why)

    def stop(self) -> None:
        """End a run in progress."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(folder(self._data), ignore_errors=True)


def write_rule_graph(store: Store, wanted: list[Quad]) -> bool:
    """Replace the graph of the rules; whether it has changed."""
    fresh, there = set(wanted), set(store.quads_for_pattern(None, None, None, RULES_GRAPH))
    if fresh == there and (fresh or not store.contains_named_graph(RULES_GRAPH)):
        return False
    store.remove_graph(RULES_GRAPH)
    store.extend(fresh)
    return True


# -- the child ---------------------------------------------------------------------------------------------------------


def run_rules(place: Path) -> RuleReport:
    """Run all rules on the given checkpoint, and write their results beside it."""
    rules = msgspec.msgpack.decode((place / "rules").read_bytes(), type=tuple[ConstructRule, ...])
    store, failed = Store(str(place / "store")), dict[str, str]()
    store.remove_graph(RULES_GRAPH)
    found: dict[Triple, None] = {}
    for rule in rules:
        try:
            constructed = _constructed(store, rule, STATEMENTS_MAX - len(found))
        except (SyntaxError, ValueError, OSError) as error:
            failed[rule.name] = " ".join(str(error).split())[:WHY_CHARS_MAX]
            continue
        store.extend(Quad(one.subject, one.predicate, one.object, RULES_GRAPH) for one in constructed)
        found |= dict.fromkeys(constructed)
    with (place / "constructed.nt").open("wb") as file:
        serialize(found, file, RdfFormat.N_TRIPLES)
    return RuleReport(failed)


def _constructed(store: Store, rule: ConstructRule, most: int) -> list[Triple]:
    answer = store.query(rule.construct, use_default_graph_as_union=True)
    if not isinstance(answer, QueryTriples):
        raise ValueError("must be a CONSTRUCT query")
    found: dict[Triple, None] = {}
    known: set[BlankNode] = set()
    for triple in answer:
        for term in (triple.subject, triple.object):
            if isinstance(term, BlankNode) and term not in known:
                _check_known(store, term)
                known.add(term)
        found[triple] = None
        if len(found) > most:
            raise ValueError(f"constructs more than what is left of {STATEMENTS_MAX:,} statements")
    return list(found)


def _check_known(store: Store, node: BlankNode) -> None:
    """Refuse blank nodes made by a rule: they would have another name in every run, so the graph would always
    change.
    """
    if not any(store.quads_for_pattern(node, None, None)) and not any(store.quads_for_pattern(None, None, node)):
        raise ValueError("makes a blank node; give it an IRI, as in BIND(IRI(CONCAT('urn:x:', STR(?n))) AS ?new)")


def main(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * TIME_S_MAX), int(2 * TIME_S_MAX)))
    report = run_rules(folder)
    (folder / "report").write_bytes(msgspec.json.encode(report))


if __name__ == "__main__":
    run_child(main)
