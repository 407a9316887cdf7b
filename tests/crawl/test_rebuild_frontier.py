"""What a frontier made again from the archive knows, compared with the one that was lost; and what is refused."""

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from tarrafa import config
from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.warc_reader import bytes_behind, follow, visit_lengths
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.cli.rebuild_export_import import export_frontier, import_frontier
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.rebuild_frontier import RebuildResult, rebuild
from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.export_import.export_records import UrlExport
from tarrafa.frontier.replay import NUMBERS_SKIPPED
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.database import SCHEMA_VERSION, open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import FrontierStore, read_overview
from tarrafa.model import (  # fmt: skip
    CollectionNote,
    HostNote,
    Link,
    Listing,
    ListingEntry,
    ListingNote,
    Note,
    Outcome,
    Page,
    Status,
    UrlRole,
    UrlState,
    Visit,
    VisitRecord,
)
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, a_collection, offer
from tests.contract.test_revisits import DAY_S, advance, now
from tests.frontier.export_import.test_host_export_import import come_home, look_again, taken_out
from tests.frontier.store.test_random_operations import KINDS, STEPS, Kind, RandomLife, broken

START = 1_000_000.0


@contextmanager
def silent(what: str, total: int) -> Iterator[Any]:
    yield lambda more: None


def made_again(data: DataDirectory, *given: Collection, base: Path | None = None, force: bool = False) -> RebuildResult:
    return rebuild(data, list(given), base, silent, force=force)


@contextmanager
def opened(data: DataDirectory) -> Iterator[FrontierStore]:
    store = FrontierStore(open_database(str(data.frontier), SUFFIXES), FalseClock(0, 0), LeaseClock())
    try:
        yield store
    finally:
        store.db.connection.close()


def urls_of(store: FrontierStore) -> dict[tuple[str, str], UrlExport]:
    return {
        (share.collection, url.url): url
        for image in taken_out(store, 1000)
        for share in image.shares
        for url in share.urls
    }


class Archive:
    """A data directory in which somebody wrote down what happened."""

    def __init__(self, folder: Path, name: str = "w1") -> None:
        self.data = DataDirectory(folder / "data")
        self.data.create()
        self.writer, self._at = WarcWriter(self.data.archive, name, START), START

    def note(self, note: Note) -> "Archive":
        self._at += 1
        self.writer.append_note(note, self._at)
        return self

    def configured(self, content: bytes, revision: int = 1) -> "Archive":
        return self.note(CollectionNote(config.decode_collection(content).name, revision, msgspec.Raw(content)))

    def visit(self, url: str, number: int = 1, *links: str, depth: int = 0, **outcome: Any) -> "Archive":
        self._at += 1
        facts: dict[str, Any] = {"status": 200, "kept": True, "content_id": "ab" * 16} | outcome
        page = Page(url, links=tuple(Link(link) for link in links), content_id="ab" * 16) if facts["kept"] else None
        record = VisitRecord("c", url, number, depth, Outcome(at=self._at, **facts), page=page)
        self.writer.append(record, None)
        return self

    def rebuilt(self, *given: Collection, **more: Any) -> dict[str, UrlExport]:
        self.writer.close()
        made_again(self.data, *given, **more)
        with opened(self.data) as store:
            assert not broken(store)
            return {url: image for (_, url), image in urls_of(store).items()}


ONE_ROOT = a_collection(scope={"hosts": ["*.br"]})


