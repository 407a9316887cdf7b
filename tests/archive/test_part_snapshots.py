"""Snapshots of parts: what the first owner put is what the next owner fetches, and no other owner changes it."""

from pathlib import Path

import psycopg
import pytest

from tarrafa.archive.segment_log.snapshot_store import PartOwner, SnapshotStore, remove_all_snapshots
from tarrafa.errors import DataError
from tests.archive.log_cluster import Cluster
from tests.contract import postgres_process

pytestmark = pytest.mark.skipif(postgres_process.programs() is None, reason=postgres_process.WHY_NOT)
PART = "3-of-8"


def set_owner(cluster: Cluster, node: str, epoch: int, slot: int = 3) -> PartOwner:
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM part_owner")
        connection.execute("INSERT INTO part_owner VALUES ('index', %s, %s, %s)", (slot, node, epoch))
    return PartOwner(node, epoch)


def snapshots(cluster: Cluster) -> SnapshotStore:
    return SnapshotStore(cluster.new_manifest(), cluster.log, PART, 3)


def a_folder(root: Path, **files: bytes) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def content_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_next_owner_fetches_what_the_last_one_put(cluster, tmp_path):
    store, owner = snapshots(cluster), set_owner(cluster, "a", 7)
    assert store.newest() is None
    assert store.owner("a") == owner
    assert store.owner("b") is None
    files = {"text__meta.json": b"{}", "text__ab.store": b"x" * 20_000_000, "followed.sqlite": b"state", "empty": b""}
    folder = a_folder(tmp_path / "one", **files)
    published = store.publish(owner, folder, 100, {"gone": 5.0})
    assert published is not None
    assert published.sent_bytes == published.snapshot.size == sum(map(len, files.values()))
    newest = snapshots(cluster).newest()
    assert newest == published.snapshot
    assert (newest.log_end, newest.deleted) == (100, {"gone": 5.0})
    store.fetch(newest, tmp_path / "two")
    assert content_of(tmp_path / "two") == content_of(folder)


def test_only_new_files_are_sent_and_old_ones_removed(cluster, tmp_path):
    store, owner = snapshots(cluster), set_owner(cluster, "a", 7)
    store.publish(owner, a_folder(tmp_path / "one", text__a=b"first", text__b=b"second", state=b"1"), 100, {})
    published = store.publish(
        owner, a_folder(tmp_path / "two", text__a=b"first", text__c=b"third", state=b"2"), 200, {}
    )
    assert published is not None
    assert published.sent_bytes == len(b"third" + b"2")
    names = set(cluster.store().names(f"{cluster.log.id}/index/"))
    assert names == {f"{cluster.log.id}/index/{PART}/{file.digest.hex()}" for file in published.snapshot.files}


def test_a_snapshot_of_an_old_owner_or_of_less_of_the_log_changes_nothing(folder_cluster, tmp_path):
    cluster, store = folder_cluster, snapshots(folder_cluster)
    old = set_owner(cluster, "a", 7)
    newest = set_owner(cluster, "b", 8)
    folder = a_folder(tmp_path / "one", text__a=b"of the new owner")
    assert store.publish(newest, folder, 100, {}) is not None
    before = store.newest()
    other = a_folder(tmp_path / "two", text__a=b"of another")
    assert store.publish(old, other, 200, {}) is None
    assert store.publish(PartOwner("b", 7), other, 200, {}) is None
    assert store.publish(newest, other, 99, {}) is None
    assert store.newest() == before
    assert before is not None
    store.fetch(before, tmp_path / "three")
    assert content_of(tmp_path / "three") == content_of(folder), "nothing of it was removed"
    assert store.publish(newest, other, 100, {}) is not None


def test_the_second_owner_of_a_part_makes_no_snapshots(folder_cluster, tmp_path):
    second = set_owner(folder_cluster, "b", 9, slot=256 + 3)
    store = snapshots(folder_cluster)
    assert store.owner("b") is None
    assert store.publish(second, a_folder(tmp_path / "one", a=b"x"), 1, {}) is None


def test_all_snapshots_are_removed_and_made_anew(cluster, tmp_path):
    store, owner = snapshots(cluster), set_owner(cluster, "a", 7)
    folder = a_folder(tmp_path / "one", text__a=b"content")
    remove_all_snapshots(cluster.manifest, cluster.log)
    assert store.publish(owner, folder, 5, {}) is not None
    remove_all_snapshots(cluster.manifest, cluster.log)
    assert store.newest() is None
    assert not list(cluster.store().names(f"{cluster.log.id}/index/"))
    published = store.publish(owner, folder, 5, {})
    assert published is not None
    store.fetch(published.snapshot, tmp_path / "two")
    assert content_of(tmp_path / "two") == content_of(folder)


@pytest.mark.parametrize("harm", ["missing", "damaged", "short"])
def test_a_damaged_snapshot_is_refused(folder_cluster, tmp_path, harm):
    store, owner = snapshots(folder_cluster), set_owner(folder_cluster, "a", 7)
    published = store.publish(owner, a_folder(tmp_path / "one", text__a=b"content"), 1, {})
    assert published is not None
    (path,) = (tmp_path / "store").rglob(published.snapshot.files[0].digest.hex())
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(b"another" if harm == "damaged" else b"con")
    with pytest.raises(DataError):
        store.fetch(published.snapshot, tmp_path / "two")


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../b", "a/b/c", "a\n", ""])
def test_a_file_outside_the_folder_is_refused(folder_cluster, tmp_path, path):
    store, owner = snapshots(folder_cluster), set_owner(folder_cluster, "a", 7)
    published = store.publish(owner, a_folder(tmp_path / "one", text__a=b"content"), 1, {})
    assert published is not None
    files = [type(file)(path, file.size, file.digest) for file in published.snapshot.files]
    with pytest.raises(DataError, match="files that it cannot have"):
        store.fetch(type(published.snapshot)(1, files), tmp_path / "two")
