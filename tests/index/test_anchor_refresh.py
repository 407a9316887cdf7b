"""A page is found by what others call it, though they said so after it was indexed, and without another visit."""

import multiprocessing
import random
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tarrafa.archive import projection
from tarrafa.archive.warc_reader import Cursor, follow, read_entry
from tarrafa.clock import boottime
from tarrafa.graph import follower as graph
from tarrafa.graph.reader import GraphReader
from tarrafa.index import anchor_refresh, follower, shards
from tarrafa.index import follower as index
from tarrafa.index.anchor_refresh import is_stale
from tarrafa.index.document_fields import LinkStanding, indexed_standing
from tarrafa.index.follower import IndexFollower, catch_up, is_settled, rebuild
from tarrafa.index.index_state import IndexedStanding, IndexedVisits
from tarrafa.model import Link
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import a_record, new_data, small_web, write
from tests.index.test_index_follower import urls
from tests.index.test_index_shards import contents
from tests.search.test_exclusion_filter import take_down

PAGE = "http://alvo.br/"
LONG_S = 60.0


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def appear(data: DataDirectory, word: str, count: int, worker: str) -> None:
    """So many pages are archived that link to the page with a word."""
    urls = [f"http://h{number}.br/{worker}" for number in range(count)]
    write(data, [a_record(url, links=[Link(PAGE, word)]) for url in urls], worker)
    graph.catch_up(data, lambda name, weights: None)


def linking(data: DataDirectory, word: str, count: int, worker: str) -> None:
    """And are indexed."""
    appear(data, word, count, worker)
    catch_up(data)


def settle(data: DataDirectory) -> int:
    """One sweep to its end, in every part; how many pages were written anew."""
    written = 0
    for part in shards.parts(data):
        with IndexFollower(part) as follower:
            original = follower._write

            def write_and_count(*arguments, original=original):
                nonlocal written
                written += 1
                original(*arguments)

            follower._write = write_and_count  # type: ignore[method-assign]
            while follower.refresh(boottime(), LONG_S):
                pass
    return written


def test_a_page_is_found_by_the_words_of_links_that_came_later(data):
    write(data, [a_record(PAGE, text="uma página")])
    graph.catch_up(data, lambda name, weights: None)
    catch_up(data)
    assert is_settled(data) is False
    assert settle(data) == 0
    assert is_settled(data)
    linking(data, "zebra", 20, "w2")
    assert urls(data, "zebra") == []
    assert not is_settled(data)
    assert settle(data) == 1
    assert urls(data, "zebra") == [PAGE]
    assert is_settled(data)
    assert settle(data) == 0, "once is enough"
    assert len(contents(data)) == 21


def test_it_happens_by_itself_while_the_follower_runs(data, monkeypatch):
    monkeypatch.setattr(anchor_refresh, "PAUSE_S_MIN", 0.0)
    settled = threading.Event()
    original = IndexFollower.refresh

    def refresh(self: IndexFollower, now: float, step_s: float, idle_s: float = 0.0) -> bool:
        more = original(self, now, step_s)
        if is_settled(data):
            settled.set()
        return more

    monkeypatch.setattr(IndexFollower, "refresh", refresh)
    write(data, [a_record(PAGE, text="uma página")])
    graph.catch_up(data, lambda name, weights: None)
    stop = threading.Event()
    thread = threading.Thread(target=index.follow, args=(data, stop))
    thread.start()
    try:
        assert settled.wait(30)
        settled.clear()
        appear(data, "zebra", 20, "w2")
        while urls(data, "zebra") != [PAGE]:
            assert settled.wait(30)
            settled.clear()
    finally:
        stop.set()
        thread.join(30)
    assert index.behind(data) == 0


def test_without_a_graph_nothing_is_written_anew(data):
    write(data, [a_record(PAGE)])
    catch_up(data)
    assert settle(data) == 0
    assert is_settled(data)


def test_only_what_has_clearly_changed_is_written_and_the_end_is_that_of_an_index_made_last(data):
    write(data, small_web(60))
    catch_up(data)  # nobody is known to link to anybody
    graph.catch_up(data, lambda name, weights: None)
    linked = settle(data)
    assert 30 < linked <= 60
    anchors = {word: urls(data, word) for word in ("veja", "sobre", "longe")}
    assert len(anchors["veja"]) > 30
    assert settle(data) == 0
    rebuild(data)
    assert {word: urls(data, word) for word in anchors} == anchors
    assert settle(data) == 0


