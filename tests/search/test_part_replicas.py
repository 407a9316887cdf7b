"""Each part of an index is asked of one machine, of the other one that has it when the first does not answer."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tarrafa.errors import DataError, ShardUnavailable
from tarrafa.i18n import message
from tarrafa.index.shards import ShardLayout, write_layout
from tarrafa.model import ShardReport
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.remote_shard import UnavailableShard
from tarrafa.search.request import SearchRequest, Shard, Sort
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import new_data
from tests.search.sharded_index import behind_a_url, divided

QUESTIONS = [
    SearchRequest("rede", n=50),
    SearchRequest("rede pesca mar", n=50),
    SearchRequest("comum", sort=Sort.LINKS, n=50),
    SearchRequest("espelho", expand=True),
    SearchRequest("http", related="http://h1.br.test/p1.html"),
]
BUILDING = "being built, or on no machine that answers"


class Machine:
    """A shard that can be lost, and counts what it is asked."""

    def __init__(self, name: str, shard: Shard, calls: list[str]) -> None:
        self.name, self._shard, self.calls = name, shard, calls
        self.failure: Exception | None = None
        self.fails_after = 0
        self._whole = self

    def restricted(self, numbers: Sequence[int]) -> "Machine":
        view = Machine(self.name, self._shard.restricted(numbers), self.calls)  # type: ignore[attr-defined]
        view._whole = self._whole
        return view

    def lose(self, failure: Exception, after: int = 0) -> None:
        self.failure, self.fails_after = failure, after

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def ask(*arguments: object) -> object:
            whole = self._whole
            if whole.failure is not None and method != "parts":
                whole.fails_after -= 1
            if whole.failure is not None and whole.fails_after < 0:
                raise whole.failure
            if method != "parts":
                self.calls.append(self.name)
            return getattr(self._shard, method)(*arguments)

        return ask


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return divided(tmp_path_factory.mktemp("four") / "data", "4")


@pytest.fixture(scope="module")
def one(whole):
    """The measure: all parts on one machine, each once."""
    return Searcher([open_local_shard(whole)])


@pytest.fixture
def a_machine(tmp_path, whole):
    """Makes data directories with some of the parts."""

    def make(name: str, here: Sequence[int], building: Sequence[int] = ()) -> DataDirectory:
        data = new_data(tmp_path / name)
        for folder in ("archive", "graph"):
            (data.root / folder).rmdir()
            (data.root / folder).symlink_to(whole.root / folder)
        write_layout(data, ShardLayout(4, tuple(here), is_owned=True, building=tuple(building), replicas=2))
        for number in range(1, 5):
            part = DataDirectory(data.root, f"{number}-of-4")
            part.index.symlink_to(DataDirectory(whole.root, part.part).index)
        return data

    return make


@pytest.fixture
def three(a_machine):
    """Three machines, each part on two of them."""
    calls = list[str]()
    parts = {"a": (1, 2, 3), "b": (3, 4, 1), "c": (2, 4)}
    return [Machine(name, open_local_shard(a_machine(name, sorted(here))), calls) for name, here in parts.items()]


def urls(searcher: Searcher, question: SearchRequest) -> list[str]:
    return [hit.url for hit in searcher.search(question).hits]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_two_copies_of_each_part_answer_as_one_index(three, one, question):
    found, wanted = Searcher(three).search(question), one.search(question)
    assert [hit.url for hit in found.hits] == [hit.url for hit in wanted.hits]
    assert (found.total, found.others) == (wanted.total, wanted.others)
    assert not any(report.trouble for report in found.shards)
    assert {*three[0].calls} == {"a", "b", "c"}, "each has a share"


def test_counts_and_suggestions_are_those_of_one_index(three, one):
    searcher = Searcher(three)
    assert searcher.count_urls() == one.count_urls()
    assert searcher.languages() == one.languages()
    assert searcher.suggest("red") == one.suggest("red")
    assert searcher.count_indexed("site", "br.test") == one.count_indexed("site", "br.test")


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("failure", [ShardUnavailable("no answer"), DataError("a broken disk")], ids=str)
def test_a_machine_that_is_lost_in_the_middle_of_a_search_is_replaced_and_not_named(three, one, lost, after, failure):
    searcher, question = Searcher(three), QUESTIONS[0]
    three[lost].lose(failure, after)
    for _ in range(3):
        found = searcher.search(question)
        assert [hit.url for hit in found.hits] == urls(one, question)
        assert [report for report in found.shards if report.trouble] == []
    assert searcher.count_urls() == one.count_urls()


def test_two_lost_machines_are_named_with_the_parts_that_only_they_have(three, one):
    searcher, question = Searcher(three), QUESTIONS[0]
    assert urls(searcher, question) == urls(one, question)
    three[1].lose(ShardUnavailable("no answer"))
    three[2].lose(ShardUnavailable("no answer"))
    found = searcher.search(question)
    assert 0 < found.total < one.search(question).total
    assert [(report.name, str(report.trouble)) for report in found.shards if report.trouble] == [
        ("b", "no answer"), ("c", "no answer"), ("4/4", BUILDING),
    ]  # fmt: skip


def test_a_machine_that_nobody_knows_is_named_until_it_is_known(three):
    silent = UnavailableShard("d", message("it is silent"))
    found = Searcher([*three, silent]).search(QUESTIONS[0])
    assert [report for report in found.shards if report.trouble] == [ShardReport("d", message("it is silent"))]


def test_a_complete_part_is_preferred_and_one_that_is_being_built_is_named(a_machine, one):
    machines = [
        Machine("a", open_local_shard(a_machine("a", [1, 2, 3], building=[1, 3])), []),
        Machine("b", open_local_shard(a_machine("b", [1, 4])), []),
    ]
    found = Searcher(machines).search(QUESTIONS[0])
    assert [hit.url for hit in found.hits] == urls(one, QUESTIONS[0]), "what it has is found"
    assert [(report.name, str(report.trouble)) for report in found.shards if report.trouble] == [("3/4", BUILDING)]


def test_a_part_that_has_moved_since_is_found_where_it_is(a_machine, one):
    a, b = a_machine("a", [1, 2, 3, 4]), a_machine("b", [1, 2, 3])
    searcher = Searcher([Machine("a", open_local_shard(a), []), Machine("b", open_local_shard(b), [])])
    assert urls(searcher, QUESTIONS[0]) == urls(one, QUESTIONS[0])
    write_layout(a, ShardLayout(4, (1, 2), is_owned=True, replicas=2))
    write_layout(b, ShardLayout(4, (1, 2, 3, 4), is_owned=True, replicas=2))
    found, wanted = searcher.search(QUESTIONS[0]), one.search(QUESTIONS[0])
    assert (found.total, found.others) == (wanted.total, wanted.others)
    assert [hit.score for hit in found.hits] == [hit.score for hit in wanted.hits], "up to the order of equal ones"
    assert not any(report.trouble for report in found.shards)


def test_replicas_over_http_answer_as_one_index_and_replace_each_other(a_machine, one):
    with ExitStack() as stack:
        first = stack.enter_context(behind_a_url(a_machine("a", [1, 2, 3, 4])))
        second = stack.enter_context(behind_a_url(a_machine("b", [1, 2, 3, 4])))
        searcher = Searcher([first, second])
        for question in QUESTIONS:
            assert urls(searcher, question) == urls(one, question)
        assert first.restricted([2]).documents() + first.restricted([1, 3, 4]).documents() == second.documents()
        first.close()  # its connections are closed: every request fails
        for question in QUESTIONS:
            found = searcher.search(question)
            assert [hit.url for hit in found.hits] == urls(one, question)
            assert not any(report.trouble for report in found.shards)


@pytest.mark.parametrize("parts", ["0", "65", "a", "", "1,,2", "1;2"])
def test_parts_that_there_cannot_be_are_refused(a_machine, parts):
    from tarrafa.errors import QueryError
    from tarrafa.search.request import Shard as Protocol

    with behind_a_url(a_machine("a", [1, 2])) as shard, pytest.raises(QueryError, match="cannot be understood"):
        shard._ask_parts(f"?parts={parts}", Protocol.documents, ())
