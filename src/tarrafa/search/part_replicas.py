"""Replicas of parts: chooses the one shard that is asked for each part of an index that several machines own.

Each shard says which parts it has (`Shard.parts`); that is remembered for a second. A part that is complete on two
machines is asked of one of them: each machine gets an even number of parts, and the same ones as long as the same
machines answer, so that pages of results are consistent.
Promises: no part is asked twice, so that statistics are those of one index. A shard that does not answer is replaced:
the search begins again without it (`OwnerLost`), and the shard is not named if other shards have all its parts. A part
that has moved since its shard was chosen is looked for again. Shards of another kind are all asked.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import Concatenate, ParamSpec, TypeVar, cast

from tarrafa.errors import DataError, ShardUnavailable, TarrafaError
from tarrafa.i18n import message
from tarrafa.search.request import OwnedShard, Shard, ShardParts

PARTS_AGE_MAX_S = 1.0
ATTEMPTS_MAX = 5  # of one search; each without one more shard
NO_PARTS = ShardParts()
ShardKey = tuple[str, int]  # name, and which of the shards with that name: those here have one name

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Asker = TypeVar("Asker")


class OwnerLost(ShardUnavailable):
    """A shard does not answer, or does not have a part any more, and other shards have it: search again."""


class AskedShards:
    """The shards that one search asks. `replaceable`: those with parts that others have, too, by their place;
    `complete`: the parts that should answer completely; `note_lost` is called before `OwnerLost` is raised."""

    def __init__(
        self,
        shards: Sequence[Shard],
        replaceable: Mapping[int, ShardKey] = MappingProxyType({}),
        complete: frozenset[int] = frozenset(),
        note_lost: Callable[[ShardKey | None, bool], None] = lambda key, is_away: None,
    ) -> None:
        self.shards, self._replaceable, self._complete, self._note_lost = shards, replaceable, complete, note_lost

    def check_lost(self, number: int, error: TarrafaError) -> None:
        """A shard has failed: raise if the search can begin again without it."""
        if number in self._replaceable:
            self._note_lost(self._replaceable[number], isinstance(error, ShardUnavailable))
            raise OwnerLost(error.message)

    def check_complete(self, found: Iterable[int]) -> None:
        """Raise if a part is not where it was a moment ago, and some of the shards have replicas."""
        if self._replaceable and self._complete - {*found}:
            self._note_lost(None, False)
            raise OwnerLost(message("a part of the index is moving to another machine; please search again"))


class _KnownParts:
    """What a shard has said last, and when; `answers`: it has not failed since."""

    def __init__(self, parts: ShardParts | None, at: float) -> None:
        self.parts, self.at, self.answers = parts or NO_PARTS, at, parts is not None


class PartReplicas:
    """Remembers which shard has which parts, by the names of the shards. For any number of threads."""

    def __init__(self) -> None:
        self._lock, self._known = threading.Lock(), dict[ShardKey, _KnownParts]()
        self._suspects = dict[ShardKey, float]()  # shards that answered an error, and when

    def choose(self, present: Sequence[Shard], pool: ThreadPoolExecutor | None) -> AskedShards:
        """The shards that are to be asked now, each with its share of the parts."""
        known = self._refresh(present, pool)
        answering = [number for number, one in enumerate(known) if one.answers]
        of = max((known[number].parts.of for number in answering), default=0)
        if not of:
            return AskedShards(present)
        owners = {part: [one for one in answering if part in known[one].parts.complete] for part in range(1, of + 1)}
        builders = {part: [one for one in answering if part in known[one].parts.building] for part in owners}
        shares = _divide({part: owners[part] or builders[part][:1] for part in owners})
        shards, replaceable, keys = list[Shard](), dict[int, ShardKey](), _keys(present)
        counts = Counter(part for one in known for part in (*one.parts.complete, *one.parts.building))
        is_replicated = any(count > 1 for count in counts.values())
        for number, one in enumerate(known):
            if not one.parts.of or (one.answers and not is_replicated):
                shards.append(present[number])
                continue
            share = shares.get(number, [])
            if not one.answers:  # it is named, unless others have what it had
                share = [part for part in one.parts.complete if not owners.get(part)]
            elif any(len(owners[part]) > 1 for part in share):
                replaceable[len(shards)] = keys[number]
            if share:
                shards.append(cast(OwnedShard, present[number]).restricted(share))
        complete = frozenset(part for part, several in owners.items() if several)
        return AskedShards(shards, replaceable, complete, self._note_lost)

    def _refresh(self, present: Sequence[Shard], pool: ThreadPoolExecutor | None) -> list[_KnownParts]:
        keys, now = _keys(present), monotonic()
        with self._lock:
            known = {key: self._known[key] for key in keys if key in self._known}
        old = [at for at, key in enumerate(keys) if key not in known or known[key].at + PARTS_AGE_MAX_S < now]
        shards = [present[at] for at in old]
        found = map(_parts_of, shards) if pool is None or len(old) < 2 else pool.map(_parts_of, shards)
        for key, parts in zip([keys[at] for at in old], found, strict=True):
            last = known.get(key)
            one = known[key] = _KnownParts(parts, now)
            if parts is None and last is not None:
                one.parts = last.parts
        with self._lock:
            self._known = known
        return [known[key] for key in keys]

    def _note_lost(self, key: ShardKey | None, is_away: bool) -> None:
        """Ask a shard that is away nothing for a second. An error may mean that a part has moved: look at once which
        shard has which parts; a shard with another error within that time is damaged, and counts as away."""
        now = monotonic()
        with self._lock:
            is_damaged = key is not None and self._suspects.get(key, -inf) + PARTS_AGE_MAX_S >= now
            if key is not None and key in self._known and (is_away or is_damaged):
                self._known[key].at, self._known[key].answers = now, False
            else:
                for one in self._known.values():
                    one.at = -inf
                if key is not None:
                    self._suspects[key] = now


def _keys(present: Sequence[Shard]) -> list[ShardKey]:
    counts, keys = Counter[str](), list[ShardKey]()
    for shard in present:
        keys.append((shard.name, counts[shard.name]))
        counts[shard.name] += 1
    return keys


def _parts_of(shard: Shard) -> ShardParts | None:
    """None: it does not answer."""
    try:
        return shard.parts()
    except (ShardUnavailable, DataError):
        return None


def _divide(owners: dict[int, list[int]]) -> dict[int, list[int]]:
    """Give each part to one of its owners, parts with few owners first, and each owner as many as the others."""
    counts, shares = Counter[int](), dict[int, list[int]]()
    for part in sorted(owners, key=lambda part: (len(owners[part]), part)):
        if owners[part]:
            chosen = min(owners[part], key=lambda one: (counts[one], one))
            counts[chosen] += 1
            shares.setdefault(chosen, []).append(part)
    return shares


def with_replicas(
    method: Callable[Concatenate[Asker, Given], Answer],
) -> Callable[Concatenate[Asker, Given], Answer]:
    """Call a method that searches the shards, and again when a shard is lost whose parts other shards have."""

    @wraps(method)
    def ask(asker: Asker, /, *given: Given.args, **named: Given.kwargs) -> Answer:
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return method(asker, *given, **named)
            except OwnerLost:
                pass
        return method(asker, *given, **named)

    return ask
