"""Recurrence: the times at which a period or cron expression comes, across time zones and clock changes.

A period is `daily`, a number of days or weeks, any other duration, or a cron expression of five fields. Days and weeks
follow local time: 03:00 stays 03:00 when the clocks change. Hours and minutes follow elapsed time. A local time in the
gap of a clock change comes at the first moment after the gap; one that occurs twice comes once, the first time.
Moments are seconds since 1970. Pure: the current time is never read.

cronsim parses cron expressions; clock changes are handled here. cronsim, as Debian's cron, skips `*/30 2 * * *` on a
day without 02:00, and in the second of two equal hours it answers with a time that is past. Only with `*` as the hour
does it follow elapsed time, so that no hour is skipped and none comes twice.
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
ZONES_FROM, ZONES_TO = 1971, 9000  # years; outside them all zones are UTC, so that date arithmetic cannot overflow
FIRST, LAST = (datetime(year, 6, 1, tzinfo=UTC).timestamp() for year in (1, 9999))
CACHE_MAX = 4_096  # results


class Recurrence(msgspec.Struct, frozen=True):
    """A period, counted from a local time. Without a period, that time alone."""

    anchor: datetime
    every: str
    zone: str

    @property
    def anchor_time(self) -> float:
        return timestamp_of_local(self.anchor, self.zone)

    def after(self, moment: float) -> float | None:
        """The first time after `moment`; None: there is none."""
        return _after(self, moment)

    def until(self, moment: float) -> float | None:
        """The last time not after `moment`; None: there is none. A cron time may be before the anchor."""
        return _until(self, moment)


def local_time(moment: float, zone: str) -> datetime:
    """The local time in a zone. `fold`: it occurs for the second time."""
    shown = datetime.fromtimestamp(min(max(moment, FIRST), LAST), UTC)
    if ZONES_FROM <= shown.year < ZONES_TO:
        shown = shown.astimezone(ZoneInfo(zone))
    return shown.replace(tzinfo=None)


def timestamp_of_local(shown: datetime, zone: str) -> float:
    """When that local time occurs: the first time, or the first moment after the gap that contains it."""
    if not ZONES_FROM <= shown.year < ZONES_TO:
        return shown.replace(tzinfo=UTC, fold=0).timestamp()
    local = shown.replace(tzinfo=ZoneInfo(zone), fold=0)
    moment = local.timestamp()
    if local_time(moment, zone) == shown.replace(fold=0):
        return moment
    # In a gap the two folds lie on its two sides (PEP 495); the clocks change somewhere between them.
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
def _after(recurrence: Recurrence, moment: float) -> float | None:
    try:
        return next((time for time in _times_forward(recurrence, moment) if time > moment), None)
    except (OverflowError, ValueError):  # the calendar ends in the year 9999
        return None


@lru_cache(CACHE_MAX)
def _until(recurrence: Recurrence, moment: float) -> float | None:
    try:
        return next((time for time in _times_backward(recurrence, moment) if time <= moment), None)
    except (OverflowError, ValueError):
        return None


def _times_forward(recurrence: Recurrence, moment: float) -> Iterator[float]:
    """Times in their order; the first ones may be before `moment`, by at most one clock change."""
    if _is_cron(recurrence.every):
        if recurrence.anchor.year >= ZONES_TO:  # cronsim would step through thousands of years
            return iter(())
        return _cron_times(recurrence, max(moment, recurrence.anchor_time - 1), reverse=False)
    if not recurrence.every:
        return iter([recurrence.anchor_time])
    number = max(0, _index_at(recurrence, moment) - 1)
    return _times_by_count(recurrence, number, 1)


def _times_backward(recurrence: Recurrence, moment: float) -> Iterator[float]:
    """Times in reverse order; the first ones may be after `moment`."""
    if _is_cron(recurrence.every):
        return _cron_times(recurrence, moment, reverse=True)
    if not recurrence.every:
        return iter([recurrence.anchor_time])
    return _times_by_count(recurrence, _index_at(recurrence, moment) + 1, -1)


def _is_cron(every: str) -> bool:
    return len(every.split()) == CRON_FIELDS


def whole_days(every: str) -> int:
    """The period in calendar days; 0: it follows elapsed time."""
    if every == "daily":
        return 1
    match = QUANTITY.fullmatch(every)
    if match is None or SECONDS_PER_UNIT.get(match[2].lower(), 0) < DAY_S:
        return 0
    days, rest = divmod(parse_duration(every), DAY_S)
    return 0 if rest else int(days)


def _index_at(recurrence: Recurrence, moment: float) -> int:
    """About the number of the last time not after `moment`; the anchor has number 0."""
    days = whole_days(recurrence.every)
    if days:
        return (local_time(moment, recurrence.zone) - recurrence.anchor) // (days * DAY)
    return int((moment - recurrence.anchor_time) // parse_duration(recurrence.every))


def _times_by_count(recurrence: Recurrence, number: int, step: int) -> Iterator[float]:
    days = whole_days(recurrence.every)
    while number >= 0:
        if days:
            yield timestamp_of_local(recurrence.anchor + number * days * DAY, recurrence.zone)
        else:
            yield recurrence.anchor_time + number * parse_duration(recurrence.every)
        number += step


def _cron_times(recurrence: Recurrence, moment: float, *, reverse: bool) -> Iterator[float]:
    zone = ZoneInfo(recurrence.zone)
    shown = local_time(moment + 1 if reverse else moment, recurrence.zone)
    if recurrence.every.split()[1] == "*":
        for time in CronSim(recurrence.every, shown.replace(tzinfo=zone), reverse=reverse):
            yield time.timestamp()
        return
    if reverse and shown.fold:  # local clocks have shown later times already
        local = shown.replace(tzinfo=zone)
        shown += (local.replace(fold=0).utcoffset() or timedelta()) - (local.utcoffset() or timedelta())
    for time in CronSim(recurrence.every, shown.replace(fold=0), reverse=reverse):
        yield timestamp_of_local(time, recurrence.zone)
