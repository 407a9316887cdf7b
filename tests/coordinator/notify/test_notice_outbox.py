"""Notices: to a real webhook and a real mail server, both on loopback, with a false clock for everything that waits."""

import asyncio
import hashlib
import hmac
import json
import logging
from pathlib import Path
from typing import Any

import apsw
import pytest

from tarrafa.config.formats import Seconds
from tarrafa.config.sections import NotifyConfig
from tarrafa.coordinator.notify import notice_outbox, webhook_and_mail
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, Notifier, is_stalled, make_notice
from tarrafa.coordinator.notify.webhook_and_mail import (
    DeliveryFailed,
    MailServer,
    Notice,
    NotifyEnvironment,
    parse_mail_server,
)
from tarrafa.errors import ConfigError, DataError
from tests.coordinator.notify.fake_webhook_and_smtp import fake_smtp_server, fake_webhook
from tests.ports import reserved_port

NOON = 1_795_176_000.0
EVERYTHING: Any = ("started", "finished", "failed", "stalled")


class FalseClock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class OutboxHarness:
    """An outbox and whoever empties it."""

    def __init__(self, folder: Path, surroundings: NotifyEnvironment | None = None) -> None:
        self.clock, self.path = FalseClock(), folder / "coordinator.sqlite"
        self.outbox = NoticeOutbox(self.path)
        self.notifier = Notifier(self.outbox, surroundings or NotifyEnvironment(), self.clock)


def finished(occasion: object = 1, collection: str = "demo", sentence: str = "demo has finished") -> Notice:
    return make_notice(collection, "finished", NOON, sentence, {"pages": 2000, "seconds": 61.5}, occasion)


def by_mail(port: int, **more: str) -> NotifyEnvironment:
    return NotifyEnvironment(MailServer("127.0.0.1", port, False, **more), "crawl@example.br")


# Webhook


async def test_a_webhook_gets_json_with_the_event_and_the_id(tmp_path):
    harness = OutboxHarness(tmp_path)
    async with fake_webhook(204) as hook:
        assert harness.notifier.notify(finished(), NotifyConfig(webhook=hook.address))
        assert await harness.notifier.deliver_due() == 1
        assert await harness.notifier.deliver_due() == 0
    ((first, headers, body),) = hook.requests
    assert first == "POST /hooks/s3cret?key=s3cret HTTP/1.1"
    assert headers["x-tarrafa-event"] == "finished"
    assert headers["content-type"] == "application/json"
    assert "x-tarrafa-signature" not in headers
    told = json.loads(body)
    assert told.pop("id") == headers["x-tarrafa-id"]
    assert told == {
        "collection": "demo", "event": "finished", "at": "2026-11-20T12:00:00+00:00",
        "sentence": "demo has finished", "numbers": {"pages": 2000, "seconds": 61.5},
    }  # fmt: skip


async def test_a_webhook_with_a_secret_can_check_who_wrote(tmp_path):
    harness = OutboxHarness(tmp_path, NotifyEnvironment(secret=b"tide"))
    async with fake_webhook() as hook:
        harness.notifier.notify(finished(), NotifyConfig(webhook=hook.address))
        await harness.notifier.deliver_due()
    ((_, headers, body),) = hook.requests
    expected = hmac.new(b"tide", body, hashlib.sha256).hexdigest()
    assert headers["x-tarrafa-signature"] == f"sha256={expected}"


async def test_a_webhook_that_fails_is_tried_again_with_growing_pauses(tmp_path):
    harness = OutboxHarness(tmp_path)
    async with fake_webhook(500, 503, 200) as hook:
        harness.notifier.notify(finished(), NotifyConfig(webhook=hook.address))
        for pause_s, arrived in ((0, 0), (1, 0), (1, 0), (9, 0), (1, 1), (9999, 0)):
            harness.clock.now += pause_s
            assert await harness.notifier.deliver_due() == arrived
        assert len(hook.requests) == 3
        assert len({body for _, _, body in hook.requests}) == 1  # the same id each time
        assert harness.outbox.undelivered() == []


