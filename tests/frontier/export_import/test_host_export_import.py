"""A frontier that is taken out and comes in elsewhere is the same frontier, whatever its life was before."""

import os
import random
from typing import Any

import msgspec
import pytest

from tarrafa.frontier.export_import.export_records import FrontierCursor, HostExport
from tarrafa.frontier.export_import.host_export_import import HOST_COLUMNS, URL_COLUMNS, VISIT_COLUMNS
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import OLD, open_database
from tarrafa.frontier.store.revisits import PLANNED
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tests.contract.frontier_bodies import SUFFIXES
from tests.frontier.store.test_random_operations import KINDS, RandomLife, broken, live, random_life

# What of each table travels in an image, and what is made again from that. A new column must be put into one of them.
TRAVELS = {
    "url": {"host", "collection", *URL_COLUMNS},
    "visit": {"host", "collection", "id", *VISIT_COLUMNS},
    "host": {"id", "key", "site", "robots_status", "robots_digest", "robots_expires", *HOST_COLUMNS},
    "robots": {"digest", "text"},
    "page": {"host", "collection", "id", "shelf", "key", "gone", "history"},
    "work": {"host", "collection", "visited", "refused", "run"},
    "site": {"collection", "name", "hosts"},
    "collection": {
        "name", "state", "reason", "config", "revision", "created", "sequence", "price", "plan", "plan_end", "run",
        "started",
    },
    "counter": {"collection", "bucket", "value"},
    "meta": {"key", "value"},
    "deleted": {"name", "at"},
}  # fmt: skip
MADE_AGAIN = {
    "host": {"worker"},
    "work": {"pending", "due", "gate", "favoured"},
    "site": {
        "pages",
        "means",
        "squares",
        "stage",
        "mentions",
        "best",
        "host",
        "url",
        "walked",
        "vain",
        "links",
    },
    "deleted": {"collection", "number"},
    "collection": {"id", "phase", "swept_host", "swept_url"},  # who was being swept is swept from the beginning
}
DERIVED = {"pending", "ready", "due", "shelf", "standing"}
LEFT_BEHIND = {"handed", "worker", "address", "number", "part_owner", "part_node"}  # leases


