"""Pages that say the same are one hit: none is shown twice, none is lost, and all can be seen."""

import json
import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tarrafa.cli import output, search
from tarrafa.cli.app import app
from tarrafa.errors import DataError
from tarrafa.index import follower as index
from tarrafa.model import Hit, Link, SearchResult, VisitRecord
from tarrafa.parse.fingerprint import fold, simhash
from tarrafa.search import scatter_gather
from tarrafa.search.duplicates_and_site_diversity import COMPARED_MAX, NEAR_BITS, Deduplicator, RankedCandidate
from tarrafa.search.request import Candidate
from tarrafa.search.searcher import exact_copies
from tests.conformance_data import CONFORMANCE_DIR, requires_data
from tests.graph.archived_web import COLLECTION, new_data, write
from tests.search.sample_pages import LONG, Asker, a_page, fill, set_block

A, B, C, D = (f"http://{name}.test/" for name in "abcd")
NEAR = LONG.replace("redonda", "quadrada", 1)  # one word of a hundred and fifty
REAL = "relevance/pira-pt/docs.jsonl"


@pytest.fixture
def data(tmp_path):
    return new_data(tmp_path / "data")


def found(result: SearchResult) -> list[tuple[str, int]]:
    return [(hit.url, hit.copies) for hit in result.hits]


def hamming_distance(one: int, other: int) -> int:
    """The number of bits in which two simhashes differ."""
    return (one ^ other).bit_count()


def urls(result: SearchResult) -> list[str]:
    return [hit.url for hit in result.hits]


# -- what a copy is ---------------------------------------------------------------------------------------------------


def test_exact_copies_are_one_hit_that_says_how_many(data):
    ask = fill(
        data,
        a_page(A, "Rede de pesca"),
        a_page(f"{B}?", "<REDE> de... pésca"),
        a_page(f"{C}longe", "rede\nde pesca"),
        a_page(D, "outra rede"),
    ).search
    result = ask("rede")
    assert sorted(found(result)) == [(A, 2), (D, 0)]
    assert result.total == 2


def test_near_copies_of_a_long_text_are_one_hit(data):
    ask = fill(data, a_page(A, LONG, "Rede"), a_page(B, NEAR, "Rede"), a_page(C, "uma rede de outra espécie")).search
    assert 0 < hamming_distance(simhash(fold(f"Rede\n{LONG}")), simhash(fold(f"Rede\n{NEAR}"))) <= NEAR_BITS
    assert sorted(found(ask("rede"))) == [(A, 1), (C, 0)]


def test_near_copies_with_another_title_are_pages_of_their_own(data):
    ask = fill(data, a_page(A, LONG, "Rede de abril"), a_page(B, NEAR, "Rede de maio")).search
    assert sorted(found(ask("rede"))) == [(A, 0), (B, 0)]


def test_in_a_short_text_one_word_is_a_difference(data):
    words = LONG.split()[:99]
    variants = [" ".join([*words[:place], "outra", *words[place + 1 :]]) for place in range(99)]
    own = simhash(fold(" ".join(words)))
    near = next(text for text in variants if hamming_distance(own, simhash(fold(text))) <= NEAR_BITS)
    ask = fill(data, a_page(A, " ".join(words)), a_page(B, near), a_page(f"{C}longe", near)).search
    assert sorted(found(ask("rede"))) == [(A, 0), (B, 1)]


def test_pages_without_words_are_like_no_other(data):
    ask = fill(data, a_page(A, "", "..."), a_page(B, "", "...")).search
    assert sorted(found(ask("site:test"))) == [(A, 0), (B, 0)]


def test_a_url_that_two_collections_hold_is_one_hit_and_no_copy(data):
    ask = fill(
        data,
        a_page(A, "rede azul"),
        a_page(A, "rede azul", collection="outra"),
        a_page(A, "rede verde", visit=2, collection="terceira"),
        a_page(B, "rede azul", collection="outra"),
    ).search
    assert found(ask("azul")) == [(A, 1)]
    assert found(ask("azul", collection="outra")) == [(A, 1)]
    assert found(ask("azul", collection=COLLECTION)) == [(A, 0)]
    assert (urls(ask("rede", copies=True)), ask("rede", copies=True).total) == ([A, B], 2)