def test_a_page_that_was_visited_again_is_written_as_the_last_visit_found_it(data):
    write(data, [a_record(PAGE, 1, text="velho")])
    catch_up(data)
    write(data, [a_record(PAGE, 2, text="novo")], "w2")
    linking(data, "zebra", 5, "w3")
    assert settle(data) <= 1
    assert (urls(data, "velho"), urls(data, "novo"), urls(data, "zebra")) == ([], [PAGE], [PAGE])
    write(data, [a_record(PAGE, 3, status=500)], "w4")
    linking(data, "girafa", 20, "w5")
    assert settle(data) == 1
    assert (urls(data, "novo"), urls(data, "girafa")) == ([PAGE], [PAGE])


def test_a_page_that_is_gone_or_taken_down_does_not_come_back(data):
    write(data, [a_record(PAGE, 1, text="velho"), a_record("http://b.br/", text="velho")])
    catch_up(data)
    write(data, [a_record(PAGE, 2, status=404)], "w2")
    linking(data, "zebra", 5, "w3")
    assert settle(data) == 0
    assert urls(data, "velho") == ["http://b.br/"]
    write(data, [a_record(PAGE, 3, text="volta")], "w4")
    catch_up(data)
    take_down(data, PAGE)
    linking(data, "girafa", 30, "w5")
    assert settle(data) == 0
    assert urls(data, "volta") == []


def test_new_pages_go_first(data):
    write(data, [a_record(PAGE)])
    catch_up(data)
    linking(data, "zebra", 20, "w2")
    with IndexFollower(data) as follower:
        write(data, [a_record("http://nova.br/")], "w3")
        follower.read(boottime())
        assert follower.refresh(boottime(), LONG_S) is False, "what was read is to be shown first"
        follower.commit()
        assert follower.refresh(boottime(), 0.0) is True, "no time at all: there is more to do"
        assert urls(data, "zebra") == []
        assert follower.refresh(boottime(), LONG_S) is False
    assert urls(data, "zebra") == [PAGE]


def test_what_is_written_anew_goes_with_the_next_commit_whatever_comes_in_between(data):
    write(data, [a_record(PAGE, 1, text="velho")])
    catch_up(data)
    linking(data, "zebra", 20, "w2")
    with IndexFollower(data) as follower:
        assert follower.refresh(boottime(), 0.0), "a sweep has begun"
        found = follower._refresher.next_entry()
        assert found is not None
        follower._rewrite(*found, boottime())
        write(data, [a_record(PAGE, 2, text="novo")], "w3")
        follower.read(boottime())
        follower.commit()
    assert (urls(data, "velho"), urls(data, "novo"), urls(data, "zebra")) == ([], [PAGE], [PAGE])
    assert len(contents(data)) == 21


def test_a_crash_before_it_is_noted_repeats_it(data):
    write(data, [a_record(PAGE)])
    catch_up(data)
    linking(data, "zebra", 20, "w2")
    with IndexFollower(data) as follower:
        follower._visits.state.commit = lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            follower.refresh(boottime(), LONG_S)
    assert not is_settled(data)
    assert settle(data) == 1
    assert urls(data, "zebra") == [PAGE]
    assert len(contents(data)) == 21


def test_every_part_settles_its_own(data):
    shards.set_layout(data, shards.parse_layout("3", "test"))
    write(data, small_web(60))
    catch_up(data)
    graph.catch_up(data, lambda name, weights: None)
    assert not is_settled(data)
    settle(shards.parts(data)[0])
    assert not is_settled(data)
    assert settle(data) > 20
    assert is_settled(data)


def _die_while_refreshing(data: DataDirectory, after_s: float) -> None:
    anchor_refresh.PAUSE_S_MIN, projection.COMMIT_RECORDS, projection.PROJECTION_COMMIT_S, index.POLL_S = (
        0.0,
        10,
        0.01,
        0.005,
    )
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    index.follow(data, threading.Event())


def test_killed_at_random_moments_it_ends_as_an_index_made_last(data):
    rng = random.Random(23)
    for number, start in enumerate(range(0, 120, 10)):
        write(data, small_web(120)[start : start + 10], f"w{number}")
        graph.catch_up(data, lambda name, weights: None)
        child = multiprocessing.get_context("fork").Process(
            target=_die_while_refreshing, args=(data, rng.uniform(0.02, 0.3))
        )
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGALRM
    catch_up(data)
    settle(data)
    found = {word: urls(data, word) for word in ("veja", "sobre", "longe", "rede")}
    shown = contents(data)
    rebuild(data)
    assert {word: urls(data, word) for word in found} == found
    assert contents(data) == shown
    assert len(shown) == 120