def test_every_column_of_the_frontier_travels_or_is_made_again(tmp_path):
    db = open_database(str(tmp_path / "f.sqlite"), SUFFIXES)
    tables = {str(name) for (name,) in db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert tables == {*TRAVELS, *DERIVED, *LEFT_BEHIND}
    for table, travelling in TRAVELS.items():
        columns = {row[1] for row in db.rows(f"PRAGMA table_info({table})")}
        assert columns == travelling | MADE_AGAIN.get(table, set()), table


def taken_out(store: FrontierStore, limit: int) -> list[HostExport]:
    images: list[HostExport] = []
    place: FrontierCursor | None = FrontierCursor()
    while place is not None:
        album = store.transfer.export_hosts(place, limit)
        images, place = images + album.images, album.end
    return msgspec.msgpack.decode(msgspec.msgpack.encode(images), type=list[HostExport])


def move(life: RandomLife) -> None:
    """The life goes on in another file."""
    images, catalogue = taken_out(life.store, life.rng.choice([1, 3, 100])), life.store.transfer.export_catalogue()
    states = {known.row.name: known.row.state for known in life.store.collections.all()}
    life.close()
    life._path = life._path.with_name(f"moved-{life._path.name}")
    life.store = life._opened()
    life.workers.clear()
    with life.transaction() as store:
        for collection in catalogue.collections:
            store.collections.import_collection(collection)
        store.deletion_log.import_deletions(catalogue.deleted)
    for image in images:
        with life.transaction() as store:
            store.transfer.import_hosts([image])
    with life.transaction() as store:
        for name, state in states.items():
            store.collections.set_state(name, "paused", "")
            store.collections.set_state(name, state, "")


def come_home(life: RandomLife) -> None:
    """Nobody holds anything; and every host looks again when it is due."""
    with life.transaction() as store:
        for worker in life.workers:
            store.hosts.release_worker(worker)
        for known in store.collections.all():
            store.visits.unchoose(known)
    life.workers.clear()
    look_again(life)


def look_again(life: RandomLife) -> None:
    with life.transaction() as store:
        for host, number in store.db.rows("SELECT host, collection FROM work"):
            store.urls.revisits.update_due(store.collections.by_id(number), host)


def books_of(store: FrontierStore) -> dict[str, list[tuple[Any, ...]]]:
    """All tables as far as they say something: plans, which are made again, what they make due, and how far a sweep is,
    aside."""
    planned = [known.row.id for known in store.collections.all() if known.config.revisit.policy in PLANNED]
    by_plan = f"collection IN ({', '.join(map(str, planned)) or 'NULL'})"
    aside = {
        "counter": "value = 0",
        "shelf": f"pages = 0 OR {by_plan} AND shelf >= 0",
        "due": f"{by_plan} AND shelf >= 0",
        "ready": f"{by_plan} AND kind = {OLD}",
        "meta": "key = 'workers'",
        "robots": "digest NOT IN (SELECT robots_digest FROM host)",
    }
    otherwise = {
        "due": f"CASE WHEN {by_plan} THEN 0 ELSE due END", "plan_end": "0",
        "means": "round(means, 9)", "squares": "round(squares, 9)",
        "phase": "0", "swept_host": "NULL", "swept_url": "NULL",
    }  # fmt: skip
    found = {}
    for table in (*TRAVELS, *DERIVED):
        names = [row[1] for row in store.db.rows(f"PRAGMA table_info({table})")]
        columns = ", ".join(otherwise.get(name, name) for name in names)
        rows = store.db.rows(f"SELECT {columns} FROM {table} WHERE NOT ({aside.get(table, '0')})")
        found[table] = sorted(rows, key=repr)
    found["number"] = sorted(store.db.rows("SELECT name, value FROM number WHERE name LIKE 'sequence %'"))
    return found


@pytest.mark.parametrize("kind", [name for name in KINDS if "breadth" not in KINDS[name].orders])  # walks begin anew
def test_what_comes_in_elsewhere_is_what_went_out_table_by_table(tmp_path, kind):
    with random_life(kind, "image", tmp_path) as life:
        for _ in range(2):
            live(life, 40)
            come_home(life)
            before = books_of(life.store)
            move(life)
            look_again(life)
            after = books_of(life.store)
            for table, rows in before.items():
                assert after[table] == rows, (life.seed, table)


@pytest.mark.parametrize("kind", KINDS)
def test_life_goes_on_elsewhere_from_wherever_it_was(tmp_path, kind):
    """While workers hold hosts, pages are chosen and dismissed, and plans are half made."""
    with random_life(kind, "move", tmp_path) as life:
        for _ in range(2):
            live(life, 40)
            numbers = numbers_given(life.store)
            move(life)
            assert not broken(life.store), life.seed
            moved = numbers_given(life.store)
            assert all(moved[key] >= number for key, number in numbers.items()), life.seed
        live(life, 20)


def numbers_given(store: FrontierStore) -> dict[tuple[Any, ...], int]:
    sql = "SELECT host, name, url.id, visits FROM url JOIN collection ON collection.id = url.collection"
    return {tuple(row[:3]): int(row[3]) for row in store.db.rows(sql)}


def test_a_host_moved_away_and_back_leaves_books_that_agree(tmp_path):
    for kind, seed in [
        *((kind, "away") for kind in KINDS),
        ("changing orders", "away29"),
        ("changing orders", "away39"),
    ]:
        with random_life(kind, seed, tmp_path) as life:
            for _ in range(2):
                live(life, 20)
                come_home(life)
                images = taken_out(life.store, 100)
                before = books_of(life.store)
                with life.transaction() as store:
                    for image in images:
                        store.removal.forget(image.id)
                assert not broken(life.store), (kind, life.seed)
                for name in ("url", "visit", "page", "host", "work", "pending", "due", "ready", "standing"):
                    assert life.store.db.value(f"SELECT count(*) FROM {name}") == 0
                for known in life.store.collections.all():
                    assert life.store.counters.value(known.row.id, Bucket.KNOWN) == 0
                with life.transaction() as store:
                    store.transfer.import_hosts(images)
                look_again(life)
                after = books_of(life.store)
                if "breadth" not in life.kind.orders:  # its walks begin anew
                    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}, (kind, life.seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_many_lives_move_often(tmp_path, kind):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    for number in range(30):
        with random_life(kind, f"{seed}/{number}", tmp_path) as life:
            for _ in range(8):
                live(life, 60)
                if life.rng.random() < 0.5:
                    come_home(life)
                    before = books_of(life.store)
                    move(life)
                    look_again(life)
                    if "breadth" not in life.kind.orders:  # its walks begin anew
                        assert books_of(life.store) == before, life.seed
                    assert not broken(life.store), life.seed
                else:
                    move(life)
                    assert not broken(life.store), life.seed
        for file in tmp_path.iterdir():
            file.unlink()
    print(f"{kind}, seed {seed}: 30 lives, 8 moves each")