def test_a_copy_that_changes_is_a_page_of_its_own_again(data):
    assert found(fill(data, a_page(A, "rede azul"), a_page(B, "rede azul")).search("rede")) == [(A, 1)]
    ask = fill(data, a_page(B, "rede verde e nova", visit=2), worker="w2").search
    assert sorted(found(ask("rede"))) == [(A, 0), (B, 0)]


@requires_data(REAL)
def test_no_two_real_texts_are_taken_for_copies_and_most_slightly_changed_ones_are():
    texts = [json.loads(line)["text"].split() for line in (CONFORMANCE_DIR / REAL).read_text().splitlines()]
    hashes = [simhash(fold(" ".join(words))) for words in texts]
    pairs = [hamming_distance(one, other) for place, one in enumerate(hashes) for other in hashes[:place]]
    assert len(pairs) > 40_000
    assert min(pairs) > 4 * NEAR_BITS
    rng = random.Random(3)
    long = [words for words in texts if len(words) >= 350]
    assert len(long) > 60
    near = []
    for words in long:
        changed = words.copy()
        for place in rng.sample(range(len(words)), 2):
            changed[place] = rng.choice(rng.choice(texts))
        near.append(hamming_distance(simhash(fold(" ".join(words))), simhash(fold(" ".join(changed)))) <= NEAR_BITS)
    assert sum(near) / len(near) > 0.7


# -- the canonical URL ------------------------------------------------------------------------------------------------

OTHER = " ".join(sorted(LONG.split(), key=lambda word: word[::-1]))  # the same words, and no pair of them


def naming(canonical: str, record: VisitRecord) -> VisitRecord:
    assert record.page is not None
    return msgspec.structs.replace(record, page=msgspec.structs.replace(record.page, canonical=canonical))


def test_pages_of_a_site_that_name_one_canonical_url_are_one_hit_which_is_the_canonical_page(data):
    ask = fill(
        data,
        naming(f"{A}longe", a_page(f"{A}x", "rede azul rede")),
        naming(f"{A}longe", a_page(f"{A}y", "rede verde rede")),
        naming(f"{A}longe", a_page(f"{A}longe", "rede de toda cor e de muita gente")),
        a_page(f"{A}z", "rede só"),
    ).search
    assert sorted(found(ask("rede"))) == [(f"{A}longe", 2), (f"{A}z", 0)]
    assert sorted(urls(ask("rede", like=f"{A}x"))) == [f"{A}longe", f"{A}x", f"{A}y"]
    assert len(ask("rede", copies=True).hits) == 4, "no page is dropped"


def test_pages_that_name_a_canonical_url_that_is_not_there_are_one_hit(data):
    ask = fill(data, *(naming(f"{A}nada", a_page(f"{A}{name}", f"rede {name}")) for name in ("verde", "azul"))).search
    assert found(ask("rede")) == [(f"{A}azul", 1)]


def test_a_copy_elsewhere_that_names_the_original_joins_it(data):
    ask = fill(
        data, naming(f"{B}original", a_page(A, LONG, "Rede, copiada")), a_page(f"{B}original", NEAR, "Rede")
    ).search
    assert found(ask("rede")) == [(f"{B}original", 1)]


def test_a_page_of_another_text_that_names_a_foreign_url_hides_neither_itself_nor_that_page(data):
    ask = fill(
        data, naming(B, a_page(A, OTHER, "Rede à venda")), a_page(B, LONG, "Rede"), naming(B, a_page(C, "rede curta"))
    ).search
    assert sorted(found(ask("rede"))) == [(A, 0), (B, 0), (C, 0)]


def test_nobody_makes_a_copy_the_face_of_someone_elses_page(data):
    """B copies A, and its friend C names B as the canonical page of that text."""
    ask = fill(
        data, a_page(A, LONG, "Rede"), a_page(f"{B}longe", LONG, "Rede"), naming(f"{B}longe", a_page(f"{C}longe", LONG))
    ).search
    assert found(ask("rede")) == [(A, 2)]


