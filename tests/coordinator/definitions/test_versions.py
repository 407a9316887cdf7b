"""What is in force is asked for once, and a long list of roots is kept once."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.coordinator.definitions import draft, versions
from tarrafa.coordinator.definitions.versions import LongListStore, long_lists_digest
from tarrafa.crawl.supervisor import supervisor
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import DataError, FrontierError
from tarrafa.frontier.messages import CollectionRow, DiscoveredUrl
from tarrafa.runtime.data_dir import DataDirectory
from tests.coordinator.coordinator_harness import CoordinatorHarness, a_collection

PER_CALL = 40
MANY = 2 * PER_CALL + 7


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is long here is not long to wait for."""
    monkeypatch.setattr(supervisor, "ROOTS_PER_CALL", PER_CALL)
    monkeypatch.setattr(versions, "LONG_BYTES", 4_500)


def a_long_one(count: int = MANY, name: str = "news", **sections: object) -> Collection:
    roots = [f"http://www.site-{number}.br/" for number in range(count)]
    return draft.draft_from_table({"name": name, "roots": roots, **sections}).require_valid()


def edited(before: Collection, *exclude: str) -> Collection:
    return replace(before, scope=replace(before.scope, exclude=exclude))


@pytest.fixture
def shelf(tmp_path: Path) -> LongListStore:
    data = DataDirectory(tmp_path / "d")
    data.create()
    return LongListStore(data)


def files(path: Path) -> list[Path]:
    return sorted((path / "d" / "definitions").glob("*"))


def test_versions_that_share_a_long_list_share_its_file(shelf, tmp_path):
    first, second = a_long_one(), edited(a_long_one(), "*/a/*")
    kept = [shelf.put(config.encode_collection(one)) for one in (first, second, first)]
    assert kept[0] == kept[2] != kept[1]
    assert max(map(len, kept)) < 4_500 < len(config.encode_collection(first))
    assert len(files(tmp_path)) == 1
    read = shelf.reader()
    assert [read(one) for one in kept] == [first, second, first]
    assert read(kept[0]).roots is read(kept[1]).roots


def test_a_short_one_stays_whole(shelf, tmp_path):
    content = config.encode_collection(a_collection())
    assert shelf.put(content) == content
    assert shelf.reader()(content) == a_collection()
    assert (long_lists_digest(content), files(tmp_path)) == ("", [])


def test_a_list_that_is_lost_is_told_by_its_file(shelf, tmp_path):
    kept = shelf.put(config.encode_collection(a_long_one()))
    (path,) = files(tmp_path)
    for damage in (lambda: path.write_bytes(b"{"), path.unlink):
        damage()
        with pytest.raises(DataError, match=rf"{path.name}: the roots of a version cannot be read"):
            shelf.reader()(kept)


async def test_what_one_deletes_takes_its_lists_along_and_leaves_those_of_others(harness: CoordinatorHarness) -> None:
    folder = harness.ledger.data.root.parent
    await harness.coordinator.actions.create(a_long_one(), "ana", start=False)
    await harness.coordinator.actions.create(a_long_one(name="copy"), "ana", start=False)
    await harness.coordinator.actions.create(a_long_one(MANY + 1, name="other"), "ana", start=False)
    assert len(files(folder)) == 2
    await harness.coordinator.actions.act("other", "delete", "ana")
    await harness.coordinator.actions.act("copy", "delete", "ana")
    assert len(files(folder)) == 1
    await harness.coordinator.actions.act("news", "delete", "ana")
    assert files(folder) == []


async def test_an_edit_of_a_long_one_is_told_by_what_it_changed(harness: CoordinatorHarness) -> None:
    first = a_long_one()
    await harness.coordinator.actions.create(first, "ana", start=False)
    await harness.coordinator.actions.edit("news", edited(first, "*/a/*"), "rui")
    await harness.coordinator.actions.edit("news", a_long_one(MANY + 1, scope={"exclude": ["*/a/*"]}), "eva")
    told = await harness.coordinator.monitor.version_changes("news")
    assert [(one.number, one.who, [(change.key, change.added) for change in one.changes]) for one in told] == [
        (3, "eva", [("roots", [f"http://www.site-{MANY}.br/"])]),
        (2, "rui", [("exclude", ["*/a/*"])]),
        (1, "ana", []),
    ]


