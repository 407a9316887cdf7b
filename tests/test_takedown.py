"""What is taken down, as its log says it: durable, merged, and believed only where it can be read."""

import logging
import multiprocessing
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tarrafa import takedown
from tarrafa.errors import ConfigError, DataError, HeldByLaw, PageTakenDown
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import (
    CurrentTakedowns,
    LegalHolds,
    TakedownEntry,
    TakedownSet,
    TakedownTarget,
    append_entries,
    in_force,
    parse_target,
    read_entries,
    read_entries_from,
    record_action,
)

NOW = 1_790_000_000.0
PAGE, SITE, HOST = (
    TakedownTarget("url", "http://a.br/x"),
    TakedownTarget("site", "b.br"),
    TakedownTarget("host", "c.br"),
)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    found = DataDirectory(tmp_path / "data")
    found.create()
    return found


def an_entry(
    at: int, action: Literal["add", "lift"] = "add", target: TakedownTarget = SITE, who: str = "ana"
) -> TakedownEntry:
    return TakedownEntry(datetime.fromtimestamp(NOW + at, UTC), action, target.kind, target.name, who)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("HTTP://A.br:80/x#part", PAGE),
        ("site:B.br", SITE),
        ("Site:b.br.", SITE),
        ("host:c.br", HOST),
        ("host:são.br", TakedownTarget("host", "xn--so-sia.br")),
        ("host:localhost", TakedownTarget("host", "localhost")),
        ("site:10.0.0.1", TakedownTarget("site", "10.0.0.1")),
    ],
)
def test_a_target_is_a_url_a_host_or_a_site(text, target):
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a.br/x", "write an http(s) URL, host:NAME, or site:NAME"),
        ("", "write an http(s) URL"),
        ("ftp://a.br/", "write an http(s) URL"),
        ("site:", "site: needs a name such as site:ufmg.br"),
        ("host:a.br/x", "host: needs a name such as host:ufmg.br"),
        ("site:*.br", "site: needs a name"),
        ("site:br", "br is a whole top-level domain; host:NAME takes one host down"),
        (f"site:{'a.' * 12}br", "has more than 12 labels"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(text, told):
    with pytest.raises(ConfigError) as error:
        parse_target(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("url", "covered"),
    [
        ("http://a.br/x", True),
        ("http://a.br/x?y", False),
        ("http://a.br/xy", False),
        ("https://a.br/x", False),
        ("http://b.br/", True),
        ("https://www.b.br:8443/deep/page", True),
        ("http://www.b.br./", True),
        ("http://bb.br/", False),
        ("http://b.br.com/", False),
        ("https://c.br:8080/", True),
        ("http://www.c.br/", False),
        ("http://10.0.0.1/", False),
    ],
)
def test_a_url_is_covered_by_itself_its_host_or_any_domain_above_it(url, covered):
    assert TakedownSet([PAGE, SITE, HOST]).covers(url) is covered
    assert not TakedownSet().covers(url)


def test_a_url_is_covered_in_the_spellings_that_a_collection_may_fold_it_to():
    orders = TakedownSet([TakedownTarget("url", "http://a.br/Some/Page/")])
    assert orders.covers("http://a.br/Some/Page/")
    assert orders.covers("http://a.br/some/page/")
    assert orders.covers("http://a.br/some/page")
    assert not orders.covers("http://a.br/some/")


def test_every_action_is_a_line_with_who_when_and_why(data):
    assert record_action(data, "add", SITE, "ana@host", "court order\n12/2026", NOW) is not None
    assert record_action(data, "add", SITE, "rui", "", NOW + 1) is None, "it is so already"
    assert record_action(data, "lift", PAGE, "rui", "", NOW + 1) is None
    assert record_action(data, "lift", SITE, "rui", "lifted", NOW + 2) is not None
    first, second = takedown.takedown_log_path(data).read_text().splitlines()
    assert first == (
        '{"at":"2026-09-21T14:13:20Z","action":"add","kind":"site","name":"b.br","who":"ana@host",'
        '"reason":"court order\\n12/2026"}'
    )
    assert '"action":"lift"' in second
    assert in_force(read_entries(data)) == {}


def test_an_action_comes_after_what_it_answers_to_whatever_the_clock_says(data):
    record_action(data, "add", SITE, "ana", "", NOW)
    record_action(data, "lift", SITE, "rui", "", NOW - 1000)
    assert list(in_force(read_entries(data))) == []
    record_action(data, "add", SITE, "ana", "", NOW - 2000)
    assert list(in_force(read_entries(data))) == [SITE]


def test_a_change_counts_from_the_next_question_on(data):
    found = CurrentTakedowns(data)
    assert not found.covers("http://b.br/")
    record_action(data, "add", SITE, "ana", "", NOW)
    assert found.covers("http://b.br/")
    assert found.now() is found.now()
    record_action(data, "lift", SITE, "ana", "", NOW + 1)
    assert not found.covers("http://b.br/")


def test_who_asks_for_it_is_refused_however_he_spells_it(data):
    record_action(data, "add", PAGE, "ana", "", NOW)
    with pytest.raises(PageTakenDown, match=r"HTTP://A\.br:80/x: was taken down"):
        CurrentTakedowns(data).raise_if_taken_down("HTTP://A.br:80/x")
    CurrentTakedowns(data).raise_if_taken_down("http://a.br/y")
    CurrentTakedowns(data).raise_if_taken_down("no url")


def test_a_torn_line_is_dropped_with_a_warning_and_overwritten_by_the_next(data, caplog):
    record_action(data, "add", SITE, "ana", "", NOW)
    whole = takedown.takedown_log_path(data).read_bytes()
    record_action(data, "add", PAGE, "ana", "", NOW)
    torn = takedown.takedown_log_path(data).read_bytes()
    for cut in range(len(whole) + 1, len(torn)):
        takedown.takedown_log_path(data).write_bytes(torn[:cut])
        caplog.clear()
        assert CurrentTakedowns(data).now().targets == {SITE}, cut
        assert "the last line is incomplete" in caplog.text
    record_action(data, "add", HOST, "ana", "", NOW)
    assert CurrentTakedowns(data).now().targets == {SITE, HOST}
    assert takedown.takedown_log_path(data).read_bytes().startswith(whole)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense\n",
        "\n",
        '{"at":"2026-09-21T14:13:20Z"}\n',
        '{"at":"2026-09-21T14:13:20","action":"add","kind":"site","name":"x.br","who":""}\n',
        '{"at":"2026-09-21T14:13:20Z","action":"burn","kind":"site","name":"x.br","who":""}\n',
        "[" * 100_000 + "\n",
    ],
)
def test_a_damaged_log_is_not_half_obeyed_and_who_knew_better_keeps_to_it(data, line, caplog):
    record_action(data, "add", SITE, "ana", "", NOW)
    knew = CurrentTakedowns(data)
    assert knew.covers("http://b.br/")
    with takedown.takedown_log_path(data).open("a") as file:
        file.write(line)
    assert knew.covers("http://b.br/")
    assert "the former takedowns are used" in caplog.text
    fresh = CurrentTakedowns(data)
    for _ in range(2):
        with pytest.raises(DataError, match="the line at byte 97 cannot be read") as error:
            fresh.covers("http://b.br/")
        assert "\n" not in str(error.value)
    with pytest.raises(DataError):
        record_action(data, "add", PAGE, "ana", "", NOW)
    assert takedown.takedown_log_path(data).read_text().endswith(line), "nothing was written"