@pytest.mark.parametrize(
    ("then", "now", "stale"),
    [
        ((0, 1.0, 7), (0, 1.0, 7), False),
        ((0, 1.0, 7), (1, 1.0, 7), True),
        ((1, 1.0, 7), (2, 1.0, 7), False),
        ((1, 1.0, 7), (2, 1.0, 8), True),
        ((1, 1.0, 7), (2, 1.0, None), True),
        ((1, 1.0, 7), (4, 1.0, 7), True),
        ((4, 1.0, 7), (15, 1.0, 7), False),
        ((4, 1.0, 7), (16, 1.0, 7), True),
        ((4, 1.0, 7), (7, 1.0, 8), False),
        ((4, 1.0, 7), (8, 1.0, 8), True),
        ((8, 1.0, 7), (4, 1.0, 8), True),
        ((8, 1.0, 7), (4, 1.0, 7), False),
        ((8, 1.0, 7), (2, 1.0, 7), True),
        ((8, 1.0, 7), (0, 1.0, 7), True),
        ((4, 1.0), (4, 2.0), False),
        ((4, 1.0), (4, 3.0), True),
        ((4, 1.0), (4, 0.0), False),
        ((4, 4.0), (4, 1.0), False),
        ((4, 5.0), (4, 1.0), True),
    ],
)
def test_what_is_a_clear_difference(then, now, stale):
    assert is_stale(IndexedStanding(*then), IndexedStanding(*now)) is stale


@pytest.mark.parametrize(
    ("then", "now", "equal"),
    [
        (["a", "b"], ["b", "a"], True),
        (["a", "b"], ["a", "c"], False),
        ([], ["a"], False),
        ([], list("abcdefgh"), False),
        (list("abcdefg"), list("abcdefgh"), False),
        (list("abcdefgh"), list("mnopqrstuvwxyz"), True),
    ],
)
def test_anchors_are_others_by_their_texts_and_eight_are_enough(then, now, equal):
    before, after = (indexed_standing(LinkStanding(anchors, 9)).anchors for anchors in (then, now))
    assert (before == after) is equal


def test_a_record_is_found_again_by_where_it_begins(data):
    write(data, small_web(20))
    entries = list(follow(data.archive, Cursor()))
    for entry in entries:
        found = read_entry(data.archive, entry.file, entry.start)
        assert found is not None
        assert found.record == entry.record
    assert read_entry(data.archive, entries[0].file, entries[-1].end) is None
    assert read_entry(data.archive, "nothing", 0) is None


def test_a_rebuilt_index_has_nothing_left_to_write_anew(data):
    write(data, [a_record(PAGE, text="uma página")])
    appear(data, "zebra", 20, "w2")
    rebuild(data)
    assert is_settled(data)
    assert urls(data, "zebra") != []
    assert settle(data) == 0


# -- waiting for the graph ---------------------------------------------------------------------------------------------


def test_records_wait_for_the_graph_and_not_longer_than_their_time():
    wait, step_s = follower.GraphWait(), follower.GRAPH_WAIT_S / 2
    assert wait.limit({"a": 10}, {"a": 10}, 0.0) == {"a": 10}, "applied: nothing to wait for"
    assert wait.limit({"a": 20, "b": 5}, {"a": 10}, 1.0 * step_s) == {"a": 10, "b": 0}
    assert wait.limit({"a": 30, "b": 5}, {"a": 15}, 2.0 * step_s) == {"a": 15, "b": 0}
    assert wait.limit({"a": 30, "b": 5}, {"a": 20, "b": 5}, 3.5 * step_s) == {"a": 20, "b": 5}, "the first are applied"
    assert wait.limit({"a": 40, "b": 5}, {"a": 29, "b": 5}, 3.9 * step_s) == {"a": 29, "b": 5}
    assert wait.is_holding
    assert wait.limit({"a": 40, "b": 5}, {"a": 29, "b": 5}, 4.1 * step_s) == {"a": 40, "b": 5}, "long enough"
    assert not wait.is_holding


def test_a_graph_that_is_absent_stopped_or_rebuilt_is_not_waited_for():
    wait, long_s = follower.GraphWait(), follower.GRAPH_WAIT_S
    assert wait.limit({"a": 10}, None, 0.0) == {"a": 10}
    assert wait.limit({"a": 10}, {}, 0.0) == {"a": 0}
    for number in range(1, 5):
        durable = {"a": 10 + number}
        assert wait.limit(durable, {"a": number}, number * long_s) == durable, "nor again while it is behind"
    assert wait.limit({"a": 20}, {"a": 12}, 9 * long_s) == {"a": 12}, "it has caught up: wait again"