class Watched:
    """A frontier that says how often it was told what."""

    def __init__(self, harness: CoordinatorHarness, fails_after: int = 1 << 30) -> None:
        self.harness, self.inner, self.fails_after = harness, harness.frontier, fails_after
        self.opened, self.seeded, self.read = list[int](), list[int](), list[str]()

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def open_collection(self, content: bytes, roots: list[DiscoveredUrl], start: bool = True) -> CollectionRow:
        self.opened.append(len(roots))
        return await self.inner.open_collection(content, roots, start)

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        if len(self.seeded) >= self.fails_after:
            raise FrontierError("it was killed")
        self.seeded.append(len(roots))
        await self.inner.seed(collection, roots)

    async def collection(self, name: str) -> CollectionRow | None:
        self.read.append(name)
        return await self.inner.collection(name)

    async def collections(self) -> list[CollectionRow]:
        raise AssertionError("all configurations at once")


async def test_a_configuration_crosses_once_and_its_roots_some_at_a_time(harness: CoordinatorHarness) -> None:
    watched = harness.frontier = Watched(harness)  # type: ignore[assignment]
    await harness.coordinator.actions.create(a_long_one(), "ana", start=True)
    assert (watched.opened, watched.seeded) == ([PER_CALL], [PER_CALL, 7])
    assert (await harness.look())["news"].known == MANY
    await harness.coordinator.actions.edit("news", edited(a_long_one(), "*/a/*"), "ana")
    assert (watched.opened[1:], watched.seeded[2:]) == ([0], []), "nobody was told anew of the roots that stayed"
    for _ in range(3):
        await harness.look()
        await harness.coordinator.definitions.in_force("news")
        await harness.coordinator.schedule.upcoming_runs("news", 1)
    await harness.coordinator.actions.act("news", "pause", "ana")
    assert watched.read == [], "what we said ourselves we need not ask for"
    await submit_collection(watched.inner, edited(a_long_one(), "*/b/*"), start=False)
    await harness.look()
    assert (await harness.coordinator.definitions.in_force("news")).scope.exclude == ("*/b/*",)
    assert watched.read == ["news"]


async def test_roots_that_were_not_all_handed_over_are_handed_over_before_it_runs(harness: CoordinatorHarness) -> None:
    watched = harness.frontier = Watched(harness, fails_after=1)  # type: ignore[assignment]
    with pytest.raises(FrontierError, match="it was killed"):
        await harness.coordinator.actions.create(a_long_one(), "ana", start=True)
    harness.begin()  # as after a kill
    assert (await harness.look())["news"].known == 2 * PER_CALL
    watched.fails_after = 1 << 30
    await harness.coordinator.actions.act("news", "start", "ana")
    assert (await harness.look())["news"].known == MANY
    watched.seeded.clear()
    await harness.coordinator.actions.edit("news", edited(a_long_one(), "*/a/*"), "ana")
    assert watched.seeded == []


async def test_while_a_long_one_is_handed_over_others_are_acted_upon(harness: CoordinatorHarness) -> None:
    await harness.coordinator.actions.create(a_collection("short"), "ana", start=True)
    waits, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(Watched):
        async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
            waits.set()
            await goes_on.wait()
            await super().seed(collection, roots)

    harness.frontier = Slow(harness)  # type: ignore[assignment]
    creating = asyncio.create_task(harness.coordinator.actions.create(a_long_one(), "ana", start=True))
    await waits.wait()
    await harness.coordinator.actions.act("short", "pause", "rui")
    assert (await harness.look())["short"].state == "paused"
    assert not creating.done()
    goes_on.set()
    await creating
    found = await harness.look()
    assert (found["news"].state, found["news"].known) == ("running", MANY)


def test_what_is_long_besides_its_lists_is_read_again_too(shelf):
    long = edited(a_long_one(), *(f"*/{number}/*" for number in range(900)))
    kept = shelf.put(config.encode_collection(long))
    assert (json.loads(kept)["roots"], shelf.reader()(kept)) == ([], long)