def test_logs_of_several_machines_say_the_same_in_whatever_order_they_are_merged(data, tmp_path):
    news = [an_entry(1), an_entry(2, "lift"), an_entry(3, target=PAGE), an_entry(3, target=PAGE, who="rui")]
    other = DataDirectory(tmp_path / "other")
    other.create()
    for one, order in ((data, news), (other, [news[3], news[1], news[0], news[2]])):
        for entry in order:
            assert append_entries(one, [entry, entry]) == [entry]
        assert append_entries(one, news) == []
        assert CurrentTakedowns(one).now().targets == {PAGE}
    late = TakedownEntry(datetime(9999, 1, 1, tzinfo=UTC), "add", "site", "b.br", "x")
    assert append_entries(data, [late]) == [], "nothing could ever answer to it"


def test_the_log_is_read_in_parts(data):
    news = [an_entry(at, target=TakedownTarget("host", f"h{at}.br")) for at in range(25)]
    append_entries(data, news)
    found: list[TakedownEntry] = []
    at = 0
    while (part := read_entries_from(data, at, 10))[0]:
        found, at = found + part[0], part[1]
    assert found == news
    assert read_entries_from(data, 10**9, 100)[0] == news, "a place that is not there any more is the beginning"


def _add_many(root: Path, who: str) -> None:
    for number in range(20):
        record_action(DataDirectory(root), "add", TakedownTarget("host", f"{who}{number}.br"), who, "", NOW)


