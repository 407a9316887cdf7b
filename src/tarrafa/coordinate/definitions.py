"""What is each collection to be, and what was it to be before?

What is in force the frontier knows; here it is asked for once for each revision and then remembered, because it may
name a million roots. Every version is kept in the ledger, with who and when. A long list of roots is kept beside it, in
DATA/definitions, under the digest of its content: versions that share it share the file. Promises: what takes long is
done beside the loop; one that came by another way than ours gets its version and its history when it is first seen.
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
from tarrafa.coordinate.ledger import Ledger, Life
from tarrafa.data import DataDirectory, write_atomically
from tarrafa.errors import DataError, NoSuchThing, TarrafaError, Unreachable, from_os
from tarrafa.frontier.protocol import CollectionRow, Frontier, Overview, Standing

ELSEWHERE = "tarrafa crawl"  # who wrote a configuration that did not come through here
LONG_BYTES = 64 << 10  # lists that are longer are kept beside the ledger
LISTS = "lists"  # the key that then names them, before all others
NOBODY_NAMED = "no collection is named {!r}"

_raws = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Lists(msgspec.Struct, frozen=True):
    """What may be long in a configuration."""

    roots: tuple[str, ...]
    hosts: tuple[str, ...] | None


class Shelf:
    """The long lists of one data directory. Blocks: not to be called by a loop."""

    def __init__(self, data: DataDirectory) -> None:
        self._folder = data.root / "definitions"

    def put(self, content: bytes) -> bytes:
        """A configuration as the ledger keeps it: as it is, or without its long lists, which are on the disk then."""
        if len(content) < LONG_BYTES:
            return content
        outer = _raws(content)
        scope = _raws(outer["scope"])
        lists = msgspec.json.encode({"roots": outer["roots"], "hosts": scope["hosts"]})
        digest = hashlib.blake2b(lists, digest_size=16).hexdigest()
        nothing = msgspec.Raw(b"[]")
        scope["hosts"] = outer["roots"] = nothing
        short: dict[str, object] = {LISTS: digest, **outer, "scope": scope}
        if not self._path(digest).exists():
            self._write(digest, lists)
        return msgspec.json.encode(short)

    def _write(self, digest: str, lists: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._path(digest), lists)
        except OSError as error:
            raise from_os(error, self._path(digest)) from None

    def reader(self) -> Callable[[bytes], Collection]:
        """Reads what was put; lists that several share, once."""
        seen: dict[str, Lists] = {}

        def read(kept: bytes) -> Collection:
            digest = named_lists(kept)
            if not digest:
                return config.decode(kept)
            if digest not in seen:
                seen[digest] = self._lists(digest)
            outer = _raws(kept)
            del outer[LISTS]
            short, lists = config.decode(msgspec.json.encode(outer)), seen[digest]
            return replace(short, roots=lists.roots, scope=replace(short.scope, hosts=lists.hosts))

        return read

    def _lists(self, digest: str) -> Lists:
        try:
            return msgspec.json.decode(self._path(digest).read_bytes(), type=Lists)
        except (OSError, msgspec.MsgspecError) as error:
            raise DataError(f"{self._path(digest)}: the roots of a version cannot be read ({error})") from None

    def drop(self, digests: set[str]) -> None:
        """Nobody names them any more."""
        for digest in digests:
            with contextlib.suppress(OSError):
                self._path(digest).unlink()

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.json"


def named_lists(kept: bytes) -> str:
    """The digest of the long lists that a version names; empty: it has none."""
    if not kept.startswith(b'{"' + LISTS.encode() + b'"'):
        return ""
    return msgspec.json.decode(_raws(kept)[LISTS], type=str)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is in force, as of a revision. None: it cannot be read. `adopted`: the ledger has it."""

    standing: Standing
    collection: Collection | None
    adopted: bool

    def is_of(self, standing: Standing) -> bool:
        return (self.standing.id, self.standing.revision) == (standing.id, standing.revision)


