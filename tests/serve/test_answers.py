"""Remembered answers: quick, bounded, and never older than the index."""

import threading
from time import perf_counter

import pytest

from tarrafa.data import DataDirectory
from tarrafa.errors import QueryError
from tarrafa.index import follower as index
from tarrafa.model import Hit, SearchResult, ShardReport
from tarrafa.search.question import Question
from tarrafa.serve.answers import DECIDED, SECONDS_MAX, Answers, moment_of
from tests.graph.small_web import a_record, new_data, write


class Asking:
    """Counts what really is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.moment = 1
        self.now = 0.0
        self.trouble = ""

    def search(self, question: Question) -> SearchResult:
        self.asked.append(question.text)
        if question.text == "bad":
            raise QueryError("no")
        hits = [Hit(f"http://a/{n}", "", "", 1.0, 0, "", "") for n in range(question.n)]
        return SearchResult(question.text, len(hits), 0.5, hits, None, [ShardReport("s", self.trouble)])


@pytest.fixture
def asking() -> Asking:
    return Asking()


def answers_of(asking: Asking, most: int = 100) -> Answers:
    return Answers(asking.search, lambda: asking.moment, most, lambda: asking.now)


def test_the_same_question_is_asked_once(asking):
    answers = answers_of(asking)
    first = answers.to(Question("a", 3))
    began = perf_counter()
    second = answers.to(Question("a", 3))
    took_s = perf_counter() - began
    assert asking.asked == ["a"]
    assert second.hits == first.hits
    assert (first.time_s, second.time_s != 0.5, second.time_s <= took_s + 1e-6) == (0.5, True, True), "what it took now"
    answers.to(Question("a", 3, 3))
    answers.to(Question("a", 3, language="pt"))
    assert asking.asked == ["a", "a", "a"]


def test_a_new_commit_forgets_everything(asking):
    answers = answers_of(asking)
    answers.to(Question("a"))
    asking.moment = 2
    answers.to(Question("a"))
    assert asking.asked == ["a", "a"]


def test_a_commit_that_comes_while_we_look_is_not_answered_from_before(asking):
    def slow(question: Question) -> SearchResult:
        found: SearchResult = asking.search(question)
        if question.text == "a" and asking.moment == 1:
            asking.moment = 2
            answers.to(Question("b"))
        return found

    answers = Answers(slow, lambda: asking.moment)
    answers.to(Question("a"))
    answers.to(Question("a"))
    assert asking.asked == ["a", "b", "a"]


def test_an_answer_is_remembered_for_seconds_only(asking):
    answers = answers_of(asking)
    answers.to(Question("a"))
    asking.now = SECONDS_MAX - 0.1
    answers.to(Question("a"))
    assert asking.asked == ["a"]
    asking.now = SECONDS_MAX + 0.1
    answers.to(Question("a"))
    answers.to(Question("a"))
    assert asking.asked == ["a", "a"]


def test_hits_are_bounded_and_the_oldest_go_first(asking):
    answers = answers_of(asking, most=30)
    for text in "abcab":
        answers.to(Question(text, 9))
    assert asking.asked == ["a", "b", "c"]
    answers.to(Question("d", 9))  # c was used longest ago
    for text in "abdc":
        answers.to(Question(text, 9))
    assert asking.asked == ["a", "b", "c", "d", "c"]
    answers.to(Question("large", 100))
    answers.to(Question("large", 100))
    assert asking.asked[-2:] == ["large", "large"], "what is too large for all of the room is not kept"


def test_trouble_is_not_remembered(asking):
    answers = answers_of(asking)
    for _ in range(2):
        with pytest.raises(QueryError):
            answers.to(Question("bad"))
    asking.trouble = "did not answer"
    for _ in range(2):
        answers.to(Question("a"))
    assert asking.asked == ["bad", "bad", "a", "a"]


def test_many_threads_ask_at_once(asking):
    answers = answers_of(asking, most=40)
    wrong: list[str] = []

    def ask() -> None:
        for n in range(300):
            text = "abcdefgh"[n % 8]
            asking.moment = n // 100
            if answers.to(Question(text)).query != text:
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
    seen = [moment_of(data)]
    write(data, [a_record("http://a.test/")])
    index.catch_up(data)
    seen.append(moment_of(data))
    for name in DECIDED:
        (data.root / name).write_text("x")
        seen.append(moment_of(data))
    assert len(set(seen)) == len(seen)
    assert moment_of(data) == seen[-1]
