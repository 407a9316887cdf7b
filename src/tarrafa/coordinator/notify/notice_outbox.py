"""The outbox of notifications: queues notices for webhook and e-mail, retries them, and gives up after a day.

The outbox is the table `notice` of `DATA/coordinator.sqlite`. Promises: a notice is durable when `notify` returns, and
is sent at least once or tried for a day; an event is notified once, also after a restart, because its id is made from
the event; a notice that was not delivered is kept with the reason, and shown. After a kill between sending and
recording, a notice is sent again with the same id. Knows nothing of schedules, HTTP or SMTP (`webhook_and_mail.py`).
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import apsw
import msgspec

from tarrafa.config.sections import NotifyConfig
from tarrafa.coordinator.definitions.toml_writer import format_duration
from tarrafa.coordinator.notify.webhook_and_mail import (
    NUMBERS_MAX,
    SENTENCE_CHARS_MAX,
    DeliveryFailed,
    Notice,
    NotifyEnvironment,
    one_line,
    post_webhook,
    send_email,
    webhook_origin,
)
from tarrafa.coordinator.store import store_transaction
from tarrafa.errors import DataError
from tarrafa.i18n import Message, from_text, message, messages, to_text

RETRY_PAUSES_S = (2.0, 10.0, 60.0, 300.0, 900.0, 3_600.0)  # after each attempt; the last one from then on
GIVE_UP_AFTER_S = 86_400.0
KEPT_S = 30 * 86_400.0  # afterwards the same event is notified again
ROWS_MAX = 10_000
DELIVERIES_AT_ONCE = 4
LOOK_EVERY_S = 30.0
SHOWN_MAX = 5
WEBHOOK, MAIL = "webhook", "email"

OUTBOX_TABLE = """
CREATE TABLE IF NOT EXISTS notice (
    id TEXT NOT NULL, channel TEXT NOT NULL, target TEXT NOT NULL, collection TEXT NOT NULL, body BLOB NOT NULL,
    since REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, next_at REAL, -- NULL: delivered or given up
    trouble TEXT NOT NULL DEFAULT '', PRIMARY KEY (id, channel, target)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS notice_next ON notice (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS notice_since ON notice (since);
"""
log = logging.getLogger(__name__)


def make_notice(
    collection: str, event: str, at: float, sentence: str, numbers: dict[str, int | float], occasion: object
) -> Notice:
    """`occasion` tells two events of the same kind apart: when the run began, at how many visits it stalled."""
    mark = hashlib.sha256("\n".join((collection, event, str(occasion))).encode()).hexdigest()[:16]
    chosen = {one_line(name, 50): value for name, value in list(numbers.items())[:NUMBERS_MAX]}
    return Notice(mark, one_line(collection, 100), event, at, one_line(sentence, SENTENCE_CHARS_MAX), chosen)


def is_stalled(samples: Iterable[tuple[float, int]], now: float, limit_s: float, since: float) -> bool:
    """Whether a running collection had no visit for `limit_s`.

    Samples are (time, visits so far), in the order of time. `since`: when it was last started or resumed, or when the
    monitor started. Fewer visits than before are another run, and count as a change.
    """
    moved, visits = since, None
    for at, count in samples:
        if visits is not None and count != visits:
            moved = max(moved, at)
        visits = count
    return visits is not None and now - moved >= limit_s


def reason_stalled(limit_s: float) -> Message:
    return message("nothing was visited for {limit}", limit=format_duration(limit_s))


class QueuedNotice(msgspec.Struct, frozen=True):
    """A notice in the outbox, for one address. `body` is the encoded notice."""

    id: str
    channel: str
    target: str
    body: bytes
    since: float
    tries: int


class UndeliveredNotice(msgspec.Struct, frozen=True):
    """A notice that was not delivered, for people. `over`: it is given up."""

    id: str
    collection: str
    target: str
    trouble: Message | str
    tries: int
    over: bool


class NoticeOutbox:
    """The outbox on disk. Every method is one transaction, from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with store_transaction(path, OUTBOX_TABLE):
            pass

    def put(self, notice: Notice, notify: NotifyConfig, now: float) -> bool:
        """Queue a notice for all its addresses; False: no address wants it, or all have it already."""
        if notice.event not in notify.events:
            return False
        with store_transaction(self._path) as connection:
            return put_notice(connection, notice, notify.email, notify.webhook, now)

    def due(self, now: float, count: int) -> list[QueuedNotice]:
        with store_transaction(self._path) as connection:
            found = connection.execute(
                "SELECT id, channel, target, body, since, tries FROM notice WHERE next_at <= ?"
                " ORDER BY next_at LIMIT ?",
                (now, count),
            )
            return [QueuedNotice(*row) for row in found]

    def next_due(self) -> float | None:
        with store_transaction(self._path) as connection:
            ((moment,),) = connection.execute("SELECT min(next_at) FROM notice WHERE next_at IS NOT NULL")
            return None if moment is None else float(moment)

    def record_attempt(self, queued: QueuedNotice, trouble: Message | str, now: float) -> bool:
        """Record an attempt; returns whether it will be tried again. Without trouble the notice is delivered."""
        tries = queued.tries + 1
        next_at = None if not trouble else now + RETRY_PAUSES_S[min(tries, len(RETRY_PAUSES_S)) - 1]
        if next_at is not None and not queued.since <= next_at <= queued.since + GIVE_UP_AFTER_S:
            next_at = None
        with store_transaction(self._path) as connection:
            connection.execute(
                "UPDATE notice SET tries = ?, trouble = ?, next_at = ? WHERE id = ? AND channel = ? AND target = ?",
                (tries, to_text(trouble), next_at, queued.id, queued.channel, queued.target),
            )
        return next_at is not None

    def undelivered(self, collection: str | None = None) -> list[UndeliveredNotice]:
        """The newest undelivered notices, waiting or given up, unless a newer one was delivered to the same target."""
        with store_transaction(self._path) as connection:
            found = connection.execute(
                "SELECT id, collection, channel, target, trouble, tries, next_at IS NULL FROM notice"
                " WHERE trouble != '' AND collection = ifnull(?, collection) AND since >= (SELECT ifnull(max(since), 0)"
                " FROM notice AS arrived WHERE arrived.trouble = '' AND arrived.next_at IS NULL"
                " AND (arrived.channel, arrived.target) = (notice.channel, notice.target))"
                " ORDER BY since DESC, id LIMIT ?",
                (collection, SHOWN_MAX),
            )
            return [
                UndeliveredNotice(
                    mark,
                    name,
                    webhook_origin(target) if channel == WEBHOOK else target,
                    from_text(trouble),
                    tries,
                    bool(over),
                )
                for mark, name, channel, target, trouble, tries, over in found
            ]


def put_notice(connection: apsw.Connection, notice: Notice, email: Sequence[str], webhook: str, now: float) -> bool:
    """Queue a notice for these addresses in the caller's transaction; False: all have it already."""
    targets = [(MAIL, address) for address in email]
    targets += [(WEBHOOK, webhook)] if webhook else []
    before = connection.total_changes()
    for channel, target in targets:
        connection.execute(
            "INSERT INTO notice (id, channel, target, collection, body, since, next_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (notice.id, channel, target, notice.collection, msgspec.json.encode(notice), now, now),
        )
    has_new = connection.total_changes() > before
    _trim(connection, now)
    return has_new


def _trim(connection: apsw.Connection, now: float) -> None:
    """Delete old notices; of too many, the oldest."""
    connection.execute("DELETE FROM notice WHERE since < ? AND next_at IS NULL", (now - KEPT_S,))
    ((count,),) = connection.execute("SELECT count(*) FROM notice")
    if count > ROWS_MAX:
        log.warning("%d notices are more than the %d that are kept; the oldest are dropped", count, ROWS_MAX)
        connection.execute(
            "DELETE FROM notice WHERE (id, channel, target) IN"
            " (SELECT id, channel, target FROM notice ORDER BY next_at IS NOT NULL, since LIMIT ?)",
            (count - ROWS_MAX,),
        )


class Notifier:
    """Queues notices and delivers them; `deliver_forever` runs beside the coordinator."""

    def __init__(
        self,
        outbox: NoticeOutbox,
        environment: NotifyEnvironment,
        now: Callable[[], float],
        as_allowed: Callable[[Notice], Notice | None] = lambda notice: notice,
    ) -> None:
        """`as_allowed`: a notice as it may be sent at this moment; None: not at all."""
        self._outbox, self._environment, self._now, self._as_allowed = outbox, environment, now, as_allowed
        self._news = asyncio.Event()

    def notify(self, notice: Notice, notify: NotifyConfig) -> bool:
        """Durable when this returns; sent soon. False: no address wants it, or all have it already."""
        is_new = self._outbox.put(notice, notify, self._now())
        if is_new:
            self.wake()
        return is_new

    def wake(self) -> None:
        """There is a new notice in the outbox."""
        self._news.set()

    def delivery_problems(self, collection: str, notify: NotifyConfig) -> list[Message | str]:
        """Why notices of a collection do not arrive, for its status."""
        lines = [self._environment.mail_trouble()] if notify.email else []
        for one in self._outbox.undelivered(collection):
            if one.trouble not in lines:
                lines.append(_undelivered_text(one))
        return [line for line in lines if line]

    async def deliver_due(self) -> int:
        """Try what is due once; returns how many notices were delivered."""
        delivered = 0
        while due := self._outbox.due(self._now(), DELIVERIES_AT_ONCE):
            delivered += sum(await asyncio.gather(*map(self._deliver, due)))
        return delivered

    async def deliver_forever(self) -> None:
        """Deliver new notices at once, and failed ones when their pause is over."""
        while True:
            self._news.clear()
            try:
                await self.deliver_due()
                due = self._outbox.next_due()
            except DataError as error:
                log.warning("notices are not sent: %s", error)
                due = None
            wait_s = LOOK_EVERY_S if due is None else min(LOOK_EVERY_S, max(0.1, due - self._now()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()

    async def _deliver(self, queued: QueuedNotice) -> bool:
        attempt = post_webhook if queued.channel == WEBHOOK else send_email
        trouble: Message | str = ""
        try:
            notice = msgspec.json.decode(queued.body, type=Notice)
            allowed = self._as_allowed(notice)
            if allowed is not None:
                await asyncio.to_thread(attempt, queued.target, allowed, self._environment)
        except DeliveryFailed as error:
            trouble = error.message
        except Exception as error:  # an unexpected error must not keep the others from being sent
            log.exception("notice %s", queued.id)
            trouble = message("it failed ({error}); see the log", error=type(error).__name__)
        goes_on = self._outbox.record_attempt(queued, trouble, self._now())
        if trouble:
            log.warning("notice %s: %s; %s", queued.id, trouble, "it is tried again" if goes_on else "it is given up")
        return not trouble


def _undelivered_text(one: UndeliveredNotice) -> Message:
    values = {"target": one.target, "error": one.trouble}
    if one.over:
        return messages(
            "a notice has not reached {target} (given up after {count} attempt): {error}",
            "a notice has not reached {target} (given up after {count} attempts): {error}",
            one.tries,
            **values,
        )
    return messages(
        "a notice has not reached {target} ({count} attempt; it is tried again): {error}",
        "a notice has not reached {target} ({count} attempts; it is tried again): {error}",
        one.tries,
        **values,
    )