def test_links_redirects_sitemaps_and_what_looks_refused_come_back_as_they_were_offered(tmp_path):
    listing = Listing((ListingEntry("http://a.br/listed", 900.0),), kind="sitemap")
    archive = Archive(tmp_path).configured(ONE_ROOT)
    archive.note(HostNote("c", "http://a.br:80", 0, 7.0, ("http://a.br/s.xml",), 200, 5e9, b"Crawl-delay: 7\n"))
    archive.visit(
        "http://a.br/", 1, "http://a.br/1", "http://b.br/x.zip", "http://out.com/", etag='"e"', payload="sha1:P"
    )
    archive.visit("http://a.br/1", 3, depth=1, status=301, kept=False, location="http://b.br/2")
    archive.note(ListingNote("c", "http://a.br/s.xml", 1, listing))
    archive.visit("http://a.br/s.xml", 1, kept=False, role=int(UrlRole.SITEMAP), payload="sha1:S")
    found = archive.rebuilt()
    states = {url: (UrlState(image.state), image.depth, image.status) for url, image in found.items()}
    assert states == {
        "http://a.br/": (UrlState.FETCHED, 0, 200),
        "http://a.br/1": (UrlState.DROPPED, 1, 301),
        "http://b.br/2": (UrlState.PENDING, 1, None),
        "http://b.br/x.zip": (UrlState.DROPPED, 1, Status.TYPE_NOT_WANTED),
        "http://a.br/s.xml": (UrlState.DROPPED, 0, 200),
        "http://a.br/listed": (UrlState.PENDING, 1, None),
    }
    root = found["http://a.br/"]
    assert (root.etag, root.payload, root.archived, root.content_id) == ('"e"', "sha1:P", START + 3, "ab" * 16)
    assert found["http://b.br/2"].redirects == 1
    assert found["http://a.br/listed"].announced == 900.0
    assert {image.visits for url, image in found.items() if url == "http://a.br/1"} == {3 + NUMBERS_SKIPPED}
    assert [(visit.number, visit.worker) for visit in found["http://a.br/1"].history] == [(3, "w1")]
    with opened(archive.data) as store:
        (row,) = [image.row for image in taken_out(store, 100) if image.key == "http://a.br:80"]
        assert row is not None
        assert row.robots is not None
        assert (row.delay_s, row.robots.text, row.ended_at) == (7.0, b"Crawl-delay: 7\n", START + 6)
        assert row.next_at == row.ended_at + 7.0
        (known,) = store.collections.all()
        assert (known.row.state, known.row.config) == ("paused", ONE_ROOT)


def test_a_sitemap_whose_entries_nobody_wrote_down_is_read_again(tmp_path):
    """Archives of earlier versions have no notes: the configuration is given by hand."""
    archive = Archive(tmp_path)
    archive.visit("http://a.br/", 1, "http://a.br/1")
    archive.visit("http://a.br/s.xml", 1, kept=False, role=int(UrlRole.SITEMAP), payload="sha1:S", etag='"s"')
    archive.visit("http://a.br/s.xml", 2, kept=False, role=int(UrlRole.SITEMAP), payload="sha1:S", etag='"s"')
    found = archive.rebuilt(config.decode_collection(ONE_ROOT))
    sitemap = found["http://a.br/s.xml"]
    assert (sitemap.state, sitemap.etag, sitemap.payload) == (UrlState.PENDING, None, "")
    assert found["http://a.br/"].state == UrlState.FETCHED


def test_what_the_archive_does_not_say_is_asked_for_in_one_line(tmp_path):
    archive = Archive(tmp_path)
    archive.visit("http://a.br/")
    with pytest.raises(ConfigError, match="does not say how c was configured; give that with --collection FILE"):
        archive.rebuilt()
    with pytest.raises(ConfigError, match=r"holds no visits of d \(there are: c\)"):
        archive.rebuilt(config.decode_collection(ONE_ROOT), config.decode_collection(a_collection("d")))
    assert not archive.data.frontier.exists()


