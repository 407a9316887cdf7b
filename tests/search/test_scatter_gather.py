"""One ranking over several shards: the one that a single index would give, always the same, page after page."""

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from functools import partialmethod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError, QueryError, ShardUnavailable
from tarrafa.i18n import message
from tarrafa.index import follower as index
from tarrafa.index.reader import IndexReader
from tarrafa.index.shards import parts, path_of, shard_number
from tarrafa.model import ShardReport, VisitRecord
from tarrafa.search.duplicates_and_site_diversity import RankedCandidate
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.remote_shard import METHODS, UnavailableShard
from tarrafa.search.request import Candidate, CandidateBlock, SearchRequest, Shard, Sort
from tarrafa.search.scatter_gather import PartitionedShard, merge_blocks, open_local_shard, rank_block
from tarrafa.search.searcher import Searcher, exact_copies
from tests.graph.archived_web import new_data, write
from tests.search.sample_pages import a_page
from tests.search.sharded_index import behind_a_url, divided, pages

NOW = 1_795_000_000.0  # two months after the first pages
NEAR = 0.03  # who scores nearly alike may change places: the mean length of a title differs from index to index


@pytest.fixture(scope="module", autouse=True)
def still() -> Iterator[None]:
    """A page grows no older between two searches: the last digit of its score would tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalShard, "__init__", partialmethod(LocalShard.__init__, now=lambda: NOW))
        yield


@pytest.fixture(scope="module")
def searchers(tmp_path_factory):
    """The same pages in one index, in parts of one, in shards apart, and behind URLs."""
    root = tmp_path_factory.mktemp("shards")
    whole, four = divided(root / "whole", "1"), divided(root / "four", "4")
    halves = [divided(root / f"half{n}", f"{n}/2") for n in (1, 2)]
    apart = [LocalShard(part) for part in parts(four)]
    with contextlib.ExitStack() as stack:
        remote = [stack.enter_context(behind_a_url(half)) for half in halves]
        yield {
            "one": Searcher.open(whole),
            "four parts": Searcher.open(four),
            "four shards": Searcher(apart),
            "two machines": Searcher(remote),
            "here and there": Searcher([open_local_shard(halves[0]), remote[1]]),
        }


SEVERAL = ("four parts", "four shards", "two machines", "here and there")
QUESTIONS = [
    SearchRequest("rede"),
    SearchRequest("rede pesca barco mar", n=30),
    SearchRequest("rede", n=20, crowded=True),
    SearchRequest("river net", sort=Sort.LINKS, n=20),
    SearchRequest("rede net", sort=Sort.DATE, n=50),
    SearchRequest('"veja a página" OR "mais sobre"'),
    SearchRequest("espelho"),
    SearchRequest("espelho", copies=True),
    SearchRequest("espelho", like="http://m0.copias.br/"),
    SearchRequest("como é a rede de pesca", natural=True),
    SearchRequest("rede recente", recent=True),
    SearchRequest("rede", collection="outra"),
    SearchRequest("only1 only2 only3", all_words=True),
]


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.text}-{question.sort}")
def test_several_shards_find_what_one_index_finds(searchers, kind, question):
    found, wanted = searchers[kind].search(question), searchers["one"].search(question)
    assert (found.total, found.others, found.instead) == (wanted.total, wanted.others, wanted.instead)
    assert (len(found.hits), found.ignored) == (len(wanted.hits), wanted.ignored)
    assert {hit.url: hit.copies for hit in found.hits if hit.copies} == {
        hit.url: hit.copies for hit in wanted.hits if hit.copies
    }
    for hit, other in zip(found.hits, wanted.hits, strict=True):
        assert hit.score == pytest.approx(other.score, rel=NEAR)
    again = searchers[kind].search(question)
    assert (again.total, again.hits) == (found.total, found.hits)


WORDS = st.sampled_from(
    ["rede", "mar", "net", "comum", "espelho", "only7", "pesc*", '"a rede"', "site:br.test", "-mar", "+rede", "lang:en",
     "(rio OR river)", "intitle:number3", "nada", "after:2026-09-22"]
)  # fmt: skip


@given(st.lists(WORDS, min_size=1, max_size=4), st.booleans(), st.booleans(), st.sampled_from(Sort))
@settings(max_examples=60, deadline=None)
def test_any_question_has_the_same_total_in_one_index_and_in_fourparts(searchers, words, all_words, copies, sort):
    question = SearchRequest(" ".join(words), n=100, offset=100, all_words=all_words, copies=copies, sort=sort)
    answers = []
    for kind in ("one", "four parts", "four shards"):
        try:
            answers.append(searchers[kind].search(question))
        except QueryError as error:
            answers.append(str(error))
    if isinstance(answers[0], str):
        assert answers[1:] == answers[:1] * 2
        return
    totals = [(each.total, each.others) for each in answers]
    assert totals == totals[:1] * 3
    assert [len(each.hits) for each in answers] == [min(100, max(0, sum(totals[0]) - 100))] * 3


@pytest.mark.parametrize("kind", SEVERAL)
def test_pages_of_results_follow_each_other_over_shards(searchers, kind, monkeypatch):
    monkeypatch.setattr("tarrafa.search.scatter_gather.BLOCK_MATCHES", 20)
    searcher = searchers[kind]
    whole = searcher.search(SearchRequest("rede net pesca river", n=100))
    pages = [
        searcher.search(SearchRequest("rede net pesca river", offset=start))
        for start in range(0, whole.total + whole.others, 10)
    ]
    joined = [hit.url for page in pages for hit in page.hits]
    assert joined[:100] == [hit.url for hit in whole.hits]
    assert len(joined) == len(set(joined)) == pages[-1].total + pages[-1].others > 100


def test_who_was_asked_is_told_where_it_was_more_than_one(searchers):
    assert searchers["one"].search(SearchRequest("rede")).shards == []
    assert searchers["four parts"].search(SearchRequest("rede")).shards == []
    asked = searchers["here and there"].search(SearchRequest("rede")).shards
    assert [report.trouble for report in asked] == ["", ""]
    assert asked[0].name == "here"
    assert asked[1].name.startswith("http://127.0.0.1:")


def test_all_documents_are_counted_and_a_url_in_two_collections_is_one_url(searchers):
    shards = [searcher.present_shards for searcher in searchers.values()]
    assert {sum(shard.documents() for shard in some) for some in shards} == {155}
    assert {searcher.count_urls() for searcher in searchers.values()} == {154}


def test_copies_are_found_in_whatever_part_they_are(tmp_path):
    alone = "http://h0.br.test/"
    data = divided(tmp_path / "data", "8", [page for page in pages() if "copias" in page.url or page.url == alone])
    assert len({place.part for place in parts(data)}) == 8
    assert sum(LocalShard(part).documents() > 0 for part in parts(data)) > 1
    assert exact_copies(data, "http://m0.copias.br/", None) == [f"http://m{n}.copias.br/{'x' * n}" for n in (1, 2, 3)]
    assert exact_copies(data, alone, None) == []


def test_pages_that_were_written_again_and_again_weigh_and_count_like_the_others(tmp_path):
    several = [f"http://w{number}.br/" for number in range(90)]
    busy = [url for url in several if shard_number(url, 2) == 2][:20]

    def said(url: str, visit: int) -> VisitRecord:
        return a_page(url, f"{'rede' if several.index(url) % 3 else 'barco'} visita{visit} {url}", visit=visit)

    one, two = (divided(tmp_path / into, into, [said(url, 1) for url in several]) for into in ("1", "2"))
    for visit in range(2, 8):
        for data in (one, two):  # of each commit one page stays: what is wholly deleted is forgotten at once
            write(data, [said(url, visit) for url in busy[visit:]], f"w{visit}")
            index.catch_up(data)
    written = [(place.written, place.documents) for place in (IndexReader(part).snapshot() for part in parts(two))]
    assert written[1][0] > 2 * written[1][1], f"what is deleted is still there: {written}"

    question = SearchRequest("rede barco", n=100, crowded=True, copies=True, natural=True)
    wanted, found = (Searcher.open(data).search(question) for data in (one, two))
    assert wanted.ignored == found.ignored == ["rede"], "in two of three; the boat is not"
    scores = {hit.url: hit.score for hit in wanted.hits}
    assert {hit.url: hit.score for hit in found.hits} == pytest.approx(scores, rel=NEAR)


# -- shards that fail -------------------------------------------------------------------------------------------------


class Failing:
    """A shard that goes away at the n-th question of a kind, for good."""

    def __init__(self, shard: Shard, method: str, after: int = 0, error: Exception | None = None) -> None:
        self._shard, self._method, self._after = shard, method, after
        self._error = error or ShardUnavailable("gone fishing")
        self.name = "http://away.test"
        self.asked = 0

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def ask(*arguments: object) -> object:
            self.asked += method != "parts"
            if self._after < 0 or (method == self._method and self._after == 0):
                self._after = -1
                raise self._error
            self._after -= method == self._method
            return getattr(self._shard, method)(*arguments)

        return ask


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    root = tmp_path_factory.mktemp("halves")
    return [open_local_shard(divided(root / f"half{n}", f"{n}/2")) for n in (1, 2)]


@pytest.mark.parametrize("method", ["statistics", "top_matches", "show"])
@pytest.mark.parametrize("error", [ShardUnavailable("gone fishing"), DataError("a broken disk")], ids=str)
def test_a_shard_that_goes_away_in_the_middle_of_a_search_is_named_and_the_rest_is_shown(halves, method, error):
    question = SearchRequest("rede", n=100)
    rest = Searcher([halves[0]]).search(question)
    failing = Failing(halves[1], method, error=error)
    found = Searcher([halves[0], failing]).search(question)
    assert found.shards == [ShardReport("here"), ShardReport("http://away.test", str(error))]
    assert {hit.url for hit in found.hits} == {hit.url for hit in rest.hits}
    assert failing.asked == {"statistics": 1, "top_matches": 2, "show": 3}[method], "and is asked no more"


def test_a_shard_that_goes_away_between_two_blocks_leaves_no_gap_in_the_others(halves, monkeypatch):
    monkeypatch.setattr("tarrafa.search.scatter_gather.BLOCK_MATCHES", 5)
    question = SearchRequest("espelho rede", n=5, crowded=True)
    monkeypatch.setattr("tarrafa.search.scatter_gather.Deduplicator", _OneAtATime)
    failing = Failing(halves[1], "top_matches", after=1)
    found = Searcher([halves[0], failing]).search(question)
    alone = Searcher([halves[0]]).search(question)
    assert found.shards[1].trouble == "gone fishing"
    assert [hit.url for hit in found.hits] == [hit.url for hit in alone.hits]


class _OneAtATime:
    """Every two pages are copies of each other, so that more blocks are looked at."""

    def __init__(self, apart=False):
        self.all, self.looked = [], 0

    def add(self, block):
        self.looked += len(block)
        self.all += [[one] for one in block[::2]]


def test_when_nobody_answers_that_is_said_with_every_name(halves):
    away = [
        Failing(half, "statistics", error=ShardUnavailable(why))
        for half, why in zip(halves, ("one", "two"), strict=True)
    ]
    with pytest.raises(ShardUnavailable, match=r"http://away.test: one; http://away.test: two"):
        Searcher(away).search(SearchRequest("rede"))
    with pytest.raises(ShardUnavailable, match=r"http://away.test: three"):
        Searcher([Failing(halves[0], "statistics", error=ShardUnavailable("three"))]).search(SearchRequest("rede"))


def test_a_search_that_cannot_be_understood_is_no_fault_of_a_shard(halves):
    with pytest.raises(QueryError):
        Searcher(halves).search(SearchRequest("-rede"))


# -- shards that come and go ------------------------------------------------------------------------------------------


def test_a_question_goes_to_those_that_there_are(halves):
    present = list(halves)
    searcher, question = Searcher(lambda: present), SearchRequest("rede", n=100)
    whole = searcher.search(question)
    assert len(whole.shards) == 2
    assert searcher.present_shards == tuple(halves)
    present.pop()
    alone = searcher.search(question)
    assert alone.hits == Searcher(halves[:1]).search(question).hits
    assert alone.shards == [], "there is only one"
    present.append(halves[1])
    assert searcher.search(question).hits == whole.hits


def test_who_leaves_or_comes_in_the_middle_of_a_search_does_not_confuse_it(halves):
    present: list[Any] = [halves[0], Failing(halves[1], "show")]
    question = SearchRequest("rede", n=100, expand=True)
    wanted = Searcher([halves[0], Failing(halves[1], "show")]).search(question)

    class Leaving(Failing):
        def __getattr__(self, method: str) -> Callable[..., Any]:
            present[:] = [self, *halves] if method == "top_matches" else [halves[1]]
            return super().__getattr__(method)

    present[0] = Leaving(halves[0], "never")
    found = Searcher(lambda: present).search(question)
    assert [hit.url for hit in found.hits] == [hit.url for hit in wanted.hits]
    assert [report.trouble for report in found.shards] == ["", "gone fishing"]


def test_there_are_threads_enough_for_all_shards_and_those_of_a_smaller_pool_end(halves):
    def waiting() -> set[threading.Thread]:
        return {one for one in threading.enumerate() if one.name.startswith("asks shards")}

    before, present = waiting(), list(halves)
    searcher = Searcher(lambda: present)
    searcher.search(SearchRequest("rede"))
    few = waiting() - before
    assert few
    met = threading.Barrier(20)

    class Meeting(Failing):
        """Answers when twenty are asked at once."""

        def __getattr__(self, method: str) -> Callable[..., Any]:
            if method == "documents":
                met.wait(30)
            return super().__getattr__(method)

    present[:] = [Meeting(halves[0], "never") for _ in range(20)]
    assert searcher.count_urls() == 20 * halves[0].count_urls()
    for one in few:
        one.join(30)
        assert not one.is_alive()
    many = waiting() - before
    present[:] = halves
    searcher.search(SearchRequest("rede"))
    assert waiting() - before <= many, "fewer shards need no other pool"


def test_an_index_that_holds_nothing_yet_is_passed_over_where_there_are_others(halves, tmp_path):
    others: list[Shard] = []
    data = new_data(tmp_path / "data")
    searcher = Searcher.over_changing_shards(data, lambda: others)
    with pytest.raises(DataError, match="nothing indexed yet"):
        searcher.search(SearchRequest("rede"))
    others.append(halves[0])
    found = searcher.search(SearchRequest("rede"))
    assert (found.hits, found.shards) == (Searcher(halves[:1]).search(SearchRequest("rede")).hits, [])
    write(data, [a_page("http://so.aqui.br/", "a rede daqui", "Daqui")])
    index.catch_up(data)
    found = searcher.search(SearchRequest("rede daqui"))
    assert found.hits[0].url == "http://so.aqui.br/"
    assert [report.trouble for report in found.shards] == ["", ""]
    path_of(data).write_text("nonsense")
    found = Searcher.over_changing_shards(data, lambda: others).search(SearchRequest("rede"))
    assert found.hits
    assert "nonsense" in str(found.shards[0].trouble), "what is damaged is not nothing"


def test_a_shard_that_is_known_to_be_away_is_named_whatever_it_is_asked(halves):
    missing = UnavailableShard("two", message("it is silent"))
    for name in METHODS:
        with pytest.raises(ShardUnavailable, match=r"^it is silent$"):
            getattr(missing, name)(*[None] * len(inspect.signature(getattr(Shard, name)).parameters))
    found = Searcher([halves[0], missing]).search(SearchRequest("rede"))
    assert found.hits
    assert found.shards[1] == ShardReport("two", message("it is silent"))


# -- merging ----------------------------------------------------------------------------------------------------------


def a_candidate(number: int, score: float) -> Candidate:
    return Candidate(score, number.to_bytes(16), 0, (0, number), None, None, None, 9, 0)


def a_block(*candidates: Candidate) -> CandidateBlock:
    return CandidateBlock(1, len(candidates), list(candidates))


@given(st.lists(st.lists(st.integers(0, 5), max_size=30), min_size=1, max_size=4), st.integers(1, 40))
def test_less_of_a_merged_answer_is_the_beginning_of_more(orders, limit):
    numbers = iter(range(1000))
    blocks = [a_block(*(a_candidate(next(numbers), float(n)) for n in sorted(some, reverse=True))) for some in orders]
    whole = merge_blocks(blocks, 1000)
    few = merge_blocks([CandidateBlock(1, block.total, block.candidates[:limit]) for block in blocks], limit)
    assert few == whole[:limit]
    assert [one.candidate.score for one in whole] == sorted((n for some in orders for n in some), reverse=True)


def test_within_a_block_scores_rank_and_ids_break_ties():
    block = [RankedCandidate(a_candidate(number, score), 0) for number, score in ((3, 1.0), (1, 1.0), (2, 5.0))]
    assert [int.from_bytes(one.candidate.id) for one in rank_block(block)] == [2, 1, 3]


def test_places_of_many_parts_lead_back_to_their_own(halves):
    joined = PartitionedShard("both", lambda: halves)
    question = SearchRequest("rede OR net")
    block = joined.top_matches(question, joined.statistics(question), 100)
    shown = joined.show(question, block.moment, [one.place for one in block.candidates])
    assert len({one.url for one in shown}) == len(shown) == 100
