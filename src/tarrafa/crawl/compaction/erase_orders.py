"""Orders to erase: given, cancelled, refused under a legal hold, due when their waiting time is over.

An order is a line of the takedown log (`tarrafa.takedown`), which all machines share. Each machine carries it out in
its own archive (`erasure`).

    DATA/erased.json    the orders that were carried out here
"""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tarrafa.archive.archive_settings import read_settings
from tarrafa.captures.store import captures_file
from tarrafa.errors import HeldByLaw
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.takedown import (
    LegalHolds,
    TakedownEntry,
    TakedownSet,
    TakedownTarget,
    in_force,
    read_entries,
    record_action,
)


def order_erasure(
    data: DataDirectory, target: TakedownTarget, who: str, reason: str, now: float
) -> TakedownEntry | None:
    """Order to erase a target, which is taken down at once; None if that is ordered already."""
    raise_if_held(data, [target])
    wait_s = float(read_settings(data.archive).erase_wait)
    entry = record_action(data, "erase", target, who, reason, now, wait_s=wait_s)
    record_action(data, "add", target, who, reason, now)
    return entry


def pending_erasures(data: DataDirectory) -> list[TakedownEntry]:
    """The orders that were not carried out on this machine."""
    done = _carried_out(data)
    return [one for one in in_force(read_entries(data), "erase").values() if _identity(one) not in done]


def due_erasures(data: DataDirectory, now: float) -> list[TakedownEntry]:
    """Those of them whose waiting time is over."""
    at = datetime.fromtimestamp(now, UTC)
    return [one for one in pending_erasures(data) if one.due is msgspec.UNSET or one.due <= at]


def _identity(order: TakedownEntry) -> str:
    return f"{order.at.isoformat()} {order.target}"


def _carried_out_path(data: DataDirectory) -> Path:
    return data.root / "erased.json"


def _carried_out(data: DataDirectory) -> list[str]:
    path = _carried_out_path(data)
    return msgspec.json.decode(path.read_bytes(), type=list[str]) if path.exists() else []


def raise_if_held(data: DataDirectory, targets: list[TakedownTarget]) -> None:
    """Raise `HeldByLaw` if a legal hold covers a part of these targets, or a collection that has captures of them."""
    holds = LegalHolds(read_entries(data))
    for target in targets:
        hold = holds.overlapping(target)
        if hold is not None:
            raise held_error(target, str(hold))
    file = captures_file(data)
    if not holds.collections or file.found_format() != file.format:
        return
    covered = TakedownSet(targets)
    sql = "SELECT url, name FROM captures JOIN collections USING (collection)"
    with file.reading() as connection:
        for url, name in connection.execute(sql):
            if name in holds.collections and covered.covers(url):
                raise held_error(targets[0], f"collection:{name}")


def held_error(target: TakedownTarget, hold: str) -> HeldByLaw:
    return HeldByLaw(
        message("{target}: {hold} is under a legal hold; nothing is erased", target=str(target), hold=hold)
    )


def note_carried_out(data: DataDirectory, orders: list[TakedownEntry]) -> None:
    done = [*_carried_out(data), *map(_identity, orders)]
    write_atomically(_carried_out_path(data), msgspec.json.encode(done))