async def test_a_webhook_that_is_down_and_comes_up_hears_it_and_one_that_stays_down_is_given_up_after_a_day(tmp_path):
    with reserved_port() as port:
        harness = OutboxHarness(tmp_path)
        address = f"http://127.0.0.1:{port}/"
        harness.notifier.notify(finished(1), NotifyConfig(webhook=address))
        while (due := harness.outbox.next_due()) is not None:
            harness.clock.now = due
            assert await harness.notifier.deliver_due() == 0
        assert 0.9 * 86_400 < harness.clock.now - NOON <= 86_400
        (left,) = harness.outbox.undelivered("demo")
        assert left.over
        assert 20 < left.tries < 40
        (line,) = harness.notifier.delivery_problems("demo", NotifyConfig(webhook=address))
        assert "given up" in str(line)
        harness.notifier.notify(finished(2), NotifyConfig(webhook=address))
        await harness.notifier.deliver_due()
        async with fake_webhook(port=port) as hook:
            harness.clock.now += 2
            assert await harness.notifier.deliver_due() == 1
            assert len(hook.requests) == 1
        assert harness.notifier.delivery_problems("demo", NotifyConfig(webhook=address)) == []  # it hears us again


async def test_a_webhook_that_redirects_is_not_followed(tmp_path):
    async with fake_webhook() as other, fake_webhook(302, location=other.address) as hook:
        with pytest.raises(DeliveryFailed, match="answered 302: redirects are not followed"):
            await asyncio.to_thread(webhook_and_mail.post_webhook, hook.address, finished(), NotifyEnvironment())
        assert other.requests == []


async def test_a_webhook_that_does_not_answer_is_left_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(webhook_and_mail, "WEBHOOK_TIMEOUT_S", 0.2)

    async with fake_webhook(silent=True) as hook:
        with pytest.raises(DeliveryFailed, match="timed out"):
            await asyncio.to_thread(webhook_and_mail.post_webhook, hook.address, finished(), NotifyEnvironment())
        await asyncio.wait_for(hook.arrived.wait(), 30)
        assert len(hook.requests) == 1


async def test_a_webhook_whose_certificate_nobody_knows_is_refused(tmp_path):
    async with fake_webhook(certificate="self_signed") as hook:
        address = f"https://127.0.0.1:{hook.port}/"
        with pytest.raises(DeliveryFailed, match=r"(?i)certificate"):
            await asyncio.to_thread(webhook_and_mail.post_webhook, address, finished(), NotifyEnvironment())
        assert hook.requests == []


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "gopher://127.0.0.1/x", "http://[::1", "http://exämple.invalid/"]
)
def test_a_webhook_that_is_none_does_no_harm(address):
    with pytest.raises(DeliveryFailed):
        webhook_and_mail.post_webhook(address, finished(), NotifyEnvironment())


async def test_the_path_of_a_webhook_is_a_secret_and_is_never_shown(tmp_path, caplog):
    harness = OutboxHarness(tmp_path)
    async with fake_webhook(500) as hook:
        address = hook.address.replace("http://", "http://user:s3cret@")
        harness.notifier.notify(finished(), NotifyConfig(webhook=address))
        with caplog.at_level(logging.DEBUG):
            await harness.notifier.deliver_due()
        lines = harness.notifier.delivery_problems("demo", NotifyConfig(webhook=address))
        place = f"http://127.0.0.1:{hook.port}"
        said = f"a notice has not reached {place} (1 attempt; it is tried again): {place} answered 500"
        assert [str(line) for line in lines] == [said]
    assert "s3cret" not in caplog.text


# E-mail


async def test_an_email_is_plain_text_with_the_numbers_and_the_id(tmp_path):
    async with fake_smtp_server() as office:
        harness = OutboxHarness(tmp_path, by_mail(office.port))
        notice = finished(sentence="demo terminou: 2.000 páginas")
        harness.notifier.notify(notice, NotifyConfig(email=("ana@example.br", "rui@example.pt")))
        assert await harness.notifier.deliver_due() == 2
        letter = next(one for one in office.letters if one["To"] == "ana@example.br")
        assert {one["To"] for one in office.letters} == {"ana@example.br", "rui@example.pt"}
        assert letter["Subject"] == "[Tarrafa] demo: finished"
        assert letter["From"] == "Tarrafa <crawl@example.br>"
        assert letter["X-Tarrafa-Id"] == notice.id
        assert letter.get_content_type() == "text/plain"
        text = letter.get_content().replace("\r\n", "\n")
        assert text.startswith("demo terminou: 2.000 páginas\n\npages: 2,000\nseconds: 61.5\n\ncollection demo, 2026-")
        assert notice.id in text