def passed_times(bytes_per_s: float) -> list[float]:
    """The seconds at which a new index may read, while an archive grows for ten seconds."""
    wait, times = follower.GraphWait(is_new=True), [0.3 * number for number in range(1, 34)]
    lengths = [{"a": round(now * bytes_per_s)} for now in times]
    return [now for now, durable in zip(times, lengths, strict=True) if wait.limit(durable, None, now) == durable]


def test_records_of_a_young_index_wait_while_more_come():
    passed = passed_times(follower.YOUNG_BYTES / 100)
    assert [round(now - 0.3 - follower.YOUNG_WAIT_S, 1) for now in passed] == [0.1]


def test_records_of_a_young_index_wait_no_longer_when_there_are_many():
    passed = passed_times(follower.YOUNG_BYTES / 3)
    assert passed[0] == pytest.approx(3.0)
    assert len(passed) == 24, "the index is young no more"


def test_records_of_a_young_index_wait_no_longer_when_no_more_come():
    wait = follower.GraphWait(is_new=True)
    assert wait.limit({}, None, 0.0) == {}, "nothing to wait for"
    for began in (100.0, 200.0):
        assert wait.limit({"a": round(began)}, {"a": 900}, began) == {"a": 0}
        assert wait.is_holding
        assert wait.is_graph_behind, "no time to refresh anchors"
        assert wait.limit({"a": round(began) + 1}, {"a": 900}, began + 0.3) == {"a": 0}
        assert not wait.has_released
        assert wait.limit({"a": round(began) + 1}, {"a": 900}, began + 0.8) == {"a": round(began) + 1}
        assert wait.has_released
        assert wait.limit({"a": round(began) + 1}, {"a": 900}, began + 0.9) == {"a": round(began) + 1}
        assert not wait.has_released
        assert not wait.is_graph_behind


@pytest.mark.parametrize(
    ("after_s", "idle_s", "is_fast", "begins"),
    [
        (1.0, 0.0, False, True),
        (1.0, 0.0, True, False),
        (anchor_refresh.FAST_PAUSE_S - 1.0, 0.0, True, False),
        (anchor_refresh.FAST_PAUSE_S + 1.0, 0.0, True, True),
        (1.0, projection.COMMIT_IDLE_S / 2, True, False),
        (1.0, projection.COMMIT_IDLE_S, True, True),
    ],
)
def test_a_fast_crawl_is_swept_once_a_minute_and_as_soon_as_it_is_over(data, after_s, idle_s, is_fast, begins):
    write(data, small_web(60))
    catch_up(data)
    graph.catch_up(data, lambda name, weights: None)
    with closing(IndexedVisits(data)) as visits:
        refresher, links = anchor_refresh.AnchorRefresher(data, visits), GraphReader(data)
        assert refresher.is_due(links, boottime() + after_s, idle_s, is_fast=is_fast) is begins


def test_the_pause_after_a_sweep_ends_when_nothing_was_read_for_as_long_as_it_took(data):
    write(data, small_web(60))
    catch_up(data)
    graph.catch_up(data, lambda name, weights: None)
    with closing(IndexedVisits(data)) as visits:
        refresher, links, now = anchor_refresh.AnchorRefresher(data, visits), GraphReader(data), boottime() + 1.0
        assert refresher.is_due(links, now, 0.0, is_fast=False)
        refresher.add_time(5.0)
        refresher.is_written = True
        refresher.note_committed(now)
        appear(data, "zebra", 1, "w2")
        assert not refresher.is_due(links, now + 10.0, 4.0, is_fast=False)
        assert refresher.is_due(links, now + 11.0, 5.0, is_fast=False)


def test_a_page_is_indexed_once_though_its_links_come_with_it(data):
    """The graph applies the records first: no page is written twice."""
    stop, written = threading.Event(), list[str]()
    original = IndexFollower._write

    class Counting(IndexFollower):
        def _write(self, entry, *arguments):
            written.append(entry.record.url)
            original(self, entry, *arguments)

    write(data, [a_record("http://first.br/")])
    graph.catch_up(data, lambda name, weights: None)
    catch_up(data)
    with Counting(data) as steps:
        wait = follower.GraphWait()

        def read(now: float) -> int:
            applied = steps.graph_cursor()
            return steps.read(now, stop, lambda durable: wait.limit(durable, applied, now))

        assert read(0.0) == 0
        write(data, small_web(60), "w2")
        assert read(0.1) == 0, "the graph has not applied them"
        assert index.behind(data) > 0
        graph.catch_up(data, lambda name, weights: None)
        assert read(0.2) == 60
        steps.commit()
        while steps.refresh(boottime(), LONG_S):
            pass
    assert len(written) == len(set(written)) == 60
    assert is_settled(data)
    assert index.behind(data) == 0
