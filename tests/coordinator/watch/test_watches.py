"""Watches: which changes become messages, that none is lost and none comes twice, and what must not be told."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tarrafa.captures import follower as captures
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, Notifier
from tarrafa.coordinator.notify.webhook_and_mail import MailServer, NotifyEnvironment
from tarrafa.coordinator.watch import watch_store
from tarrafa.coordinator.watch.watch_follower import WatchFollower, run_watch_pass
from tarrafa.coordinator.watch.watch_messages import notice_without_taken_down
from tarrafa.coordinator.watch.watch_store import PageChange, WatchStore
from tarrafa.coordinator.watch.watches import WatchRequest, add_watch, list_watches, remove_watch
from tarrafa.errors import ConfigError, Locked, NotFound, QueryError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns, parse_target, record_action
from tests.captures.archived_site import COLLECTION, DAY_S, FIRST_AT, OTHER, SiteArchive, new_archive
from tests.coordinator.notify.fake_webhook_and_smtp import fake_smtp_server, fake_webhook

PAGE, BESIDE, BELOW = "http://www.site.test/page", "http://www.site.test/beside", "http://a.www.site.test/below"
ELSEWHERE = "http://other.test/"
LONG = "a rede de pesca redonda é lançada sobre a água por um pescador " * 12


class WatchedArchive:
    """An archive that grows, and what its watches say."""

    def __init__(self, root: Path) -> None:
        self.data = new_archive(root / "data")
        self.site = SiteArchive(self.data)
        self.now = FIRST_AT
        self._days: dict[str, int] = {}

    def visit(self, url: str, text: str = "", *, status: int = 200, **more: object) -> None:
        """A visit, a day after the one before."""
        self.now += DAY_S
        if status != 200:
            self.site.fail(url, self.now, status)
        else:
            self.site.visit(url, self.now, f"<p>{text}</p>".encode(), text=text, **more)  # type: ignore[arg-type]

    def commit(self) -> None:
        self.site.commit()
        captures.catch_up(self.data)
        graph.catch_up(self.data, lambda name, weights: None)
        index.catch_up(self.data)

    def watch(self, kind: str, what: str, **more: object) -> int:
        self.commit()
        self.now += 1
        request = WatchRequest(kind, what, **({"period": "0 s"} | more))  # type: ignore[arg-type]
        return add_watch(self.data, request, lambda: self.now).number

    def told(self, watch: int = 1) -> list[list[tuple[str, str]]]:
        """Kind and URL of the changes of each message, the oldest message first."""
        self.commit()
        self.now += 1
        run_watch_pass(self.data, "http://search.test", self.now, self.now)
        return [[(one.kind, one.url) for one in items] for items in self.items(watch)]

    def items(self, watch: int = 1) -> list[list[PageChange]]:
        with WatchStore(self.data).reading() as tables:
            assert tables is not None
            return [one.items for one in reversed(tables.messages(watch, 1_000, 1_000))]


@pytest.fixture
def archive(tmp_path: Path) -> WatchedArchive:
    return WatchedArchive(tmp_path)


# -- what is a change --------------------------------------------------------------------------------------------------


def test_a_watched_page_tells_each_change_once_with_the_captures_that_differ(archive):
    archive.visit(PAGE, "one")
    archive.watch("page", PAGE)
    archive.visit(PAGE, "one")
    archive.visit(BESIDE, "new, but not watched")
    assert archive.told() == []
    before = archive.now - 2 * DAY_S
    archive.visit(PAGE, "two")
    assert archive.told() == [[("changed", PAGE)]]
    assert archive.told() == [[("changed", PAGE)]]
    ((change,),) = archive.items()
    found = captures_of(archive.data, PAGE)
    assert [change.before, change.after] == found[1:] and before < change.at


def captures_of(data: DataDirectory, url: str) -> list[str]:
    from tarrafa.captures.reader import CapturesReader

    return [one.timestamp for one in CapturesReader(data).captures_of(url)]


def test_a_menu_that_moves_is_no_change_and_another_content_is(archive):
    archive.visit(PAGE, "x", parts=[("menu one", True), (LONG, False)])
    archive.watch("page", PAGE)
    archive.visit(PAGE, "y", parts=[("menu two", True), (LONG, False)])
    archive.visit(PAGE, "z", parts=[("menu three", False), (LONG + "!", False)], header="Content-Type: text/html")
    assert archive.told() == [[("changed", PAGE)]]
    archive.visit(PAGE, "w", parts=[("menu three", True), (LONG, False)])  # now known to be a menu
    assert archive.told() == [[("changed", PAGE)]]
    archive.visit(PAGE, "v", parts=[("menu three", True), (LONG.replace("rede", "malha"), False)])
    assert archive.told() == [[("changed", PAGE)], [("changed", PAGE)]]


def test_bytes_that_differ_around_the_same_text_are_no_change(archive):
    archive.site.visit(PAGE, archive.now, b"<p>one</p>", text="one")
    archive.watch("page", PAGE)
    archive.now += DAY_S
    archive.site.visit(PAGE, archive.now, b"<!-- 17 --><p>one</p>", text="one")
    assert archive.told() == []


def test_a_304_is_no_change_and_what_follows_is_compared_with_what_it_confirmed(archive):
    first = archive.site.visit(PAGE, FIRST_AT, b"<p>one</p>", text="one")
    archive.watch("page", PAGE)
    archive.site.visit(PAGE, FIRST_AT + DAY_S, status=304, of=(FIRST_AT, first))
    assert archive.told() == []
    archive.now += 2 * DAY_S
    archive.visit(PAGE, "two")
    assert archive.told() == [[("changed", PAGE)]]


def test_a_watched_site_tells_new_changed_and_gone_pages_of_all_its_hosts(archive):
    archive.visit(PAGE, "one")
    archive.visit(BELOW, "one")
    archive.visit(ELSEWHERE, "one")
    archive.watch("site", "site.test")
    archive.visit(PAGE, "two")
    archive.visit(BELOW, status=404)
    archive.visit(BESIDE, "new")
    archive.visit(ELSEWHERE, "two")
    archive.visit(BELOW, status=404)
    assert archive.told() == [[("changed", PAGE), ("gone", BELOW), ("new", BESIDE)]]
    archive.visit(BELOW, "one")
    archive.visit("http://www.site.test/never", status=404)
    archive.visit(PAGE, status=503)
    assert archive.told()[1:] == [[("new", BELOW)]]
    archive.visit(BELOW, status=410)
    assert archive.told()[2:] == [[("gone", BELOW)]]


def test_a_page_that_redirects_is_gone(archive):
    archive.visit(PAGE, "one")
    archive.watch("page", PAGE)
    archive.now += DAY_S
    archive.site.visit(PAGE, archive.now, status=301, header="Location: /beside")
    assert archive.told() == [[("gone", PAGE)]]


def test_only_pages_of_the_named_collection_are_told(archive):
    archive.watch("site", "site.test", collection=OTHER)
    archive.visit(PAGE, "one", collection=COLLECTION)
    archive.visit(BESIDE, "one", collection=OTHER)
    assert archive.told() == [[("new", BESIDE)]]


def test_visits_before_the_watch_are_no_news_even_if_they_are_archived_later(archive):
    archive.watch("site", "site.test")
    archive.site.visit(PAGE, FIRST_AT - 1_000 * DAY_S, b"old", text="old")  # such as an import
    archive.visit(BESIDE, "one")
    assert archive.told() == [[("new", BESIDE)]]


def test_a_query_tells_pages_that_are_new_or_newly_match_and_no_page_twice(archive):
    archive.visit(PAGE, "pesca com rede")
    archive.visit(BESIDE, "futebol")
    archive.watch("query", "pesca rede")
    archive.visit(PAGE, "pesca com rede grande")
    archive.visit(BELOW, "pesca sem nada")  # one of the words
    assert archive.told() == []
    archive.visit(BESIDE, "a rede e a pesca")
    archive.visit(ELSEWHERE, "rede de pesca")
    assert archive.told() == [[("match", BESIDE), ("match", ELSEWHERE)]]
    archive.visit(BESIDE, "futebol")
    archive.visit(ELSEWHERE, status=404)
    assert len(archive.told()) == 1
    archive.visit(BESIDE, "pesca e rede outra vez")
    assert archive.told()[1:] == [[("match", BESIDE)]]


def test_a_page_of_two_collections_is_told_once_for_a_query(archive):
    archive.watch("query", "pesca")
    archive.watch("query", "pesca", collection=OTHER)
    archive.visit(PAGE, "pesca", collection=OTHER)
    assert archive.told(1) == archive.told(2) == [[("match", PAGE)]]
    archive.visit(PAGE, "pesca", collection=COLLECTION)
    archive.visit(PAGE, status=404)  # in the first collection
    archive.visit(PAGE, "pesca ainda", collection=OTHER)
    archive.visit(PAGE, "pesca ainda", collection=COLLECTION)
    assert len(archive.told(1)) == len(archive.told(2)) == 1


def test_a_page_is_watched_in_each_spelling_that_a_collection_may_use(archive):
    archive.watch("page", "http://www.site.test/Page/")
    archive.visit(PAGE, "one")
    assert archive.told() == [[("new", PAGE)]]


def test_a_query_that_cannot_be_asked_any_more_forgets_nothing(archive, monkeypatch):
    archive.visit(PAGE, "pesca")
    archive.watch("query", "pesca")

    def refuse(*_: object) -> None:
        raise QueryError("no such class")

    with monkeypatch.context() as patch:
        patch.setattr("tarrafa.coordinator.watch.watch_queries.WatchedQueries.matching_among", refuse)
        archive.visit(PAGE, "pesca grande")
        assert archive.told() == []
    archive.visit(PAGE, "pesca enorme")
    assert archive.told() == []


def test_a_query_that_matches_too_many_pages_is_refused_and_one_that_grows_says_so(archive, monkeypatch):
    monkeypatch.setattr("tarrafa.coordinator.watch.watches.MATCHES_MAX", 3)
    monkeypatch.setattr("tarrafa.coordinator.watch.watch_follower.MATCHES_MAX", 3)
    for number in range(2):
        archive.visit(f"{ELSEWHERE}{number}", "pesca")
    archive.watch("query", "pesca")
    archive.visit(f"{ELSEWHERE}2", "pesca")
    assert len(archive.told()) == 1
    with pytest.raises(ConfigError, match="more than 3 pages"):
        archive.watch("query", "pesca")
    archive.visit(f"{ELSEWHERE}3", "pesca")
    assert len(archive.told()) == 1
    assert "further ones are not reported" in str(list_watches(archive.data)[0].trouble)


def test_a_page_that_was_seen_and_is_gone_in_one_pass_has_not_come_back(archive):
    archive.visit(PAGE, "one")
    archive.watch("page", PAGE)
    archive.visit(PAGE, "one")
    archive.visit(PAGE, status=404)
    assert archive.told() == [[("gone", PAGE)]]
    archive.visit(PAGE, "one")
    assert archive.told() == [[("gone", PAGE)], [("new", PAGE)]]


# -- messages ----------------------------------------------------------------------------------------------------------


def test_the_changes_of_a_period_are_one_message(archive):
    archive.watch("site", "site.test", period="3 days")
    for number in range(3):
        archive.visit(PAGE, f"text {number}")
        assert archive.told() == []
    archive.now += DAY_S
    archive.visit(BESIDE, "new")
    assert archive.told() == [[("new", PAGE), ("changed", PAGE), ("changed", PAGE), ("new", BESIDE)]]


def test_a_message_keeps_its_first_pages_and_counts_all(archive, monkeypatch):
    monkeypatch.setattr(watch_store, "ITEMS_KEPT", 5)
    archive.watch("site", "other.test")
    for number in range(12):
        archive.visit(f"{ELSEWHERE}{number}", "pesca")
    assert [len(items) for items in archive.told()] == [5]
    with WatchStore(archive.data).reading() as tables:
        assert tables is not None and tables.messages(1, 1, 100)[0].counts["new"] == 12


def test_old_messages_are_dropped_with_their_items(archive, monkeypatch):
    monkeypatch.setattr(watch_store, "MESSAGES_KEPT", 3)
    archive.watch("page", PAGE)
    for number in range(5):
        archive.visit(PAGE, f"text {number}")
        archive.told()
    assert len(archive.items()) == 3
    with WatchStore(archive.data).reading() as tables:
        assert tables is not None and tables.connection.execute("SELECT count(*) FROM watch_item").get == 3


async def test_a_webhook_and_a_mail_get_the_message_under_the_id_of_its_entry(archive):
    async with fake_webhook(204) as hook, fake_smtp_server() as mail:
        archive.visit(PAGE, "one")
        archive.watch("page", PAGE, webhook=hook.address, email=("reader@example.br",))
        archive.visit(PAGE, "two")
        archive.told()
        environment = NotifyEnvironment(MailServer("127.0.0.1", mail.port, False), "crawl@example.br")
        notifier = Notifier(NoticeOutbox(archive.data.coordinator), environment, lambda: archive.now)
        assert await notifier.deliver_due() == 2
        assert await notifier.deliver_due() == 0
    ((_, headers, body),) = hook.requests
    told = json.loads(body)
    old, new = captures_of(archive.data, PAGE)
    link = f"http://search.test/diff?url=http%3A%2F%2Fwww.site.test%2Fpage&from={old}&to={new}"
    assert told["items"] == [{"kind": "changed", "url": PAGE, "title": "A page", "link": link}]
    assert headers["x-tarrafa-id"] == told["id"] == "watch-1-1" and told["watch"] == "watch 1"
    assert told["numbers"] == {"changed": 1} and told["link"].startswith("http://search.test/watch/")
    (letter,) = mail.letters
    assert letter["Subject"] == f"[Tarrafa] {PAGE}: 1 page has changed" and letter["X-Tarrafa-Id"] == "watch-1-1"
    assert link in letter.get_content() and PAGE in letter.get_content()


async def test_a_page_that_is_taken_down_is_named_in_no_message_however_late(archive):
    async with fake_webhook(500, 204) as hook:
        archive.watch("site", "site.test", webhook=hook.address)
        archive.watch("page", PAGE, webhook=hook.address)
        archive.visit(PAGE, "one")
        archive.visit(BESIDE, "two")
        archive.told()
        takedowns = CurrentTakedowns(archive.data)
        notifier = Notifier(
            NoticeOutbox(archive.data.coordinator),
            NotifyEnvironment(),
            lambda: archive.now,
            lambda notice: notice_without_taken_down(notice, takedowns.now()),
        )
        record_action(archive.data, "add", parse_target(PAGE), "me", "", archive.now)
        await notifier.deliver_due()
        archive.now += 60
        await notifier.deliver_due()
    assert len(hook.requests) == 2  # of the watch of the site, the second time with success
    for _, _, body in hook.requests:
        assert [one["url"] for one in json.loads(body)["items"]] == [BESIDE]
    archive.visit(PAGE, "three")
    archive.told()
    assert [len(items) for items in archive.items(1)] == [2]  # what comes after the order is not even noted


# -- adding and removing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "what", "more", "why"),
    [
        ("page", "ftp://x/", {}, "not an http"),
        ("site", "com", {}, "not the name of a site"),
        ("site", "http://a.br/x", {}, "not the name"),
        ("query", " ", {}, "at least one word"),
        ("query", "type:nothing:Such", {}, "nothing"),
        ("query", "x" * 2_000, {}, "1000"),
        ("page", PAGE, {"period": "soon"}, "soon"),
        ("page", PAGE, {"period": "400 days"}, "period"),
        ("page", PAGE, {"email": ("nobody",)}, "no e-mail address"),
        ("page", PAGE, {"email": tuple(f"a{n}@b.br" for n in range(50))}, "10"),
        ("page", PAGE, {"webhook": "file:///etc/passwd"}, "webhook"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_reason(archive, kind, what, more, why):
    with pytest.raises(ConfigError, match=why):
        archive.watch(kind, what, **more)
    assert list_watches(archive.data) == []


def test_the_number_of_watches_is_bounded(archive, monkeypatch):
    monkeypatch.setattr(watch_store, "WATCHES_MAX", 2)
    archive.watch("page", PAGE)
    archive.watch("page", PAGE)
    with pytest.raises(ConfigError, match="remove some"):
        archive.watch("page", PAGE)


def test_a_removed_watch_is_gone_with_all_its_rows(archive):
    archive.visit(PAGE, "pesca")
    archive.watch("query", "pesca")
    archive.visit(BESIDE, "pesca")
    archive.told()
    remove_watch(archive.data, 1)
    with pytest.raises(NotFound):
        remove_watch(archive.data, 1)
    with WatchStore(archive.data).reading() as tables:
        assert tables is not None
        for table in ("watch", "watch_message", "watch_item", "watch_match"):
            assert tables.connection.execute(f"SELECT count(*) FROM {table}").get == 0


def test_a_watch_that_is_added_during_a_pass_misses_nothing(archive, monkeypatch):
    archive.watch("page", PAGE)
    archive.visit(PAGE, "one")
    archive.commit()
    found = WatchFollower._findings

    def slowly(self: WatchFollower, watches: object, batch: object) -> object:
        findings = found(self, watches, batch)  # type: ignore[arg-type]
        monkeypatch.undo()
        add_watch(archive.data, WatchRequest("site", "site.test", period="0 s"), lambda: FIRST_AT)
        return findings

    monkeypatch.setattr(WatchFollower, "_findings", slowly)
    assert archive.told(1) == []
    assert archive.told(1) == [[("new", PAGE)]]
    assert archive.told(2) == [[("new", PAGE)]]


def test_one_process_at_a_time_looks_for_changes(archive):
    with WatchFollower(archive.data), pytest.raises(Locked):
        WatchFollower(archive.data)


def test_nothing_is_read_that_captures_and_index_have_not_read(archive):
    archive.watch("page", PAGE)
    archive.visit(PAGE, "one")
    archive.site.commit()
    captures.catch_up(archive.data)  # the index is behind
    run_watch_pass(archive.data, "", archive.now, archive.now)
    assert archive.items() == []
    assert archive.told() == [[("new", PAGE)]]


# -- kills -------------------------------------------------------------------------------------------------------------

PASS = """
import sys
from pathlib import Path
from tarrafa.coordinator.watch import watch_follower
from tarrafa.runtime.data_dir import DataDirectory
watch_follower.BATCH_VISITS = 3
data = DataDirectory(Path(sys.argv[1]))
print("begin", flush=True)
watch_follower.run_watch_pass(data, "", float(sys.argv[2]), float(sys.argv[2]))
"""


def test_kills_lose_no_change_and_make_none_twice(archive):
    archive.watch("site", "other.test", webhook="http://127.0.0.1:1/")
    archive.watch("query", "pesca")
    for number in range(60):
        archive.visit(f"{ELSEWHERE}{number}", "pesca")
    archive.commit()
    rng, kills = random.Random(7), 0
    for _ in range(20):
        command = [sys.executable, "-c", PASS, str(archive.data.root), str(archive.now)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline()
        try:
            process.wait(rng.uniform(0.0, 0.06))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        process.stdout.close()
    assert kills
    wanted = sorted(f"{ELSEWHERE}{number}" for number in range(60))
    for watch in (1, 2):
        while archive.told(watch) and sum(map(len, archive.items(watch))) < 60:
            archive.now += 1
        assert sorted(url for items in archive.told(watch) for _, url in items) == wanted
    queued = NoticeOutbox(archive.data.coordinator).due(archive.now + 1, 1_000)
    assert sorted(one.id for one in queued) == [f"watch-1-{n}" for n in range(1, len(archive.items(1)) + 1)]
