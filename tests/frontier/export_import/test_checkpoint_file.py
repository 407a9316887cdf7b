"""A frontier in one file: all of it, or one clear line and nothing changed."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from tarrafa.cli.rebuild_export_import import export_frontier, import_frontier
from tarrafa.clock import Clock
from tarrafa.errors import ConfigError, DataError, TarrafaError
from tarrafa.frontier.export_import import checkpoint_file
from tarrafa.frontier.export_import.checkpoint_file import (
    END,
    FORMAT,
    MAGIC,
    CheckpointContents,
    load_checkpoint,
    verify_checkpoint,
)
from tarrafa.frontier.export_import.export_records import HostExport
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.frontier.rpc.frontier_server import serve_unix
from tarrafa.frontier.store.sqlite_frontier import FrontierSnapshot, SqliteFrontier
from tarrafa.model import Outcome
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, a_collection, done, offer

HOSTS, PAGES = 5, 30


async def fill(frontier: SqliteFrontier) -> None:
    """Two collections on shared hosts, some pages visited, some handed out."""
    found = [offer(f"http://h{host}.br/{page}") for host in range(HOSTS) for page in range(PAGES)]
    await frontier.open_collection(a_collection("one", revisit={"policy": "index"}), found)
    await frontier.open_collection(a_collection("two"), found[:PAGES])
    worker = (await frontier.join("w", current_process())).worker
    for lease in await frontier.lease(worker, HOSTS):
        outcome = Outcome(200, 1e9, kept=True, type="text/html", content_id="aa", payload="sha1:A", length=5)
        await frontier.finish(worker, [done(lease, lease.visits[:3], outcome)])
    await frontier.set_state("two", "finished", "everything in reach was visited")


@pytest.fixture
async def data(tmp_path):
    """A data directory with a frontier at rest."""
    directory = DataDirectory(tmp_path / "data")
    directory.create()

    frontier = SqliteFrontier(directory.frontier, Clock.real(), SUFFIXES)
    await fill(frontier)
    await frontier.close()
    return directory


async def out(data: DataDirectory, file: Path, only: str | None = None, form: str = "tarrafa") -> str:
    return await export_frontier(data, file, only, form, force=True)


async def lines(data: DataDirectory, folder: Path, only: str | None = None) -> list[dict[str, Any]]:
    await out(data, folder / "all.jsonl", only, "jsonl")
    return sorted((json.loads(line) for line in (folder / "all.jsonl").open()), key=repr)


def images(contents: CheckpointContents) -> list[HostExport]:
    return [
        content for kind, content, _ in checkpoint_file._records(contents.path) if kind == checkpoint_file.HOST_EXPORT
    ]


async def test_what_was_exported_and_imported_is_exported_again_the_same(data, tmp_path):
    said = await out(data, tmp_path / "f")
    assert "5 hosts, 180 URLs, 15 visits remembered, 12 pages kept fresh" in said
    other = DataDirectory(tmp_path / "other")
    assert "collections: one, two" in await import_frontier(other, tmp_path / "f")
    assert await lines(other, tmp_path) == await lines(data, tmp_path)
    await out(other, tmp_path / "g")
    first, second = verify_checkpoint(tmp_path / "f"), verify_checkpoint(tmp_path / "g")
    assert images(first) == images(second)
    assert first.header.catalogue.suffixes == second.header.catalogue.suffixes == SUFFIXES
    states = {image.name: (image.state, image.reason) for image in second.header.catalogue.collections}
    assert states["one"] == ("paused", "imported; `tarrafa crawl FILE` goes on where it was")
    assert states["two"] == ("finished", "everything in reach was visited")
    assert not list(tmp_path.glob("*.new"))


async def test_what_was_deleted_travels_with_a_whole_frontier_and_not_with_one_collection(data, tmp_path):
    async def deleted(where: DataDirectory, *names: str) -> dict[str, float]:
        frontier = SqliteFrontier(where.frontier, Clock.real(), SUFFIXES)
        for name in names:
            await frontier.open_collection(a_collection(name), start=False)
            while await frontier.delete_collection(name, 1_000):
                pass
        found = {one.collection: one.at for one in await frontier.deletions(0)}
        await frontier.close()
        return found

    known = await deleted(data, "three")
    assert set(known) == {"three"}
    other, single = DataDirectory(tmp_path / "other"), DataDirectory(tmp_path / "single")
    await out(data, tmp_path / "f")
    await out(data, tmp_path / "one", "one")
    await import_frontier(other, tmp_path / "f")
    await import_frontier(single, tmp_path / "one")
    assert await deleted(other) == known
    assert await deleted(single) == {}


async def test_one_collection_alone_is_exported_with_its_hosts_only(data, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_file, "URLS_MAX", 7)  # many parts, of which some are of no interest
    await out(data, tmp_path / "f", "two")
    contents = verify_checkpoint(tmp_path / "f")
    assert (contents.summary.hosts, contents.summary.urls) == (1, PAGES)
    found = images(contents)
    assert {share.collection for image in found for share in image.shares} == {"two"}
    assert [image.row is not None for image in found] == [True] + [False] * (len(found) - 1)
    await import_frontier(DataDirectory(tmp_path / "other"), tmp_path / "f")
    assert await lines(DataDirectory(tmp_path / "other"), tmp_path) == await lines(data, tmp_path, "two")


async def test_collections_exported_by_themselves_come_together_again(data, tmp_path):
    other = DataDirectory(tmp_path / "other")
    for name in ("two", "one"):
        await out(data, tmp_path / name, name)
        await import_frontier(other, tmp_path / name)
    assert await lines(other, tmp_path) == await lines(data, tmp_path)


async def test_a_file_that_was_cut_is_refused_and_nothing_is_made(data, tmp_path):
    await out(data, tmp_path / "f")
    content = (tmp_path / "f").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.99, 0.9999):
        (tmp_path / "f").write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError, match="its end is missing" if share else "no frontier that"):
            await import_frontier(DataDirectory(tmp_path / "other"), tmp_path / "f")
    assert not (tmp_path / "other").exists()


async def test_any_damaged_byte_is_noticed(data, tmp_path):
    await out(data, tmp_path / "f")
    content = (tmp_path / "f").read_bytes()
    for place in range(0, len(content), max(1, len(content) // 60)):
        harmed = bytearray(content)
        harmed[place] ^= 0x55
        (tmp_path / "g").write_bytes(bytes(harmed))
        with pytest.raises(DataError, match=r"damaged|no frontier that|its end is missing|newer Tarrafa"):
            verify_checkpoint(tmp_path / "g")


def sealed(content: bytes) -> bytes:
    """With an end that fits."""
    body = content + END
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no frontier that `tarrafa export frontier` wrote"),
        (b"PK\x03\x04 some other file", "no frontier that"),
        (b'{"collection":"c"}\n', "no frontier that"),
        (MAGIC + b"x\n", "no frontier that"),
        (
            sealed(MAGIC + f"{FORMAT + 1}\n".encode()),
            f"written by a newer Tarrafa (format {FORMAT + 1}, this one reads",
        ),
        (sealed(MAGIC + f"{FORMAT}\n".encode()), "record 0 cannot be read"),
        (sealed(MAGIC + f"{FORMAT}\n".encode() + b"garbage"), "record 0 cannot be read"),
    ],
)
async def test_what_is_no_such_file_is_refused_in_one_line(tmp_path, content, told):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(told)) as caught:
        await import_frontier(DataDirectory(tmp_path / "other"), tmp_path / "f")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "other").exists()


async def test_a_file_with_a_right_digest_and_wrong_contents_is_refused_too(data, tmp_path):
    await out(data, tmp_path / "f")
    contents = verify_checkpoint(tmp_path / "f")
    (first, *_) = images(contents)
    (share, *rest) = first.shares
    lying = msgspec.structs.replace(share.urls[0], url="http://somewhere.else/")
    forged = msgspec.structs.replace(
        first, shares=[msgspec.structs.replace(share, urls=[lying, *share.urls[1:]]), *rest]
    )
    catalogue = msgspec.structs.replace(contents.header.catalogue, deleted={"no\r\nname": 1.0})
    odd = msgspec.structs.replace(contents.header, catalogue=catalogue)
    for parts, told in (
        ([(checkpoint_file.HEADER, contents.header), (checkpoint_file.HOST_EXPORT, forged)], "id of another URL"),
        ([(checkpoint_file.HEADER, odd)], "is no collection's name"),
        ([(checkpoint_file.HOST_EXPORT, first)], "is not where it belongs"),
        (
            [(checkpoint_file.HEADER, contents.header), (checkpoint_file.SUMMARY, contents.summary)],
            "but says that it holds",
        ),
        ([(b"x", first)], "of no kind that this Tarrafa knows"),
    ):
        packed = zstandard.ZstdCompressor().compress(
            b"".join(checkpoint_file._record(kind, content) for kind, content in parts)
        )
        (tmp_path / "g").write_bytes(sealed(MAGIC + f"{FORMAT}\n".encode() + packed))
        with pytest.raises(DataError, match=told):
            await import_frontier(DataDirectory(tmp_path / "other"), tmp_path / "g")
    assert not (tmp_path / "other").exists()


async def test_a_collection_that_is_here_already_is_refused_before_anything_changes(data, tmp_path):
    await out(data, tmp_path / "f")
    before = await lines(data, tmp_path)
    with pytest.raises(DataError, match="one, two: a collection of this name is here already; nothing was changed"):
        await import_frontier(data, tmp_path / "f")
    assert await lines(data, tmp_path) == before


async def test_an_import_that_was_killed_goes_on_and_until_then_nobody_crawls_the_half(data, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_file, "BATCH_BYTES", 5_000)
    await out(data, tmp_path / "f")
    other = DataDirectory(tmp_path / "other")
    other.create()
    contents = verify_checkpoint(tmp_path / "f")

    class Killed(BaseException):
        pass

    frontier = SqliteFrontier(other.frontier, Clock.real(), SUFFIXES)
    calls = 0

    def die(urls: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Killed

    try:
        with pytest.raises(Killed):
            await load_checkpoint(frontier, contents, die)
        with pytest.raises(TarrafaError, match="was not wholly imported; run the same"):
            await frontier.open_collection(a_collection("one"))
        worker = (await frontier.join("w", current_process())).worker
        assert await frontier.lease(worker, 10) == []
        await frontier.leave(worker)
    finally:
        await frontier.close()
    with pytest.raises(DataError, match="one: was not wholly imported"):
        await out(other, tmp_path / "h")
    await import_frontier(other, tmp_path / "f")
    assert await lines(other, tmp_path) == await lines(data, tmp_path)


async def test_a_running_frontier_is_copied_as_of_one_moment_and_goes_on(tmp_path):
    """From its file, beside its owner; and an import goes to the owner over its socket."""
    data = DataDirectory(tmp_path / "data")
    data.create()

    frontier = SqliteFrontier(data.frontier, Clock.real(), SUFFIXES)
    server = await serve_unix(frontier, data.socket)
    await fill(frontier)
    with FrontierSnapshot(data.frontier, Clock.real()) as snapshot:
        before = [image async for image in checkpoint_file.iterate_hosts(snapshot)]
        row = (await frontier.collections())[0]
        await frontier.discover(row.id, [offer("http://new.br/")])
        again = [image async for image in checkpoint_file.iterate_hosts(snapshot)]
        assert [image.shares for image in again] == [image.shares for image in before]
    await export_frontier(data, tmp_path / "f", "two", "tarrafa", force=False)
    with pytest.raises(DataError, match="two: a collection of this name is here already"):
        await import_frontier(data, tmp_path / "f")
    remote = await RemoteFrontier.connect(data.socket)
    assert sum([image.urls async for image in checkpoint_file.iterate_hosts(remote)]) == HOSTS * PAGES + PAGES + 1
    await remote.close()
    server.close()
    await frontier.close()


async def test_an_existing_file_and_an_unknown_collection_are_named(data, tmp_path):
    (tmp_path / "f").write_text("precious")
    with pytest.raises(ConfigError, match=r"f: exists already; nothing was changed \(--force replaces it\)"):
        await export_frontier(data, tmp_path / "f", None, "tarrafa", force=False)
    with pytest.raises(ConfigError, match=r"no collection is named 'three' \(there are: one, two\)"):
        await out(data, tmp_path / "f", "three")
    assert (tmp_path / "f").read_text() == "precious"
    with pytest.raises(ConfigError, match="no such file"):
        await import_frontier(data, tmp_path / "none")
    with pytest.raises(DataError, match="no frontier here; `tarrafa rebuild frontier` makes it"):
        empty = DataDirectory(tmp_path / "empty")
        empty.create()
        await out(empty, tmp_path / "g")
    assert not (tmp_path / "g").exists()


async def test_a_line_for_other_tools_says_it_in_words(data, tmp_path):
    (line, *_) = [one for one in await lines(data, tmp_path, "one") if one["state"] == "fetched"]
    assert (line["collection"], line["role"], line["status"], line["type"]) == ("one", "page", 200, "text/html")
    assert line["fetched"] == "2001-09-09T01:46:40Z"
    assert line["history"] == [
        {"number": 1, "at": "2001-09-09T01:46:40Z", "status": 200, "bytes": 5, "changed": None, "worker": "w"}
    ]
    assert line["changes_per_day"] > 0