def test_a_site_whose_pages_all_name_its_home_page_keeps_its_pages(data):
    ask = fill(data, a_page(A, LONG, "Rede"), naming(A, a_page(f"{A}outra", OTHER, "Outra rede"))).search
    assert sorted(found(ask("rede"))) == [(A, 0), (f"{A}outra", 0)]


# -- who stands for the others ----------------------------------------------------------------------------------------


def test_of_equal_copies_the_shortest_url_is_shown(data):
    ask = fill(data, *(a_page(f"{A}{'x' * length}", "rede") for length in (9, 3, 5))).search
    assert found(ask("rede")) == [(f"{A}xxx", 2)]


def test_a_copy_that_is_linked_to_stands_before_a_shorter_one_that_is_not(data):
    ask = fill(data, a_page(A, "rede"), a_page(f"{B}longe", "rede"), a_page(C, "x", links=(Link(f"{B}longe"),))).search
    assert [(hit.url, hit.in_links, hit.copies) for hit in ask("rede").hits] == [(f"{B}longe", 1, 1)]


def test_the_one_shown_has_the_place_and_the_score_of_the_best(data):
    many = [Link(f"{B}longe"), Link(f"{B}perto")]
    sources = [a_page(f"{D}{n}", f"x{n}", links=tuple(many[: 2 if n else 1])) for n in range(40)]
    ask = fill(data, a_page(f"{B}longe", "rede"), a_page(f"{B}perto", "rede"), a_page(C, "rede rio"), *sources).search
    apart = ask("rede", copies=True)
    assert urls(apart) == [f"{B}longe", f"{B}perto", C], "one link more is a hair's breadth"
    fill(data, a_page(A, "rede", links=()), worker="w2")
    joined = ask("rede")
    assert found(joined) == [(f"{B}longe", 2), (C, 0)]
    assert joined.hits[0].score == max(hit.score for hit in ask("rede", copies=True).hits)


