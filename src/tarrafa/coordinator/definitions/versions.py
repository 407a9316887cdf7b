"""Collection definitions: the configuration in force, every stored version, and long root lists kept once.

The frontier knows the configuration in force; it is read once for each revision and then cached, because it may name a
million roots. The coordinator's store keeps every version, with author and time. A long list of roots is kept beside
the store, in DATA/definitions, under the digest of its content: versions that share a list share the file. Promises:
slow work is done outside the event loop; a configuration that came by another way than the console gets its version
and its history when it is first seen.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.store import CollectionLifecycle, CoordinatorStore
from tarrafa.errors import DataError, NotFound, TarrafaError, Unreachable, data_error_from_os
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionRow, FrontierCollectionState, FrontierOverview
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically

BY_COMMAND_LINE = "tarrafa crawl"  # the author of a configuration that did not come through the console
LONG_BYTES = 64 << 10  # longer lists are kept beside the store
LISTS = "lists"  # the first key of a stored configuration whose lists are kept beside the store
NO_SUCH_COLLECTION = "no collection is named {!r}"

_raws = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class LongLists(msgspec.Struct, frozen=True):
    """The lists of a configuration that may be long."""

    roots: tuple[str, ...]
    hosts: tuple[str, ...] | None


class LongListStore:
    """The long lists of one data directory. Blocks: not for the event loop."""

    def __init__(self, data: DataDirectory) -> None:
        self._folder = data.root / "definitions"

    def put(self, content: bytes) -> bytes:
        """A configuration as the store keeps it: as it is, or without its long lists, which are then on disk."""
        if len(content) < LONG_BYTES:
            return content
        outer = _raws(content)
        scope = _raws(outer["scope"])
        lists = msgspec.json.encode({"roots": outer["roots"], "hosts": scope["hosts"]})
        digest = hashlib.blake2b(lists, digest_size=16).hexdigest()
        scope["hosts"] = outer["roots"] = msgspec.Raw(b"[]")
        path = self._path(digest)
        if not path.exists():
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                write_atomically(path, lists)
            except OSError as error:
                raise data_error_from_os(error, path) from None
        return msgspec.json.encode({LISTS: digest, **outer, "scope": scope})

    def reader(self) -> Callable[[bytes], Collection]:
        """A function that reads what was put; a shared list is read once."""
        seen: dict[str, LongLists] = {}

        def read(kept: bytes) -> Collection:
            digest = long_lists_digest(kept)
            if not digest:
                return config.decode_collection(kept)
            if digest not in seen:
                seen[digest] = self._lists(digest)
            outer = _raws(kept)
            del outer[LISTS]
            short, lists = config.decode_collection(msgspec.json.encode(outer)), seen[digest]
            return replace(short, roots=lists.roots, scope=replace(short.scope, hosts=lists.hosts))

        return read

    def _lists(self, digest: str) -> LongLists:
        try:
            return msgspec.json.decode(self._path(digest).read_bytes(), type=LongLists)
        except (OSError, msgspec.MsgspecError) as error:
            raise DataError(
                message("{path}: the roots of a version cannot be read ({error})", path=self._path(digest), error=error)
            ) from None

    def drop(self, digests: set[str]) -> None:
        for digest in digests:
            with contextlib.suppress(OSError):
                self._path(digest).unlink()

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.json"


def long_lists_digest(kept: bytes) -> str:
    """The digest of the long lists that a version names; empty: it has none."""
    if not kept.startswith(b'{"' + LISTS.encode() + b'"'):
        return ""
    return msgspec.json.decode(_raws(kept)[LISTS], type=str)


@dataclass(frozen=True, slots=True)
class _KnownDefinition:
    """A configuration in force at a revision. None: it cannot be read. `adopted`: the store has it."""

    standing: FrontierCollectionState
    collection: Collection | None
    adopted: bool

    def is_of(self, standing: FrontierCollectionState) -> bool:
        return (self.standing.id, self.standing.revision) == (standing.id, standing.revision)


class CollectionDefinitions:
    """The definitions of all collections. `frontier` returns the frontier, or raises `Unreachable`."""

    def __init__(self, store: CoordinatorStore, frontier: Callable[[], Frontier], clock: Clock) -> None:
        self._store, self._frontier, self._clock = store, frontier, clock
        self.long_lists = LongListStore(store.data)
        self._known: dict[str, _KnownDefinition] = {}
        self._list_lock = asyncio.Lock()  # a list is written before a version names it, and dropped when none does

    async def standing(self, name: str) -> FrontierCollectionState:
        """The state of a collection in the frontier."""
        for one in await self._frontier().collection_states():
            if one.name == name:
                return one
        raise NotFound(NO_SUCH_COLLECTION.format(name[:80]))

    async def in_force(self, name: str) -> Collection:
        return await self.in_force_at(await self.standing(name))

    async def in_force_at(self, standing: FrontierCollectionState, *, adopt: bool = False) -> Collection:
        """The configuration in force at a state. `adopt`: store it as a version, under the collection's lock."""
        known = self._known.get(standing.name)
        if known is not None and known.collection is not None and known.is_of(standing) and known.adopted >= adopt:
            return known.collection
        row = await self._frontier().collection(standing.name)
        if row is None:
            raise NotFound(NO_SUCH_COLLECTION.format(standing.name[:80]))
        collection = await asyncio.to_thread(config.decode_collection, row.config)
        if adopt:
            await self._adopt(row)
        self.cache(row, collection, adopted=adopt)
        return collection

    def cache(self, row: CollectionRow, collection: Collection | None, *, adopted: bool = True) -> None:
        self._known[row.name] = _KnownDefinition(
            FrontierCollectionState(row.id, row.state, row.revision, row.name), collection, adopted
        )

    async def add_version(self, collection: Collection, who: str) -> None:
        async with self._list_lock:
            content = await asyncio.to_thread(lambda: self.long_lists.put(config.encode_collection(collection)))
            self._store.add_version(collection.name, content, self._clock.now(), who)

    async def _adopt(self, row: CollectionRow) -> None:
        """Store a configuration that came by another way than the console."""
        now, life = self._clock.now(), self._store.lifecycle(row.name)
        if life is None:
            life = CollectionLifecycle(created=now, scheduled=now)
            self._store.put_lifecycle(row.name, life)
        last = self._store.newest_version(row.name)
        async with self._list_lock:
            content = await asyncio.to_thread(self.long_lists.put, row.config)
            number = self._store.add_version(row.name, content, now, BY_COMMAND_LINE)
        if last is not None and number > last.number and _schedule_of(bytes(last.config)) != _schedule_of(content):
            self._store.put_lifecycle(row.name, replace(life, scheduled=now))

    # -- the cache -------------------------------------------------------------------------------------------------

    def cached(self, name: str) -> Collection | None:
        """The configuration in force when it was last read."""
        found = self._known.get(name)
        return None if found is None else found.collection

    def frontier_id(self, name: str) -> int | None:
        found = self._known.get(name)
        return None if found is None else found.standing.id

    def all(self) -> list[Collection]:
        return [one.collection for one in self._known.values() if one.collection is not None]

    def has_changes(self, overview: FrontierOverview) -> bool:
        """Whether the frontier has other revisions than the store."""
        seen = {one.name: one.revision for one in overview.collections}
        return seen != {name: one.standing.revision for name, one in self._known.items() if one.adopted}

    async def adopt_changed(
        self, acting: Callable[[str], asyncio.Lock], fail: Callable[[str, TarrafaError], None]
    ) -> None:
        """Adopt new and changed collections, except while an action holds a lock of `acting`: a running edit has an
        author. `fail` is called once for each that cannot be read."""
        standings = await self._frontier().collection_states()
        for one in standings:
            lock = acting(one.name)
            if lock.locked():
                continue
            try:
                async with lock:
                    await self.in_force_at(one, adopt=True)
            except NotFound:
                continue
            except Unreachable:
                raise
            except TarrafaError as error:  # of another version, or there is no room to write
                self._known[one.name] = _KnownDefinition(one, None, adopted=True)
                fail(one.name, error)
        for gone in self._known.keys() - {one.name for one in standings}:
            del self._known[gone]

    async def delete(self, name: str) -> None:
        self._known.pop(name, None)
        async with self._list_lock:
            named = self._store.delete_collection(name)
            lists = {long_lists_digest(content) for content in named} - {""}
            if lists:
                others = {long_lists_digest(content) for content in self._store.all_version_configs()}
                await asyncio.to_thread(self.long_lists.drop, lists - others)


def _schedule_of(kept: bytes) -> bytes:
    return bytes(_raws(kept).get("schedule", msgspec.Raw(b"")))