async def test_an_email_waits_while_the_server_is_down_and_arrives_when_it_is_up(tmp_path):
    with reserved_port() as port:
        harness = OutboxHarness(tmp_path, by_mail(port))
        notify = NotifyConfig(email=("ana@example.br",))
        harness.notifier.notify(finished(), notify)
        assert await harness.notifier.deliver_due() == 0
        assert "Connection refused" in str(harness.notifier.delivery_problems("demo", notify)[0])
        async with fake_smtp_server(port) as office:
            harness.clock.now += 2
            assert await harness.notifier.deliver_due() == 1
            assert len(office.messages) == 1
        assert harness.notifier.delivery_problems("demo", notify) == []


async def test_an_address_that_is_refused_does_not_keep_the_others_from_hearing(tmp_path):
    async with fake_smtp_server(refuse="550 no such\tuser\x07") as office:
        harness = OutboxHarness(tmp_path, by_mail(office.port))
        harness.notifier.notify(finished(), NotifyConfig(email=("nobody@example.br",)))
        assert await harness.notifier.deliver_due() == 0
        (left,) = harness.outbox.undelivered()
        assert str(left.trouble) == f"127.0.0.1:{office.port} refuses nobody@example.br: 550 no such user"


INJECTIONS = [
    "demo\r\nBcc: victim@example.org",
    "demo\nSubject: other\n\nanother body",
    "demo\r\n.\r\nMAIL FROM:<x@example.org>\r\n",
    "\x1b]0;title\x07demo\u2028Bcc: v@example.org\x00",
    "=?utf-8?q?demo=0D=0ABcc:_victim@example.org?=",
    ".\r\nQUIT",
    "x" * 10_000,
]


@pytest.mark.parametrize("evil", INJECTIONS, ids=range(len(INJECTIONS)))
async def test_what_a_name_or_a_sentence_holds_never_becomes_a_header_or_a_command(tmp_path, evil):
    async with fake_smtp_server() as office, fake_webhook() as hook:
        harness = OutboxHarness(tmp_path, by_mail(office.port))
        notice = make_notice(evil, "failed", NOON, evil, {evil: 1.0}, 1)
        harness.notifier.notify(notice, NotifyConfig(email=("ana@example.br",), webhook=hook.address))
        assert await harness.notifier.deliver_due() == 2
        (letter,) = office.letters
        allowed = {
            "Subject",
            "From",
            "To",
            "Date",
            "Message-ID",
            "Auto-Submitted",
            "X-Tarrafa-Event",
            "X-Tarrafa-Id",
        }
        assert set(letter) <= allowed | {"Content-Type", "Content-Transfer-Encoding", "MIME-Version"}
        assert letter["To"] == "ana@example.br"
        verbs = [command.split(" ")[0].upper() for command in office.commands]
        assert verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
        ((_, headers, body),) = hook.requests
        assert "bcc" not in headers
        told = json.loads(body)
        assert told["collection"].isprintable()
        assert len(told["sentence"]) <= webhook_and_mail.SENTENCE_CHARS_MAX


@pytest.mark.parametrize(
    "evil", ["=?utf-8?q?a=0D=0ABcc=3A_v=40x.org?=@example.br", "a\r\nRCPT-TO@example.br", "(x)@(y)"]
)
async def test_an_address_that_is_none_is_never_written_to(evil):
    async with fake_smtp_server() as office:
        with pytest.raises(DeliveryFailed):
            await asyncio.to_thread(webhook_and_mail.send_email, evil, finished(), by_mail(office.port))
        assert office.messages == []