# -- pages of results -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """60 texts, the first of them 50 times, some twice, most once: 129 pages."""
    data = new_data(tmp_path_factory.mktemp("crowd") / "data")
    rng, records = random.Random(4), []
    for number in range(60):
        text = f"rede {'mar ' * rng.randrange(9)} palavra{number}"
        for copy in range(50 if number == 0 else 1 + number % 3 // 2):
            records.append(a_page(f"http://h{copy}.test/{number}", text))
    rng.shuffle(records)
    for part in range(3):  # several segments
        write(data, records[part::3], f"w{part}")
        index.catch_up(data)
    return data


TEXTS, PAGES = 60, 129


@pytest.mark.parametrize("block", [5, 20, 100])
@pytest.mark.parametrize("n", [3, 10, 100])
@pytest.mark.parametrize("question", ["rede", "site:test"])
def test_pages_of_results_follow_each_other_and_show_every_text_once(crowd, monkeypatch, block, n, question):
    set_block(monkeypatch, block)
    ask = Asker(crowd).search
    pages = [ask(question, n=n, offset=offset) for offset in range(0, TEXTS + n, n)]
    shown = [url.rpartition("/")[2] for page in pages for url in urls(page)]
    assert sorted(shown, key=int) == [str(number) for number in range(TEXTS)]
    assert pages[-1].total == TEXTS
    totals = [page.total for page in pages]
    assert PAGES >= totals[0] >= TEXTS
    assert totals == sorted(totals, reverse=True), "the more is known, the fewer"
    assert urls(ask(question, n=5, offset=8)) == urls(ask(question, n=50))[8:13]
    whole = ask(question, n=100)
    assert len(whole.hits) + sum(hit.copies for hit in whole.hits) == PAGES


def test_with_copies_every_page_is_a_hit(crowd):
    ask = Asker(crowd).search
    pages = [ask("rede", n=50, offset=offset, copies=True) for offset in (0, 50, 100)]
    shown = [hit for page in pages for hit in page.hits]
    assert len(shown) == len({hit.url for hit in shown}) == pages[0].total == pages[2].total == PAGES
    assert {hit.copies for hit in shown} == {0}


def test_like_a_url_are_its_page_and_its_copies(crowd):
    ask = Asker(crowd).search
    [hit] = [hit for hit in ask("rede", n=100).hits if hit.copies == 49]
    alike = [ask("rede", n=30, offset=offset, like=hit.url) for offset in (0, 30)]
    shown = [one.url for page in alike for one in page.hits]
    assert shown[0] == hit.url
    assert sorted(shown) == sorted(f"http://h{copy}.test/0" for copy in range(50))
    assert [page.total for page in alike] == [50, 50]
    assert set(urls(ask("rede", n=100, like="http://H31.test:80/0"))) == set(shown), "any of them will do"
    assert ask("rede", like="http://nowhere.test/").hits == []
    assert ask("palavra7", like=hit.url).hits == []


def test_however_many_copies_there_are_the_look_has_an_end_and_the_total_says_so(crowd, monkeypatch):
    set_block(monkeypatch, 10)
    monkeypatch.setattr(scatter_gather, "MATCHES_MAX", 40)
    result = Asker(crowd).search("+palavra0 rede")
    assert [hit.copies for hit in result.hits] == [39]
    assert result.total == 1
    assert Asker(crowd).search("palavra0", offset=10).total == 1


# -- the same, by chance ----------------------------------------------------------------------------------------------

SIMHASHES = st.lists(
    st.sampled_from([None, 0, 1, 7, 15, 1 << 63, (1 << 63) + 3, (1 << 64) - 1, (1 << 64) - 8]), min_size=6
)
DRAWN = st.tuples(
    st.none() | st.integers(0, 5),  # content
    st.integers(0, 30),  # URL
    st.integers(10, 12),  # its length
    st.integers(0, 2),  # in-links
    st.sampled_from([0.0, 0.1, 3.0]),  # how much worse than the one before
)


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def a_candidate(
    score: float,
    key: bytes,
    in_links: int,
    place: int,
    content: int | None,
    near: int | None,
    headline: int,
    length: int,
) -> Candidate:
    return Candidate(score, key, in_links, (0, place), content, near, headline, length, 0)


def _pages(simhashes: list[int | None], drawn: list[tuple[int | None, int, int, int, float]]) -> list[RankedCandidate]:
    """Few contents, titles and URLs, so that they meet; as in life, the same content has the same simhash."""
    made, score = [], 100.0
    for place, (content, key, length, in_links, worse) in enumerate(drawn):
        score -= worse
        bits = None if content is None else simhashes[content]
        near, headline = None if bits is None else signed(bits), (content or 0) % 2
        identity = key.to_bytes(16, "big")
        made.append(RankedCandidate(a_candidate(score, identity, in_links, place, content, near, headline, length), 0))
    return made


def pages() -> st.SearchStrategy[list[RankedCandidate]]:
    return st.builds(_pages, SIMHASHES, st.lists(DRAWN, max_size=33))


def in_groups(some: list[RankedCandidate], block: int, apart: bool = False) -> Deduplicator:
    groups = Deduplicator(apart)
    for start in range(0, len(some), block):
        groups.add(some[start : start + block])
    return groups


@given(pages(), st.integers(1, 50))
@settings(deadline=None)
def test_every_page_is_in_one_group_and_no_two_groups_hold_exact_copies(some, block):
    groups = in_groups(some, block)
    keys = [one.candidate.id for group in groups.all for one in group]
    assert len(keys) == len(set(keys))
    assert set(keys) == {one.candidate.id for one in some}
    assert groups.looked == len(some)
    contents = [{one.candidate.content for one in group} - {None} for group in groups.all]
    assert sum(map(len, contents)) == len(set().union(*contents)), "a content in two groups"
    for group in groups.all:
        if any(one.candidate.content is None for one in group):
            assert len(group) == 1
        for one in group:
            assert groups.group_of(one.candidate.id) is group
    assert len(in_groups(some, block, apart=True).all) == len(keys)


@given(pages(), st.integers(1, 10), st.integers(1, 10))
@settings(deadline=None)
def test_what_comes_later_changes_neither_place_nor_face_of_what_came_before(some, block, blocks):
    early, late = in_groups(some[: block * blocks], block), in_groups(some, block)
    assert [group[0] for group in early.all] == [group[0] for group in late.all[: len(early.all)]]
    for before, after in zip(early.all, late.all, strict=False):
        assert before == after[: len(before)]


@given(pages())
@settings(deadline=None)
def test_pages_are_joined_only_if_equal_or_near_the_best_of_their_group(some):
    for group in in_groups(some, len(some) or 1).all:
        assert group[0].candidate.score == max(one.candidate.score for one in group)
        heads = [one.candidate for one in group]
        assert any(all(_same(best, other) for other in heads) for best in heads)


def _same(one: Candidate, other: Candidate) -> bool:
    if one.content == other.content:
        return True
    if one.simhash is None or other.simhash is None or one.headline != other.headline:
        return False
    return hamming_distance(one.simhash & (1 << 64) - 1, other.simhash & (1 << 64) - 1) <= NEAR_BITS


def test_a_title_that_a_whole_site_has_costs_a_bounded_number_of_comparisons():
    rng = random.Random(6)
    some = [
        RankedCandidate(a_candidate(1.0, n.to_bytes(16, "big"), 0, n, n, signed(rng.getrandbits(64)), 7, 20), 0)
        for n in range(COMPARED_MAX * 3)
    ]
    twin = msgspec.structs.replace(some[-2].candidate, score=0.9, id=b"t" * 16, content=-1)
    late = msgspec.structs.replace(some[0].candidate, score=0.8, id=b"l" * 16, content=-2)
    groups = in_groups([*some, RankedCandidate(twin, 0), RankedCandidate(late, 0)], 1000)
    assert len(groups.all) == COMPARED_MAX * 3 + 1, "beside its original it is found, far below it is not"


# -- the doors --------------------------------------------------------------------------------------------------------


def test_exact_copies_of_a_url_can_be_asked_for_without_a_search(data):
    fill(
        data,
        a_page(f"{A}1", LONG),
        a_page(f"{B}longe", LONG),
        a_page(C, LONG),
        a_page(D, NEAR),
        a_page(f"{D}x", LONG, collection="outra"),
        a_page(C, LONG, collection="outra"),
        a_page(f"{A}vazia", ""),
        a_page(f"{B}vazia", ""),
    )
    assert exact_copies(data, "http://A.test:80/1", None) == [C, f"{D}x", f"{B}longe"]
    assert exact_copies(data, f"{A}1", None, limit=1) == [C]
    assert exact_copies(data, f"{A}1", COLLECTION) == [C, f"{B}longe"]
    assert exact_copies(data, C, "outra") == [f"{D}x"]
    for alone in (D, f"{A}vazia", "http://nowhere.test/", "no url"):
        assert exact_copies(data, alone, None) == []
    assert exact_copies(data, f"{A}1", None, limit=0) == []


def test_where_nothing_is_indexed_there_are_no_copies(data):
    assert exact_copies(data, A, None) == []
    with pytest.raises(DataError, match="nothing indexed yet"):
        Asker(data).search("rede", like=A)


def test_the_command_line_shows_copies_when_asked(data):
    fill(data, a_page(A, "rede"), a_page(B, "rede"))
    told = [
        json.loads(CliRunner().invoke(app, ["search", "rede", "--json", "--data", str(data.root), *more]).stdout)
        for more in ([], ["--copies"])
    ]
    assert [[(hit["url"], hit["copies"]) for hit in one["hits"]] for one in told] == [[(A, 1)], [(A, 0), (B, 0)]]


@pytest.mark.parametrize(("copies", "said"), [(0, "pt\n"), (1, "pt · and 1 copy\n"), (1234, "pt · and 1,234 copies\n")])
def test_a_terminal_says_for_how_many_a_hit_stands(capsys, monkeypatch, copies, said):
    monkeypatch.setattr(output.console, "_file", None)
    search.print_hits(
        SearchResult("rede", 1, 0.001, [Hit(A, "t", "s", 1.0, 2, "2026-09-21", "pt", copies)], None, []), 0
    )
    assert said in capsys.readouterr().out