def test_processes_and_threads_may_write_and_read_at_once(data, caplog):
    spawn = multiprocessing.get_context("fork")
    writers = [spawn.Process(target=_add_many, args=(data.root, who)) for who in "abc"]
    found, stop = CurrentTakedowns(data), threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(found.now().targets))

    readers = [threading.Thread(target=read) for _ in range(3)]
    with caplog.at_level(logging.ERROR):
        for thread in readers:
            thread.start()
        for process in writers:
            process.start()
        for process in writers:
            process.join()
        stop.set()
        for thread in readers:
            thread.join()
    assert len(found.now().targets) == 60
    assert not caplog.records


def test_an_order_to_erase_keeps_its_date_on_the_wire_and_in_the_log(data):
    entry = record_action(data, "erase", PAGE, "ana", "court order", NOW, wait_s=60.0)
    assert entry is not None
    assert (entry.due, read_entries(data)) == (entry.at + timedelta(seconds=60), [entry])
    for encode, decode in (
        (msgspec.json.encode, msgspec.json.decode),
        (msgspec.msgpack.encode, msgspec.msgpack.decode),
    ):
        assert decode(encode(entry), type=TakedownEntry) == entry
        plain = an_entry(1)
        assert decode(encode(plain), type=TakedownEntry) == plain
    assert in_force([entry]) == {} and in_force([entry], "erase") == {PAGE: entry}


@pytest.mark.parametrize(
    ("hold", "target", "overlaps"),
    [
        ("site:b.br", "https://www.b.br/x", True),
        ("https://www.b.br/x", "site:b.br", True),
        ("https://www.b.br/x", "host:www.b.br", True),
        ("host:www.b.br", "site:b.br", True),
        ("site:b.br", "site:c.b.br", True),
        ("site:c.b.br", "site:b.br", True),
        ("host:www.b.br", "https://b.br/", False),
        ("https://b.br/x", "https://b.br/y", False),
        ("site:c.b.br", "site:d.b.br", False),
        ("collection:b", "site:b.br", False),
    ],
)
def test_a_legal_hold_overlaps_what_it_covers_and_what_covers_it(data, hold, target, overlaps):
    held = parse_target(hold, is_hold=True)
    record_action(data, "hold", held, "ana", "", NOW)
    found = LegalHolds(read_entries(data)).overlapping(parse_target(target))
    assert found == (held if overlaps else None)
    if overlaps:
        with pytest.raises(HeldByLaw, match="legal hold"):
            record_action(data, "erase", parse_target(target), "ana", "", NOW)
    record_action(data, "release", held, "ana", "", NOW)
    assert LegalHolds(read_entries(data)).targets == ()


def test_only_a_legal_hold_names_a_collection():
    with pytest.raises(ConfigError):
        parse_target("collection:small")