async def test_an_email_server_that_drips_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(webhook_and_mail, "MAIL_TIME_MAX_S", 0.3)

    async with fake_smtp_server(drips=True) as office:
        with pytest.raises(DeliveryFailed):
            await asyncio.to_thread(webhook_and_mail.send_email, "ana@example.br", finished(), by_mail(office.port))


async def test_an_email_password_goes_nowhere_without_tls_but_to_this_machine(monkeypatch):
    async with fake_smtp_server() as office:
        here = by_mail(office.port, user="ana", password="s3cret")
        await asyncio.to_thread(webhook_and_mail.send_email, "ana@example.br", finished(), here)
        assert any(command.startswith("AUTH") for command in office.commands)
        office.commands.clear()
        monkeypatch.setattr(webhook_and_mail, "is_loopback_host", lambda host: False)
        with pytest.raises(DeliveryFailed, match="offers no TLS: the password is not sent"):
            await asyncio.to_thread(webhook_and_mail.send_email, "ana@example.br", finished(), here)
        assert not any(command.startswith("AUTH") for command in office.commands)


async def test_an_email_server_that_offers_tls_and_does_not_keep_it_gets_nothing():
    async with fake_smtp_server(tls=True) as office:
        with pytest.raises(DeliveryFailed):
            await asyncio.to_thread(webhook_and_mail.send_email, "ana@example.br", finished(), by_mail(office.port))
        assert "STARTTLS" in office.commands
        assert office.messages == []


async def test_without_a_mail_server_the_status_says_so_and_the_notice_waits(tmp_path):
    harness, notify = OutboxHarness(tmp_path), NotifyConfig(email=("ana@example.br",))
    (line,) = harness.notifier.delivery_problems("demo", notify)
    assert str(line).startswith("no e-mail can be sent: set TARRAFA_SMTP=")
    harness.notifier.notify(finished(), notify)
    assert await harness.notifier.deliver_due() == 0
    assert harness.notifier.delivery_problems("demo", notify) == [line]
    async with fake_smtp_server() as office:  # started again with one
        again = Notifier(harness.outbox, by_mail(office.port), harness.clock)
        harness.clock.now += 3600
        assert await again.deliver_due() == 1


@pytest.mark.parametrize(
    "text", ["mail.example.br", "http://a.br", "smtp://", "smtps://ana:s3cret@a.br:port", "smtp://ana@a.br",
             "smtp://a.br/path", "smtp://[::1:s3cret"],
)  # fmt: skip
def test_a_wrong_mail_server_is_told_without_its_password(text):
    with pytest.raises(ConfigError, match="TARRAFA_SMTP: must look like") as caught:
        NotifyEnvironment.from_environment({"TARRAFA_SMTP": text})
    assert "s3cret" not in str(caught.value)


def test_the_environment_is_read_and_its_secrets_are_not_shown():
    found = NotifyEnvironment.from_environment({
        "TARRAFA_SMTP": "smtps://ana%40a.br:p%40ss@mail.a.br", "TARRAFA_MAIL_FROM": "crawl@a.br",
        "TARRAFA_WEBHOOK_SECRET": "tide",
    })  # fmt: skip
    assert found.mail == MailServer("mail.a.br", 465, True, "ana@a.br", "p@ss")
    assert parse_mail_server("smtp://mail.a.br").port == 587
    assert "p@ss" not in repr(found)
    assert "tide" not in repr(found)
    assert found.mail_trouble() == ""
    assert "TARRAFA_MAIL_FROM" in str(NotifyEnvironment(found.mail).mail_trouble())
    with pytest.raises(ConfigError, match="TARRAFA_MAIL_FROM"):
        NotifyEnvironment.from_environment({"TARRAFA_MAIL_FROM": "a@b\r\nBcc: c@d"})


# The outbox


async def test_the_same_happening_is_told_once_also_after_a_restart(tmp_path):
    async with fake_webhook() as hook:
        notify = NotifyConfig(webhook=hook.address)
        for _ in range(2):
            harness = OutboxHarness(tmp_path)
            harness.notifier.notify(finished(1), notify)
            harness.notifier.notify(finished(1), notify)
            await harness.notifier.deliver_due()
        assert not harness.notifier.notify(finished(1), notify)
        assert harness.notifier.notify(finished(2), notify)
        await harness.notifier.deliver_due()
        assert len(hook.requests) == 2


