"""Commands `archive ls`, `push` and `pull`: what is in an archive, and the way into a segment log and back."""

import asyncio
from typing import Annotated

import msgspec
import typer

from tarrafa.archive.segment_log.log_mirror import LogMirror, detach_mirror, refuse_mirror
from tarrafa.archive.segment_log.push import ArchivePush
from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
from tarrafa.archive.warc_writer import read_durable
from tarrafa.cli.crawl import node_name
from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, NodeName, Store, existing_data
from tarrafa.cli.output import ProgressBar, new_table, print_json, print_table
from tarrafa.crawl.worker.worker_fence import register
from tarrafa.errors import ConfigError, Locked
from tarrafa.frontier.address import Address, connect, connect_blocking, from_command_line, open_manifest
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted, print_line

app = typer.Typer(no_args_is_help=True, help="List an archive, push it into a store, pull it.")
LISTED = 50


class ListedFiles(msgspec.Struct, frozen=True):
    """A pair of files, or a segment of a log."""

    name: str
    warc_bytes: int
    meta_bytes: int
    number: int = 0  # of a segment


class ArchiveListing(msgspec.Struct, frozen=True):
    store: str  # of a log; empty: files of this machine
    total: int
    bytes: int
    files: list[ListedFiles]


@app.command("ls")
def list_archive(
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="The newest ones.")] = LISTED,
    as_json: Json = False,
) -> None:
    """List the pairs of files of a data directory, or with --frontier the segments of its log."""
    address = from_command_line(where, None)
    listing = _list_files(existing_data(data), limit) if address is None else _list_segments(address, limit)
    if as_json:
        print_json(listing)
        return
    table = new_table("number" if listing.store else "", "name", "WARC bytes", "metadata bytes", left=("name",))
    for one in listing.files:
        table.add_row(f"{one.number:,}" if one.number else "", one.name, f"{one.warc_bytes:,}", f"{one.meta_bytes:,}")
    print_table(table)
    what = f"in {listing.store}" if listing.store else "in files of this machine"
    count = counted(listing.total, "segment" if listing.store else "pair")
    print_line(f"{count} {what}, {counted(listing.bytes, 'byte')}")


def _list_files(data: DataDirectory, limit: int) -> ArchiveListing:
    found = {path.stem: read_durable(path) for path in sorted(data.archive.glob("*.durable"))}
    files = [ListedFiles(name, one.warc, one.meta) for name, one in list(found.items())[-limit:]]
    return ArchiveListing("", len(found), sum(one.warc + one.meta for one in found.values()), files)


def _list_segments(address: Address, limit: int) -> ArchiveListing:
    manifest, log = _require_log(address)
    try:
        last = manifest.head().number
        files = [
            ListedFiles(one.name, one.warc.size, one.meta.size, one.number)
            for one in manifest.segments(max(1, last - limit + 1), limit)
        ]
        lengths = manifest.lengths()
        return ArchiveListing(log.store, last, lengths.warc + lengths.meta, files)
    finally:
        manifest.close()


@app.command()
def push(
    data: Data = DEFAULT_DATA,
    where: FrontierAddress = None,
    store: Store = None,
    name: NodeName = None,
) -> None:
    """Push the archive of this machine into an object store, where several machines go on with it.

    First bring its frontier into PostgreSQL (`tarrafa export frontier`, `import frontier`). Several machines that each
    have an archive push one after the other, before any worker starts. If killed, run it again. The archive here stays.
    """
    address, directory = _require_address(where), existing_data(data)
    refuse_mirror(directory, "a push")
    lock = directory.try_lock()
    if lock is None:
        raise Locked(f"{directory.root}: a crawl runs here; stop it first")
    with lock:
        count = asyncio.run(_push(directory, address, store, f"{node_name(name)}push"))
    print_line(f"{counted(count, 'segment')} pushed; start workers with another --data")


async def _push(data: DataDirectory, address: Address, store: str | None, name: str) -> int:
    frontier = await connect(address)
    try:
        if not (await frontier.overview()).collections:
            raise ConfigError(
                f"{address}: has no collection: bring the frontier there first, with `tarrafa export frontier` and"
                " `import frontier`"
            )
        opened = await asyncio.to_thread(open_manifest, address, store, has_archive=True)
        if opened is None:
            raise ConfigError("--store is missing: where is the archive to go?")
        terms, _ = await register(frontier, data, name)
        try:
            return await asyncio.to_thread(_push_all, data, address, opened, terms.worker)
        finally:
            await frontier.leave(terms.worker)
            opened[0].close()
    finally:
        await frontier.close()


def _push_all(data: DataDirectory, address: Address, opened: tuple[SegmentManifest, LogIdentity], worker: int) -> int:
    client = connect_blocking(address)
    try:
        pushing = ArchivePush(data, *opened, worker, lambda: client.call("renew", worker, ""))
        with ProgressBar("pushing the archive", pushing.unpushed_bytes()) as progress:
            return pushing.run(progress)
    finally:
        client.close()


@app.command()
def pull(data: Data = DEFAULT_DATA, where: FrontierAddress = None) -> None:
    """Pull the archive out of the object store into a data directory of its own, which one machine can go on with.

    Then bring the frontier there (`tarrafa export frontier --frontier …`, `import frontier`), or make it anew with
    `tarrafa rebuild frontier`. If killed, run it again.
    """
    address, directory = _require_address(where), DataDirectory(data)
    directory.create()
    lock = directory.try_lock()
    if lock is None:
        raise Locked(f"{directory.root}: a crawl runs here; stop it first")
    manifest, log = _require_log(address)
    with lock:
        with LogMirror(directory, manifest, log) as mirror:
            end, at = manifest.lengths(), mirror.lengths
            with ProgressBar("pulling the archive", end.warc + end.meta - at.warc - at.meta) as progress:
                while mirror.pull():
                    now = mirror.lengths
                    progress(now.warc + now.meta - at.warc - at.meta)
                    at = now
        detach_mirror(directory)
    manifest.close()
    print_line(f"{directory.archive}: {counted(at.warc + at.meta, 'byte')}, an archive of one machine")


def _require_address(where: list[str] | None) -> Address:
    address = from_command_line(where, None)
    if address is None:
        raise ConfigError("--frontier is missing: the log is ordered by a frontier in PostgreSQL")
    return address


def _require_log(address: Address) -> tuple[SegmentManifest, LogIdentity]:
    opened = open_manifest(address)
    if opened is None:
        raise ConfigError(f"{address}: keeps no archive in an object store (docs/cluster.md)")
    return opened
