"""Recurrence: the times at which a period or cron expression comes, across time zones and clock changes.

A period is `daily`, a number of days or weeks, any other length of time, or five fields as cron has them. Days and
weeks are counted on the wall: 03:00 stays 03:00 when the clocks change. Hours and minutes are counted as they pass.
A time that the clocks leave out comes at the first moment after the gap; one that they show twice comes once, the
first time. Moments are seconds since 1970. Pure: nobody here knows what time it is now.

Cron's fields are read by cronsim, the clocks are ours: cronsim, as Debian's cron, leaves out a day's `*/30 2 * * *`
where there is no 02:00, and, asked in the second hour of two, answers with one that is over. Only where cron is told
"every hour" (`*`) does it count as time passes, so that none is left out and none comes twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim

from tarrafa.config.formats import CRON_FIELDS, QUANTITY, SECONDS_PER_UNIT, parse_duration

DAY = timedelta(days=1)
DAY_S = 86_400
ZONES_FROM, ZONES_TO = 1971, 9000  # years; before and after, all clocks show UTC: arithmetic has room on both sides
FIRST, LAST = (datetime(year, 6, 1, tzinfo=UTC).timestamp() for year in (1, 9999))
CACHE_MAX = 4_096  # answers


class Recurrence(msgspec.Struct, frozen=True):
    """A period with what it is counted from: a time on the wall. Without a period, that time alone."""

    anchor: datetime
    every: str
    zone: str

    def after(self, moment: float) -> float | None:
        """The first time that is later than that; None: there is none."""
        return _after(self, moment)

    def until(self, moment: float) -> float | None:
        """The last time that is not later than that; None: there is none. One of cron's may be before the anchor."""
        return _until(self, moment)


def local_time(moment: float, zone: str) -> datetime:
    """What clocks there show; `fold` says that they show it for the second time."""
    shown = datetime.fromtimestamp(min(max(moment, FIRST), LAST), UTC)
    if ZONES_FROM <= shown.year < ZONES_TO:
        shown = shown.astimezone(ZoneInfo(zone))
    return shown.replace(tzinfo=None)


def timestamp_of_local(shown: datetime, zone: str) -> float:
    """When clocks there show that; the first time, or the first moment after the gap where it would be."""
    if not ZONES_FROM <= shown.year < ZONES_TO:
        return shown.replace(tzinfo=UTC, fold=0).timestamp()
    local = shown.replace(tzinfo=ZoneInfo(zone), fold=0)
    moment = local.timestamp()
    if local_time(moment, zone) == shown.replace(fold=0):
        return moment
    # In a gap the two readings lie on its two sides (PEP 495); the clocks change somewhere between them.
    before, behind = local.replace(fold=1).timestamp(), moment
    offset = _offset_s(before, zone)
    while behind - before > 1:
        middle = (before + behind) // 2
        before, behind = (middle, behind) if _offset_s(middle, zone) == offset else (before, middle)
    return behind


def _offset_s(moment: float, zone: str) -> float:
    offset = datetime.fromtimestamp(moment, ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return offset.total_seconds()


@lru_cache(CACHE_MAX)
def _after(rhythm: Recurrence, moment: float) -> float | None:
    try:
        return next((time for time in _times_forward(rhythm, moment) if time > moment), None)
    except (OverflowError, ValueError):  # the calendar ends in the year 9999
        return None


@lru_cache(CACHE_MAX)
def _until(rhythm: Recurrence, moment: float) -> float | None:
    try:
        return next((time for time in _times_backward(rhythm, moment) if time <= moment), None)
    except (OverflowError, ValueError):
        return None


def _times_forward(rhythm: Recurrence, moment: float) -> Iterator[float]:
    """Times in their order; the first ones may still be before `moment`, by no more than the clocks ever change."""
    if _is_cron(rhythm.every):
        if rhythm.anchor.year >= ZONES_TO:  # a day that people do not mean, and that is far to walk to
            return iter(())
        return _cron_times(rhythm, max(moment, timestamp_of_local(rhythm.anchor, rhythm.zone) - 1), reverse=False)
    if not rhythm.every:
        return iter([timestamp_of_local(rhythm.anchor, rhythm.zone)])
    number = max(0, _index_at(rhythm, moment) - 1)
    return _times_by_count(rhythm, number, 1)


def _times_backward(rhythm: Recurrence, moment: float) -> Iterator[float]:
    """Times from the latest on; the first ones may be after `moment`."""
    if _is_cron(rhythm.every):
        return _cron_times(rhythm, moment, reverse=True)
    if not rhythm.every:
        return iter([timestamp_of_local(rhythm.anchor, rhythm.zone)])
    return _times_by_count(rhythm, _index_at(rhythm, moment) + 1, -1)


def _is_cron(every: str) -> bool:
    return len(every.split()) == CRON_FIELDS


def whole_days(every: str) -> int:
    """So many days on the wall; 0: it is counted as time passes."""
    if every == "daily":
        return 1
    match = QUANTITY.fullmatch(every)
    if match is None or SECONDS_PER_UNIT.get(match[2].lower(), 0) < DAY_S:
        return 0
    days, rest = divmod(parse_duration(every), DAY_S)
    return 0 if rest else int(days)


def _index_at(rhythm: Recurrence, moment: float) -> int:
    """About which of its times is the last one not later than that, counted from the anchor, its number 0."""
    days = whole_days(rhythm.every)
    if days:
        return (local_time(moment, rhythm.zone) - rhythm.anchor) // (days * DAY)
    return int((moment - timestamp_of_local(rhythm.anchor, rhythm.zone)) // parse_duration(rhythm.every))


def _times_by_count(rhythm: Recurrence, number: int, step: int) -> Iterator[float]:
    days = whole_days(rhythm.every)
    while number >= 0:
        if days:
            yield timestamp_of_local(rhythm.anchor + number * days * DAY, rhythm.zone)
        else:
            yield timestamp_of_local(rhythm.anchor, rhythm.zone) + number * parse_duration(rhythm.every)
        number += step


def _cron_times(rhythm: Recurrence, moment: float, *, reverse: bool) -> Iterator[float]:
    zone = ZoneInfo(rhythm.zone)
    shown = local_time(moment + 1 if reverse else moment, rhythm.zone)
    if rhythm.every.split()[1] == "*":
        for time in CronSim(rhythm.every, shown.replace(tzinfo=zone), reverse=reverse):
            yield time.timestamp()
        return
    if reverse and shown.fold:  # the clocks have already shown later times than this
        local = shown.replace(tzinfo=zone)
        shown += (local.replace(fold=0).utcoffset() or timedelta()) - (local.utcoffset() or timedelta())
    for time in CronSim(rhythm.every, shown.replace(fold=0), reverse=reverse):
        yield timestamp_of_local(time, rhythm.zone)