class Definitions:
    """Of all collections. `frontier` gives it when it is there, and raises `Unreachable` when it is not."""

    def __init__(self, ledger: Ledger, frontier: Callable[[], Frontier], clock: Clock) -> None:
        self._ledger, self._frontier, self._clock = ledger, frontier, clock
        self.shelf = Shelf(ledger.data)
        self._known: dict[str, _Known] = {}
        self._shelving = asyncio.Lock()  # a list is on the shelf until the ledger names it, or nobody does any more

    async def standing(self, name: str) -> Standing:
        """How it stands in this moment; `NoSuchThing`, if it does not."""
        for one in await self._frontier().standings():
            if one.name == name:
                return one
        raise NoSuchThing(NOBODY_NAMED.format(name[:80]))

    async def of(self, name: str) -> Collection:
        """What is in force."""
        return await self.at(await self.standing(name))

    async def at(self, standing: Standing, *, adopt: bool = False) -> Collection:
        """What is in force where a collection stands so. To `adopt` it: nobody else changes it meanwhile."""
        known = self._known.get(standing.name)
        if known is not None and known.collection is not None and known.is_of(standing) and known.adopted >= adopt:
            return known.collection
        row = await self._frontier().collection(standing.name)
        if row is None:
            raise NoSuchThing(NOBODY_NAMED.format(standing.name[:80]))
        collection = await asyncio.to_thread(config.decode, row.config)
        if adopt:
            await self._adopt(row)
        self.remember(row, collection, adopted=adopt)
        return collection

    def remember(self, row: CollectionRow, collection: Collection | None, *, adopted: bool = True) -> None:
        """Somebody knows what is in force."""
        self._known[row.name] = _Known(Standing(row.id, row.state, row.revision, row.name), collection, adopted)

    async def note(self, collection: Collection, who: str) -> None:
        """Another version of what people defined."""
        async with self._shelving:
            content = await asyncio.to_thread(lambda: self.shelf.put(config.encode(collection)))
            self._ledger.define(collection.name, content, self._clock.now(), who)

    async def _adopt(self, row: CollectionRow) -> None:
        """What came by another way than ours gets its history from now on."""
        now, life = self._clock.now(), self._ledger.life(row.name)
        if life is None:
            life = Life(created=now, scheduled=now)
            self._ledger.live(row.name, life)
        last = self._ledger.version(row.name)
        async with self._shelving:
            content = await asyncio.to_thread(self.shelf.put, row.config)
            number = self._ledger.define(row.name, content, now, ELSEWHERE)
        if last is not None and number > last.number and _schedule_of(bytes(last.config)) != _schedule_of(content):
            self._ledger.live(row.name, replace(life, scheduled=now))

    # -- what is remembered ------------------------------------------------------------------------------------------

    def known(self, name: str) -> Collection | None:
        """What was in force when somebody last looked."""
        found = self._known.get(name)
        return None if found is None else found.collection

    def number(self, name: str) -> int | None:
        """Its number in the frontier."""
        found = self._known.get(name)
        return None if found is None else found.standing.id

    def all(self) -> list[Collection]:
        return [one.collection for one in self._known.values() if one.collection is not None]

    def is_news(self, overview: Overview) -> bool:
        """Whether there are others than those that the ledger has."""
        seen = {one.name: one.revision for one in overview.collections}
        return seen != {name: one.standing.revision for name, one in self._known.items() if one.adopted}

    async def learn(self, acting: Callable[[str], asyncio.Lock], fail: Callable[[str, TarrafaError], None]) -> None:
        """Adopt those that are new or changed, but not while somebody is `acting` on one: an edit under way has an
        author. `fail` hears of those that cannot be read, once."""
        standings = await self._frontier().standings()
        for one in standings:
            lock = acting(one.name)
            if lock.locked():
                continue
            try:
                async with lock:
                    await self.at(one, adopt=True)
            except NoSuchThing:
                continue
            except Unreachable:
                raise
            except TarrafaError as error:  # of another version, or there is no room to write
                self._known[one.name] = _Known(one, None, adopted=True)
                fail(one.name, error)
        for gone in self._known.keys() - {one.name for one in standings}:
            del self._known[gone]

    async def forget(self, name: str) -> None:
        """A name that is free is nobody's."""
        self._known.pop(name, None)
        async with self._shelving:
            named = self._ledger.forget(name)
            lists = {named_lists(content) for content in named} - {""}
            if lists:
                others = {named_lists(content) for content in self._ledger.definitions()}
                await asyncio.to_thread(self.shelf.drop, lists - others)


def _schedule_of(kept: bytes) -> bytes:
    return bytes(_raws(kept).get("schedule", msgspec.Raw(b"")))