def test_only_the_events_that_somebody_asked_for_are_told(tmp_path):
    harness = OutboxHarness(tmp_path)
    started = make_notice("demo", "started", NOON, "demo has started", {}, 1)
    assert not harness.notifier.notify(started, NotifyConfig(webhook="http://a.br/"))
    assert harness.notifier.notify(started, NotifyConfig(webhook="http://a.br/", events=EVERYTHING))
    assert not harness.notifier.notify(finished(), NotifyConfig())


async def test_news_is_sent_at_once_by_whoever_keeps_on(tmp_path):
    harness = OutboxHarness(tmp_path)
    async with fake_webhook() as hook:
        keeping = asyncio.create_task(harness.notifier.deliver_forever())
        await asyncio.sleep(0)  # lets the loop run once, so that the delivery begins
        harness.notifier.notify(finished(), NotifyConfig(webhook=hook.address))
        await asyncio.wait_for(hook.arrived.wait(), 30)
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping
        assert len(hook.requests) == 1


def test_the_outbox_forgets_what_is_old_and_of_too_many_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(notice_outbox, "ROWS_MAX", 3)
    harness, notify = OutboxHarness(tmp_path), NotifyConfig(webhook="http://a.br/")
    for number in range(5):
        harness.clock.now += 1
        harness.notifier.notify(finished(number), notify)
    waiting = harness.outbox.due(harness.clock.now, 10)
    assert [parcel.since - NOON for parcel in waiting] == [3, 4, 5]
    for parcel in waiting:
        harness.outbox.record_attempt(parcel, "", harness.clock.now)
    harness.clock.now += notice_outbox.KEPT_S + 10
    harness.notifier.notify(finished(9), notify)
    connection = apsw.Connection(str(harness.path))
    assert connection.execute("SELECT count(*) FROM notice").fetchall() == [(1,)]


def test_an_outbox_that_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "coordinator.sqlite").write_bytes(b"this is no database at all, whatever its name says" * 100)
    with pytest.raises(DataError, match=r"coordinator\.sqlite: cannot be used"):
        OutboxHarness(tmp_path)


def test_the_outbox_leaves_other_tables_of_its_file_alone(tmp_path):
    connection = apsw.Connection(str(tmp_path / "coordinator.sqlite"))
    connection.execute("CREATE TABLE run (id); INSERT INTO run VALUES (7); PRAGMA user_version = 3")
    OutboxHarness(tmp_path)
    assert connection.execute("SELECT id FROM run").fetchall() == [(7,)]
    assert connection.pragma("user_version") == 3


# Stalled


@pytest.mark.parametrize(
    ("samples", "since", "expected"),
    [
        ([], 0, False),  # nobody has looked yet
        ([(0, 5), (100, 5), (3600, 5)], 0, True),
        ([(0, 5), (100, 6), (3600, 6)], 0, False),
        ([(0, 5), (3600, 5)], 1, False),  # resumed a second ago
        ([(0, 5), (1800, 5), (3599, 6)], 0, False),
        ([(0, 500), (10, 0), (3600, 0)], 0, False),  # another run began
        ([(-9000, 5), (3600, 5)], 3000, False),  # whoever looks on has slept
    ],
)
def test_stalled_is_no_visit_for_so_long_though_it_runs(samples, since, expected):
    assert is_stalled(samples, 3600, Seconds(3600), since) is expected


def test_stalled_is_told_once_until_it_moves_again(tmp_path):
    harness, notify = OutboxHarness(tmp_path), NotifyConfig(webhook="http://a.br/")

    def tell(visits: int) -> bool:
        sentence = f"demo has made no visit for an hour, after {visits}"
        return harness.notifier.notify(
            make_notice("demo", "stalled", NOON, sentence, {"visits": visits}, visits), notify
        )

    assert [tell(visits) for visits in (5, 5, 5, 8, 8)] == [True, False, False, True, False]
