"""Remembered answers: quick, bounded, and never older than the index."""

import threading
from time import perf_counter

import pytest

from tarrafa.errors import QueryError
from tarrafa.index import follower as index
from tarrafa.model import Hit, SearchResult, ShardReport
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.result_cache import CACHE_AGE_MAX_S, OPERATOR_FILES, SearchResultCache, index_version
from tests.graph.archived_web import a_record, new_data, write


class Asking:
    """Counts what really is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.moment = 1
        self.now = 0.0
        self.trouble = ""

    def search(self, question: SearchRequest) -> SearchResult:
        self.asked.append(question.text)
        if question.text == "bad":
            raise QueryError("no")
        hits = [Hit(f"http://a/{n}", "", "", 1.0, 0, "", "") for n in range(question.n)]
        return SearchResult(question.text, len(hits), 0.5, hits, None, [ShardReport("s", self.trouble)])


@pytest.fixture
def asking() -> Asking:
    return Asking()


def answers_of(asking: Asking, most: int = 100) -> SearchResultCache:
    return SearchResultCache(asking.search, lambda: asking.moment, most, lambda: asking.now)


def test_the_same_question_is_asked_once(asking):
    answers = answers_of(asking)
    first = answers.search(SearchRequest("a", 3))
    began = perf_counter()
    second = answers.search(SearchRequest("a", 3))
    took_s = perf_counter() - began
    assert asking.asked == ["a"]
    assert second.hits == first.hits
    assert (first.time_s, second.time_s != 0.5, second.time_s <= took_s + 1e-6) == (0.5, True, True), "what it took now"
    answers.search(SearchRequest("a", 3, 3))
    answers.search(SearchRequest("a", 3, language="pt"))
    assert asking.asked == ["a", "a", "a"]


def test_what_is_cached_can_be_read_without_a_search(asking):
    answers = answers_of(asking)
    assert answers.cached(SearchRequest("a", 3)) is None
    found = answers.search(SearchRequest("a", 3))
    kept = answers.cached(SearchRequest("a", 3))
    assert kept is not None
    assert kept.hits == found.hits
    asking.moment = 2
    assert answers.cached(SearchRequest("a", 3)) is None
    assert asking.asked == ["a"]


def test_a_new_commit_forgets_everything(asking):
    answers = answers_of(asking)
    answers.search(SearchRequest("a"))
    asking.moment = 2
    answers.search(SearchRequest("a"))
    assert asking.asked == ["a", "a"]


def test_a_commit_that_comes_while_we_look_is_not_answered_from_before(asking):
    def slow(question: SearchRequest) -> SearchResult:
        found: SearchResult = asking.search(question)
        if question.text == "a" and asking.moment == 1:
            asking.moment = 2
            answers.search(SearchRequest("b"))
        return found

    answers = SearchResultCache(slow, lambda: asking.moment)
    answers.search(SearchRequest("a"))
    answers.search(SearchRequest("a"))
    assert asking.asked == ["a", "b", "a"]


def test_an_answer_is_remembered_for_seconds_only(asking):
    answers = answers_of(asking)
    answers.search(SearchRequest("a"))
    asking.now = CACHE_AGE_MAX_S - 0.1
    answers.search(SearchRequest("a"))
    assert asking.asked == ["a"]
    asking.now = CACHE_AGE_MAX_S + 0.1
    answers.search(SearchRequest("a"))
    answers.search(SearchRequest("a"))
    assert asking.asked == ["a", "a"]


def test_hits_are_bounded_and_the_oldest_go_first(asking):
    answers = answers_of(asking, most=30)
    for text in "abcab":
        answers.search(SearchRequest(text, 9))
    assert asking.asked == ["a", "b", "c"]
    answers.search(SearchRequest("d", 9))  # c was used longest ago
    for text in "abdc":
        answers.search(SearchRequest(text, 9))
    assert asking.asked == ["a", "b", "c", "d", "c"]
    answers.search(SearchRequest("large", 100))
    answers.search(SearchRequest("large", 100))
    assert asking.asked[-2:] == ["large", "large"], "what is too large for all of the room is not kept"


def test_trouble_is_not_remembered(asking):
    answers = answers_of(asking)
    for _ in range(2):
        with pytest.raises(QueryError):
            answers.search(SearchRequest("bad"))
    asking.trouble = "did not answer"
    for _ in range(2):
        answers.search(SearchRequest("a"))
    assert asking.asked == ["bad", "bad", "a", "a"]


def test_many_threads_ask_at_once(asking):
    answers = answers_of(asking, most=40)
    wrong: list[str] = []

    def ask() -> None:
        for n in range(300):
            text = "abcdefgh"[n % 8]
            asking.moment = n // 100
            if answers.search(SearchRequest(text)).query != text:
                wrong.append(text)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert answers._weight == sum(kept.weight for kept in answers._kept.values())


def test_a_moment_changes_with_commits_and_decisions(tmp_path):
    data: DataDirectory = new_data(tmp_path / "data")
    seen = [index_version(data)]
    write(data, [a_record("http://a.test/")])
    index.catch_up(data)
    seen.append(index_version(data))
    for name in OPERATOR_FILES:
        (data.root / name).write_text("x")
        seen.append(index_version(data))
    assert len(set(seen)) == len(seen)
    assert index_version(data) == seen[-1]