def test_a_frontier_that_is_made_again_knows_what_was_deleted_here_or_only_heard_of_here(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/", 3, "http://a.br/old")
    record_deletions(archive.data.archive, {"c": START + 2.5, "elsewhere": START}, START + 2.7, apart=1.0)
    found = archive.visit("http://a.br/new").rebuilt()
    assert {url for url, image in found.items() if image.state == UrlState.FETCHED} == {"http://a.br/new"}
    assert "http://a.br/old" not in found
    with opened(archive.data) as store:
        told = {one.collection: one.at for one in store.deletion_log.deletions(0)}
        assert told == {"c": START + 2.5, "elsewhere": START}, "as all machines were told"


def test_an_empty_archive_is_said_to_be_empty(tmp_path):
    with pytest.raises(DataError, match="holds no visits"):
        Archive(tmp_path).rebuilt()


def test_visits_by_several_workers_are_taken_in_the_order_in_which_they_were_made(tmp_path):
    first, second = Archive(tmp_path), Archive(tmp_path, "w2")
    first.configured(ONE_ROOT).visit("http://a.br/", 1, "http://a.br/1")
    second.configured(ONE_ROOT)
    second._at = START + 10
    second.visit("http://a.br/", 2, status=404, kept=False)
    second.visit("http://a.br/1", 1, depth=1)
    first._at = START + 20
    first.visit("http://a.br/", 3, "http://a.br/3")
    second.writer.close()
    found = first.rebuilt()
    history = [(visit.number, visit.status, visit.worker) for visit in found["http://a.br/"].history]
    assert history == [(1, 200, "w1"), (2, 404, "w2"), (3, 200, "w1")]
    assert set(found) == {"http://a.br/", "http://a.br/1", "http://a.br/3"}


def test_a_configuration_that_changed_holds_from_then_on(tmp_path):
    shallow = a_collection(scope={"hosts": ["*.br"], "depth_max": 1})
    deeper = a_collection(scope={"hosts": ["*.br", "*.pt"], "depth_max": 2})
    archive = Archive(tmp_path).configured(shallow, 1)
    archive.visit("http://a.br/", 1, "http://a.br/1", "http://a.pt/early")
    archive.visit("http://a.br/1", 1, "http://a.br/2", depth=1)
    archive.configured(deeper, 3).configured(shallow, 2)  # somebody writes it down late
    archive.visit("http://a.br/", 2, "http://a.pt/late")
    found = archive.rebuilt()
    assert found["http://a.br/2"].state == UrlState.PENDING, "no longer too deep"
    assert "http://a.pt/early" not in found
    assert "http://a.pt/late" in found
    with opened(archive.data) as store:
        (known,) = store.collections.all()
        assert (known.row.revision, known.row.config) == (3, deeper)


def test_a_frontier_of_an_older_format_is_made_again_without_force_and_is_kept(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/", 1, "http://a.br/1")
    archive.rebuilt()
    older = apsw.Connection(str(archive.data.frontier))
    older.pragma("user_version", SCHEMA_VERSION - 1)
    older.close()
    with pytest.raises(DataError, match="`tarrafa rebuild frontier` makes it again from the archive"):
        asyncio.run(export_frontier(archive.data, tmp_path / "f", None, "tarrafa", force=False))
    made = made_again(archive.data)
    assert made.aside == archive.data.root / "frontier.sqlite.old-1"
    with opened(archive.data) as store:
        assert {url for _, url in urls_of(store)} == {"http://a.br/", "http://a.br/1"}


def test_a_usable_frontier_is_not_replaced_and_with_force_it_is_kept(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    archive.rebuilt()
    before = archive.data.frontier.read_bytes()
    with pytest.raises(ConfigError, match="is there and can be used; nothing was changed"):
        made_again(archive.data)
    assert archive.data.frontier.read_bytes() == before
    made = made_again(archive.data, force=True)
    assert made.aside == archive.data.root / "frontier.sqlite.old-1"
    assert made.aside.read_bytes() == before


@pytest.mark.parametrize("rest", [b"", b"not a database" * 1000, b"SQLite format 3\0" + bytes(5000)])
def test_what_is_no_frontier_any_more_is_kept_aside_with_its_log(tmp_path, rest):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    archive.data.frontier.write_bytes(rest)
    log = archive.data.root / "frontier.sqlite-wal"
    log.write_bytes(b"a log of something else")
    archive.rebuilt()
    assert (archive.data.root / "frontier.sqlite.old-1").read_bytes() == rest
    assert not rest or (archive.data.root / "frontier.sqlite.old-1-wal").exists()


def test_a_file_and_an_archive_that_went_on_are_taken_together(tmp_path):
    """Alone, the older file would give numbers again that the archive holds already."""
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/", 1, "http://a.br/1", "http://a.br/2")
    archive.rebuilt()
    file = tmp_path / "backup"
    asyncio.run(export_frontier(archive.data, file, None, "tarrafa", force=False))
    since = Archive(tmp_path, "w2").configured(ONE_ROOT)
    since._at = START + 100
    since.visit("http://a.br/1", 12, "http://a.br/new", depth=1)
    since.writer.close()
    archive.data.frontier.unlink()
    with pytest.raises(DataError, match=r"holds visits of c that .* does not know of; nothing was changed"):
        asyncio.run(import_frontier(archive.data, file))
    assert not archive.data.frontier.exists()
    found = since.rebuilt(base=file)
    assert set(found) == {"http://a.br/", "http://a.br/1", "http://a.br/2", "http://a.br/new"}
    assert {url: image.state for url, image in found.items() if image.state == UrlState.FETCHED} == {
        "http://a.br/": UrlState.FETCHED, "http://a.br/1": UrlState.FETCHED,
    }  # fmt: skip
    assert all(image.visits > 12 for image in found.values())


def test_an_import_beside_another_collection_does_not_mind_its_archive(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    archive.rebuilt()
    other = Archive(tmp_path / "other")  # whose files happen to have the same names
    other.configured(a_collection("d", scope={"hosts": ["*.br"]}))
    other.note(HostNote("d", "http://a.br:80", 0, 1.0, text=bytes(range(256))))
    other.writer.append(VisitRecord("d", "http://a.br/", 1, 0, Outcome(200, START, kept=True)), None)
    other.rebuilt()
    asyncio.run(export_frontier(archive.data, tmp_path / "f", "c", "tarrafa", force=False))
    asyncio.run(import_frontier(other.data, tmp_path / "f"))
    with opened(other.data) as store:
        assert {name for name, _ in urls_of(store)} == {"c", "d"}
        assert not broken(store)


def test_numbers_of_visits_rise_with_every_life(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/", 4, "http://a.br/1")
    found = archive.rebuilt()
    assert [found[url].visits for url in ("http://a.br/", "http://a.br/1")] == [4 + NUMBERS_SKIPPED, NUMBERS_SKIPPED]
    again = archive.rebuilt(force=True)
    assert again["http://a.br/"].visits == 4 + 2 * NUMBERS_SKIPPED
    assert [entry.record.url for entry in follow(archive.data.archive, {})] == ["http://a.br/"], "nobody else sees that"
    assert bytes_behind(archive.data.archive, visit_lengths(archive.data.archive)) == 0


def test_what_a_killed_rebuild_left_behind_does_no_harm(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    for name in ("frontier.sqlite.rebuilding", "frontier.sqlite.rebuilding-wal"):
        (archive.data.root / name).write_bytes(b"half of it")
    assert set(archive.rebuilt()) == {"http://a.br/"}
    assert not list(archive.data.root.glob("*.rebuilding*"))


def test_while_somebody_works_there_nothing_is_rebuilt(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    lock = archive.data.try_lock()
    assert lock is not None
    with lock, pytest.raises(ConfigError, match="a crawl runs here; stop it first"):
        archive.rebuilt()


def test_a_damaged_archive_is_named_and_leaves_everything_as_it_was(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT)
    for number in range(50):
        archive.visit(f"http://a.br/{number}", depth=1)
    archive.writer.close()
    victim = next(archive.data.archive.glob("*.meta.warc.gz"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40] = bytes(40)
    victim.write_bytes(bytes(content))
    with pytest.raises(DataError, match=victim.name):
        made_again(archive.data)
    assert [path.name for path in archive.data.root.glob("frontier*")] == ["frontier.sqlite.lock"]


# -- a random life, written down as workers do, and lived again -------------------------------------------------------


class WrittenLife(RandomLife):
    """A life of which every visit leaves its record, and every configuration its note."""

    def __init__(self, kind: Kind, seed: str, folder: Path) -> None:
        self.data = DataDirectory(folder / f"data-{seed}")
        self.data.create()
        self.writer = WarcWriter(self.data.archive, "w", START)
        super().__init__(kind, seed, folder)

    def step(self) -> str:
        names = [name for name in STEPS if name not in ("discover", "weigh")]
        (name,) = self.rng.choices(names, weights=[STEPS[name] for name in names])
        getattr(self, name)()
        self._write_configurations()
        return name

    def _config(self, name: str) -> bytes:
        """All its URLs are roots: what pages lead to is another test's business."""
        table = msgspec.json.decode(super()._config(name)) | {"roots": self.kind.urls}
        return config.encode_collection(config.collection_from_table(table, "test"))

    def _write_configurations(self) -> None:
        for known in self.store.collections.all():
            note = CollectionNote(known.row.name, known.row.revision, msgspec.Raw(known.row.config))
            self.writer.append_note(note, now())

    def _outcome(self, visit: Visit) -> Outcome:
        outcome = super()._outcome(visit)
        name = self.store.collections.by_id(visit.collection).row.name
        record = VisitRecord(name, visit.url, visit.number, visit.depth, outcome, visit.redirects)
        self.writer.append(record, None)
        return outcome


def lived(kind: str, seed: str, folder: Path, steps: int) -> None:
    life = WrittenLife(KINDS[kind], seed, folder)
    with life.transaction() as store:  # what the configuration names is known from the beginning
        for known in store.collections.all():
            store.open_collection(known.row.config, [offer(url) for url in life.kind.urls])
    life._write_configurations()
    for _ in range(steps):
        life.step()
    life.writer.close()
    come_home(life)
    lost = urls_of(life.store)
    made_again(life.data)
    life.close()
    life._path = life.data.frontier
    life.store = life._opened()
    look_again(life)
    assert not broken(life.store), (kind, seed)
    found = urls_of(life.store)
    assert found.keys() == lost.keys()
    for key, before in lost.items():
        after = found[key]
        assert after.visits >= before.visits - NUMBERS_SKIPPED
        assert [visit.number for visit in after.history] == [visit.number for visit in before.history], (seed, key)
        if KINDS[kind].exchanges or is_untold(before, after):
            continue  # who is chosen and who is dismissed is decided anew
        same = ["status", "type", "fetched", "content_id", "payload", "role", "state", "page"]
        if not KINDS[kind].reconfigures:  # else what was given up with its host, untold, had another chance
            same += ["attempts"]
        old, new = ({name: getattr(image, name) for name in same} for image in (before, after))
        if kind == "plans" and before.page is not None and after.page is not None:
            old["page"], new["page"] = before.page.history, after.page.history  # a plan is made anew
        assert new == old, (kind, seed, key)


def is_untold(before: UrlExport, after: UrlExport) -> bool:
    """It was given up with its host, without a visit: it waits once more."""
    given_up = before.status in (Status.HOST_GIVEN_UP, Status.HOST_FULL) or before.state == UrlState.FAILED
    return given_up and after.state == UrlState.PENDING


@pytest.mark.parametrize("kind", ["one policy", "exchange", "changing configuration", "plans"])
def test_a_life_that_was_written_down_is_lived_again(tmp_path, kind):
    lived(kind, "again", tmp_path, 100)


def test_pages_that_were_out_when_their_collection_ceased_to_be_kept_fresh_are_lived_again_as_they_were(tmp_path):
    life = WrittenLife(Kind(("index",)), "out", tmp_path)

    def configure(policy: str) -> None:
        life.kind = Kind((policy,))
        with life.transaction() as store:
            store.open_collection(life._config("c"), [offer(url) for url in life.kind.urls])
        life._write_configurations()

    configure("index")
    for policy in ("uniform", "index"):
        for _ in range(20):
            life.finish()
        advance(DAY_S)
        life.lease()
        configure("never")
        configure(policy)
        come_home(life)  # nobody reports on what was out
        advance(DAY_S)
    for _ in range(20):
        life.finish()
    life.writer.close()
    come_home(life)
    lost = urls_of(life.store)
    life.close()
    made_again(life.data)
    with opened(life.data) as store:
        found = urls_of(store)
    for key, before in lost.items():
        for name in ("state", "status", "content_id", "page"):
            assert getattr(found[key], name) == getattr(before, name), (key, name)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["one policy", "exchange", "changing configuration", "plans", "everything"])
def test_many_lives_are_lived_again(tmp_path, kind):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    for number in range(30):
        lived(kind, f"{seed}-{number}", tmp_path, 400)
    print(f"{kind}, seed {seed}: 30 lives of 400 steps")


def test_a_crawl_does_not_begin_anew_where_a_frontier_was_lost(tmp_path):
    archive = Archive(tmp_path).configured(ONE_ROOT).visit("http://a.br/")
    archive.writer.close()
    with pytest.raises(
        DataError, match="is missing, but the archive holds visits; `tarrafa rebuild frontier` makes it"
    ):
        asyncio.run(frontier_server._open(archive.data, Clock.real(), lambda error: None))
    with pytest.raises(DataError, match=r"is missing; .*`tarrafa rebuild frontier` makes it again"):
        read_overview(archive.data.frontier)
    assert not archive.data.frontier.exists()
