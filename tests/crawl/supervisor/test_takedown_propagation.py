"""What is taken down on one machine is taken down on every machine that works for the same frontier."""

from pathlib import Path

from tarrafa.clock import Clock
from tarrafa.config import collection_from_table
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import TakedownSync
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.model import Link, Page, Status, Visit
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns, TakedownTarget, append_entries, parse_target, read_entries, record_action
from tests.contract.test_takedowns import an_entry

NOW = 1_790_000_000.0
SITE, PAGE = TakedownTarget("site", "b.br"), TakedownTarget("url", "http://a.br/x")


def a_directory(path: Path) -> DataDirectory:
    data = DataDirectory(path)
    data.create()
    return data


async def test_machines_hear_of_each_others_actions_through_the_frontier(tmp_path):
    one, two, server = (a_directory(tmp_path / name) for name in ("one", "two", "server"))

    frontier = SqliteFrontier(server.frontier, Clock.real(), "br\n")
    first, second = TakedownSync(one), TakedownSync(two)
    record_action(one, "add", SITE, "ana", "", NOW)
    record_action(two, "add", PAGE, "rui", "", NOW - 500)
    for spreading in (first, second, first):
        await spreading.sync_once(frontier)
    for data in (one, two, server):
        assert CurrentTakedowns(data).now().targets == {SITE, PAGE}
    record_action(two, "lift", SITE, "rui", "", NOW - 400)  # its clock is behind
    record_action(server, "lift", PAGE, "eva", "", NOW)
    for spreading in (second, first):
        await spreading.sync_once(frontier)
    for data in (one, two, server):
        assert CurrentTakedowns(data).now().targets == set()
        assert len(read_entries(data)) == 4
    await frontier.close()


async def test_a_frontier_that_is_another_one_is_told_everything(tmp_path):
    one, server, other = (a_directory(tmp_path / name) for name in ("one", "server", "other"))
    append_entries(one, [an_entry(number) for number in range(ENTRIES_PER_RESPONSE + 1)])

    spreading = TakedownSync(one)
    for data in (server, other):
        frontier = SqliteFrontier(data.frontier, Clock.real(), "br\n")
        await spreading.sync_once(frontier)
        assert len(read_entries(data)) == ENTRIES_PER_RESPONSE + 1
        await frontier.close()
        spreading.reset()


def test_links_to_what_is_taken_down_become_known_with_that_status_and_are_never_asked_for(tmp_path):
    data = a_directory(tmp_path / "data")
    record_action(data, "add", SITE, "ana", "", NOW)
    record_action(data, "add", PAGE, "ana", "", NOW)
    table = {"name": "c", "roots": ["http://a.br/"], "scope": {"hosts": ["*.br"]}}
    admission = Admission(collection_from_table(table, "test"), CurrentTakedowns(data).now)
    page = Page("http://a.br/", links=(Link("http://a.br/x"), Link("http://a.br/y"), Link("http://www.b.br/")))
    offers = admission.admit_links(page, Visit(1, 0, b"", "http://a.br/", 0, 0, 1))
    assert {offer.url: offer.status for offer in offers} == {
        "http://a.br/x": Status.TAKEN_DOWN,
        "http://a.br/y": 0,
        "http://www.b.br/": Status.TAKEN_DOWN,
    }
    record_action(data, "lift", parse_target("site:b.br"), "ana", "", NOW)
    assert admission.url_refusal_status("http://www.b.br/") == 0
