"""Surveys: ranks and sums of the whole graph, old or new but never half, and taken up by whoever reads."""

import multiprocessing
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa import config
from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.config import Collection
from tarrafa.config.sections import NetworkConfig
from tarrafa.errors import DataError
from tarrafa.graph import rank_file, ranking_process, ranking_schedule
from tarrafa.graph.follower import GraphFollower, catch_up, follow, rebuild
from tarrafa.graph.graph_writer import open_writer
from tarrafa.graph.pagerank_on_disk import pagerank_on_disk
from tarrafa.graph.rank_file import RankFile
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.graph.ranking_schedule import RankingScheduler
from tarrafa.graph.reader import GraphReader
from tarrafa.graph.sites import SiteCounts, SiteLinkSummary, SitePaging, SiteReader
from tarrafa.graph.sites import path_of as path_of_sites
from tarrafa.model import CollectionNote, Link, RobotsMeta, VisitRecord
from tarrafa.parse.url import host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tests.graph.archived_web import (
    COLLECTION,
    FIRST_AT,
    a_record,
    graph_size,
    new_data,
    ranks_in,
    small_web,
    url_of,
    write,
)
from tests.graph.test_pagerank import densely
from tests.wait import block_until

A, B, C, D, E = (f"http://{name}.test/" for name in "abcde")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def surveyed(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> GraphReader:
    write(data, records, worker)
    catch_up(data, lambda collection, weights: None)
    assert compute_rankings(data) is not None
    return GraphReader(data)


def ranks_of(reader: GraphReader, *urls: str, collection: str | None = None) -> list[float]:
    found = ranks_in(reader, [url_id(url) for url in urls], collection)
    return [found[url_id(url)] for url in urls]


def by_hand(links: dict[str, list[str]]) -> dict[str, float]:
    """The ranks of these pages, and of those that they link to."""
    urls = sorted({*links, *(target for targets in links.values() for target in targets)})
    edges = {(urls.index(source), urls.index(target)) for source, targets in links.items() for target in targets}
    return dict(zip(urls, densely(len(urls), edges, [0] * len(urls)).tolist(), strict=True))


# -- which links count ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "counting"),
    [
        ([Link(B), Link(C)], [B, C]),
        ([Link(B, "um"), Link(B, "dois"), Link(C)], [B, C]),
        ([Link(A, "eu"), Link(B), Link(C)], [B, C]),
        ([Link(B), Link(C, rel="nofollow")], [B]),
        ([Link(B), Link(C, rel="ugc"), Link(B, rel="sponsored noopener")], [B]),
        ([Link(B, rel="nofollow"), Link(B), Link(C)], [B, C]),
    ],
)
def test_a_link_counts_once_if_its_author_vouches_for_it_and_it_leads_elsewhere(data, links, counting):
    reader = surveyed(data, a_record(A, links=links), a_record(B, links=[C, A]))
    expected = by_hand({A: counting, B: [C, A]} | ({} if C in counting else {C: []}))
    assert ranks_of(reader, A, B, C) == pytest.approx([expected[A], expected[B], expected[C]], rel=1e-5)


def test_a_page_that_says_nofollow_passes_nothing_on_and_a_redirect_does(data):
    quiet = a_record(A, links=[B], robots=RobotsMeta(nofollow=True))
    reader = surveyed(data, quiet, a_record(C, status=301, location=D), a_record(E, links=[C]))
    expected = by_hand({A: [], B: [], E: [C], C: [D]})
    assert ranks_of(reader, A, B, C, D, E) == pytest.approx([expected[url] for url in (A, B, C, D, E)], rel=1e-5)


def test_each_collection_is_a_world_of_its_own_with_the_mean_one(data):
    ways = {url_of(n): [url_of(m) for m in (0, n // 2)] for n in range(30)}
    other = [a_record(url, links=[A], collection="outra") for url in (B, C, D)]
    reader = surveyed(data, *(a_record(url, links=links) for url, links in ways.items()), *other)
    expected = by_hand(ways)
    assert ranks_of(reader, *expected) == pytest.approx(list(expected.values()), rel=1e-5)
    assert np.mean(ranks_of(reader, A, B, C, D)) == pytest.approx(1)
    again = surveyed(data, a_record(A, links=[D]), worker="w2")
    here, there = ranks_of(again, A, collection=COLLECTION), ranks_of(again, A, collection="outra")
    assert (ranks_of(again, A), here < there) == (there, True), "the highest where several know it"


# -- the file ---------------------------------------------------------------------------------------------------------


def test_whom_no_survey_has_seen_has_the_mean_and_who_is_unknown_has_nothing(data):
    write(data, [a_record(A, links=[B])])
    catch_up(data, lambda collection, weights: None)
    reader = GraphReader(data)
    assert ranks_in(reader, [url_id(A), url_id(B), url_id(C)]) == {url_id(A): 1.0, url_id(B): 1.0}
    compute_rankings(data)
    assert ranks_of(reader, A)[0] < 1 < ranks_of(reader, B)[0], "taken up by who was there before"
    write(data, [a_record(B, links=[C])], "w2")
    catch_up(data, lambda collection, weights: None)
    assert ranks_of(reader, C) == [1.0]
    assert ranks_in(reader, [url_id(A)], "another") == {}
    assert ranks_in(reader, []) == {}


@pytest.mark.parametrize(
    "content", [b"", b"TARRANK", b"TARRANK1" + b"\0" * 56, b"something else", b"TARRANK1" + b"\xff" * 500]
)
def test_a_file_that_is_none_of_ours_ranks_nobody(data, content):
    reader = surveyed(data, a_record(A, links=[B]))
    rank_file.path_of(data).write_bytes(content)
    assert ranks_of(reader, A, B) == [1.0, 1.0]
    assert compute_rankings(data) is not None
    assert ranks_of(reader, A, B) != [1.0, 1.0]


def test_a_file_that_was_cut_or_scribbled_on_is_read_as_far_as_it_makes_sense(data):
    reader = surveyed(data, a_record(A, links=[B]), a_record(B, links=[C]))
    whole = rank_file.path_of(data).read_bytes()
    before = ranks_of(reader, A, B, C)
    rank_file.path_of(data).unlink()
    rank_file.path_of(data).write_bytes(whole[:-5])
    assert ranks_of(reader, A, B, C) == [before[0], 1.0, 1.0]
    rank_file.path_of(data).unlink()
    nonsense = np.array([np.nan, np.inf, -5], np.float32).tobytes()
    rank_file.path_of(data).write_bytes(whole[: rank_file.HEADER_BYTES] + nonsense)
    assert ranks_of(reader, A, B, C) == [1.0, 1.0, 1.0]
    compute_rankings(data)
    assert ranks_of(reader, A, B, C) == pytest.approx(before)


def test_ranks_follow_a_graph_that_was_made_again(data):
    reader = surveyed(data, *small_web(60))
    urls = [url_of(number) for number in range(60)]
    before = ranks_of(reader, *urls)
    old = rank_file.path_of(data).read_bytes()
    rebuild(data)
    assert ranks_of(reader, *urls) == pytest.approx(before, rel=1e-5)
    rank_file.path_of(data).unlink()
    rank_file.path_of(data).write_bytes(old)
    assert ranks_of(reader, *urls) == [1.0] * 60, "its numbers were those of another making"


def test_a_graph_beyond_the_memory_is_ranked_on_disk_with_the_same_ranks(data, monkeypatch):
    reader = surveyed(data, *small_web(60), a_record(A, links=[B], collection="outra"))
    urls = [url_of(number) for number in range(60)]
    before, stated = ranks_of(reader, *urls), rank_file.read_header(data)
    host = SiteReader(data).host(url_of(0))
    rank_file.path_of(data).unlink()
    sweeps = []

    def on_disk(*arguments):
        found = pagerank_on_disk(*arguments)
        sweeps.append(found.sweeps)
        return found

    monkeypatch.setattr(ranking_process, "MEMORY_BYTES_MAX", 1_000)
    monkeypatch.setattr(ranking_process, "pagerank_on_disk", on_disk)
    again = compute_rankings(data)
    assert again is not None
    assert stated is not None
    assert (again.nodes, again.edges) == (stated.nodes, stated.edges)
    assert ranks_of(reader, *urls) == pytest.approx(before, rel=1e-6)
    now = SiteReader(data).host(url_of(0))
    assert host is not None
    assert now is not None
    assert now.rank == pytest.approx(host.rank, rel=1e-6)
    compute_rankings(data)
    assert len(sweeps) == 2
    assert sweeps[1] <= sweeps[0] / 2, "it starts from the ranks of before"
    assert ranks_of(reader, *urls) == pytest.approx(before, rel=1e-6)


def test_an_empty_graph_can_be_surveyed(data):
    with GraphFollower(data, lambda collection, weights: None):
        pass
    found = compute_rankings(data)
    assert found is not None
    assert (found.nodes, found.edges) == (0, 0)
    assert SiteReader(data).site("a.test") is None


# -- hosts and sites --------------------------------------------------------------------------------------------------

URLS = [f"http://{host}.{site}/{page}" for site in ("um.br", "dois.br") for host in ("a", "b") for page in range(2)]
some_records = st.lists(
    st.builds(
        a_record,
        st.sampled_from(URLS),
        st.integers(0, 4),
        links=st.lists(st.builds(Link, st.sampled_from(URLS), rel=st.sampled_from(["", "", "nofollow"])), max_size=8),
        status=st.sampled_from([200, 200, 404, 500, -11]),
        collection=st.sampled_from(["c1", "c2"]),
    ),
    max_size=15,
)


def site_name(url: str) -> str:
    return ".".join(url.split("/")[2].split(".")[1:])


@given(some_records, st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_sums_of_hosts_and_sites_are_what_the_links_say_in_pieces_of_any_size(tmp_path_factory, records, piece):
    data = new_data(tmp_path_factory.mktemp("any"))
    write(data, records)
    catch_up(data, lambda collection, weights: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking_process, "LINKS_PER_READ", piece)
        patch.setattr(ranking_process, "PAIRS_WAITING_MAX", piece)
        patch.setattr(ranking_process, "MEMORY_BYTES_MAX", 1_000 if piece % 2 else 1 << 20)
        compute_rankings(data)
    graph, sites = GraphReader(data), SiteReader(data)
    for name in ("c1", "c2"):
        known = {url for url in URLS if graph.node(url, name) is not None}
        pairs = {(url, found.url) for url in known for found in graph.outgoing(url, name)[0]}
        links = {(edge, url) for edge, url in pairs if edge != url}
        for label, part, find in (("key", host_key, sites.host), ("name", site_name, sites.site)):
            between = Counter((part(a), part(b)) for a, b in links if part(a) != part(b))
            for one in {part(url) for url in URLS}:
                found = find(one, name)
                own = {url for url in known if part(url) == one}
                if not own:
                    assert found is None
                    continue
                assert found is not None, label
                assert {other.name: other.links for other in found.outgoing} == {
                    b: count for (a, b), count in between.items() if a == one
                }
                assert {other.name: other.links for other in found.incoming} == {
                    a: count for (a, b), count in between.items() if b == one
                }
                _check_figures(graph, found, own, name)


def _check_figures(graph: GraphReader, found: SiteLinkSummary, own: set[str], collection: str) -> None:
    statuses = [graph.node(url, collection).status for url in own]  # type: ignore[union-attr]
    assert found.known == len(own)
    assert found.visited == sum(status is not None for status in statuses)
    assert found.fetched == sum(status == 200 for status in statuses)
    assert found.statuses == dict(Counter(str(status) for status in statuses if status is not None))
    assert found.rank == pytest.approx(sum(ranks_of(graph, *own, collection=collection)), rel=1e-5)
    if found.kind == "site":
        assert {host.host for host in found.hosts} == {host_key(url) for url in own}
        assert found.hosts_total == len(found.hosts)
        assert sum(host.known for host in found.hosts) == found.known


def test_lists_come_in_pages_the_most_linked_first_and_totals_are_exact(data):
    records = [
        a_record(f"http://s{n}.test/", links=[f"http://big.test/{page}" for page in range(n % 5 + 1)])
        for n in range(25)
    ]
    surveyed(data, *records)
    reader = SiteReader(data)
    whole = reader.site("big.test")
    assert whole is not None
    assert [one.links for one in whole.incoming] == sorted((one.links for one in whole.incoming), reverse=True)
    parts = [reader.site("big.test", paging=SitePaging(10, in_offset=offset)) for offset in (0, 10, 20, 30)]
    assert [one.name for part in parts if part for one in part.incoming] == [one.name for one in whole.incoming]
    assert {part.in_total for part in parts if part} == {25}
    assert reader.site("big.test", paging=SitePaging(-5, -5, -5, -5)).incoming == []  # type: ignore[union-attr]


def test_a_site_that_several_collections_know_is_told_by_the_one_that_knows_most(data):
    records = [a_record(f"http://s.test/{n}", links=[A], collection="outra") for n in range(5)]
    surveyed(data, a_record("http://s.test/", links=[A]), *records)
    reader = SiteReader(data)
    found = reader.site("s.test")
    assert found is not None
    counts = [SiteCounts("outra", 5, 5, 5), SiteCounts(COLLECTION, 1, 1, 1)]
    assert (found.collection, found.collections, found.known) == ("outra", counts, 5)
    assert reader.site("s.test", COLLECTION).known == 1  # type: ignore[union-attr]
    assert reader.site("s.test", "nobody") is None


@pytest.mark.parametrize("name", ["", " ", "a b", "http://", "x" * 5_000, "[::1", "%00", "a.test/../x", "é" * 300])
def test_names_that_are_none_are_not_found(data, name):
    surveyed(data, a_record(A, links=[B]))
    assert SiteReader(data).site(name) is None or "/" in name
    assert SiteReader(data).host(name) is None or "/" in name


@pytest.mark.parametrize("name", ["a.test", "A.Test", "http://a.test", "http://a.test:80/", "http://a.test/some/page"])
def test_a_host_is_found_by_name_and_by_url(data, name):
    surveyed(data, a_record(A, links=[B, "https://a.test/"]), a_record(f"{A}2", links=[B]))
    found = SiteReader(data).host(name)
    assert found is not None
    assert (found.name, found.site, found.known) == ("http://a.test:80", "a.test", 2)


def test_suffixes_of_a_collection_say_where_its_sites_end(data):
    collection = Collection(name=COLLECTION, roots=(A,), network=NetworkConfig(suffixes=("br.test",)))
    writer = WarcWriter(data.archive, "w1", FIRST_AT)
    writer.append_note(CollectionNote(COLLECTION, 1, msgspec.Raw(config.encode_collection(collection))), FIRST_AT)
    writer.append_note(CollectionNote("strange", 1, msgspec.Raw(b'{"network": 5}')), FIRST_AT)
    for record in small_web(40):
        writer.append(record, None)
    writer.close()
    catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    found = SiteReader(data).site("h1.br.test")
    assert found is not None
    assert found.hosts_total == 1
    assert SiteReader(data).site("br.test") is None
    rebuild(data)
    assert SiteReader(data).site("h1.br.test") is not None


def test_without_a_survey_one_line_says_so(data):
    write(data, [a_record(A, links=[B])])
    catch_up(data, lambda collection, weights: None)
    with pytest.raises(DataError, match="no ranking of the sites yet"):
        SiteReader(data).site("a.test")
    path_of_sites(data).write_bytes(b"no database at all")
    with pytest.raises(DataError, match="tarrafa rebuild graph"):
        SiteReader(data).site("a.test")


# -- when -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turned", "idle_s", "since_s", "took_s", "due"),
    [
        (1_000, 100.0, 1e6, 1.0, False),  # nothing is new
        (1_001, 0.0, 100.0, 1.0, False),  # little is
        (1_001, 0.0, 599.0, 1.0, False),
        (1_001, 0.0, 601.0, 1.0, True),
        (1_100, 0.0, 21.0, 1.0, True),  # a tenth is
        (1_100, 0.0, 19.0, 1.0, False),
        (1_100, 0.0, 199.0, 10.0, False),
        (1_100, 0.0, 201.0, 10.0, True),
        (1_001, 5.0, 21.0, 1.0, True),  # nothing else to do
        (1_001, 5.0, 9.0, 0.01, False),
        (1_001, 5.0, 11.0, 0.01, True),
        (9_999, 0.0, 1e6, 1e5, False),  # whatever happens, a twentieth of the time
    ],
)
def test_it_is_time_when_enough_is_new_and_never_all_the_time(data, turned, idle_s, since_s, took_s, due):
    data.graph.mkdir(exist_ok=True)
    rank_file.write_ranks(data, rank_file.RankFileHeader(7, 1_000, 100, 900, 0.0, took_s), b"")
    mine = RankingScheduler(data, 7)
    mine._begun = mine._ended = 5_000.0
    assert mine.is_due(turned, idle_s, 5_000.0 + since_s) is due
    assert RankingScheduler(data, 8).covered == 0, "of another making of the graph"


def test_the_follower_has_the_graph_surveyed_when_nothing_else_is_to_do_and_goes_on(data, monkeypatch):
    monkeypatch.setattr(ranking_schedule, "IDLE_S", 0.1)
    monkeypatch.setattr(ranking_schedule, "SMALL_TURNED_MAX", -1)
    stop, heard = threading.Event(), threading.Event()
    write(data, small_web(50))

    def run() -> None:
        follow(data, lambda collection, weights: heard.set(), stop)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert heard.wait(30)
        block_until(lambda: rank_file.read_header(data) is not None)
    finally:
        stop.set()
        thread.join(30)
    found = rank_file.read_header(data)
    assert found is not None
    assert found.nodes == graph_size(data)[0]


def test_a_follower_that_ends_leaves_a_small_graph_surveyed_and_a_large_one_for_the_next(data, monkeypatch):
    write(data, small_web(50))
    with GraphFollower(data, lambda collection, weights: None) as follower:
        follower.read()
        mine = RankingScheduler(data, follower.incarnation)
        monkeypatch.setattr(ranking_schedule, "SMALL_TURNED_MAX", 10)
        mine.close(follower.turned)
        assert rank_file.read_header(data) is None
        monkeypatch.undo()
        mine.close(follower.turned)
        assert mine.covered == follower.turned


def test_a_visit_that_changes_a_status_and_no_link_makes_the_sums_of_its_site_outdated(data):
    surveyed(data, a_record(A, links=[B]))
    assert SiteReader(data).site("b.test").visited == 0  # type: ignore[union-attr]
    write(data, [a_record(B, status=404)], "w2")
    with GraphFollower(data, lambda collection, weights: None) as follower:
        follower.read()
        mine = RankingScheduler(data, follower.incarnation)
        assert follower.turned > mine.covered
        mine.close(follower.turned)
    assert SiteReader(data).site("b.test").visited == 1  # type: ignore[union-attr]
    write(data, [a_record(B, 2, status=404)], "w3")
    with GraphFollower(data, lambda collection, weights: None) as follower:
        follower.read()
        assert follower.turned == RankingScheduler(data, follower.incarnation).covered, "the sums are the same"


# -- killed at any moment ---------------------------------------------------------------------------------------------


def _die_while_surveying(data: DataDirectory, after_s: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, after_s)
    while True:
        compute_rankings(data)


def test_killed_at_random_moments_it_leaves_what_was_there_or_what_is_new(data):
    reader = surveyed(data, *small_web(80))
    urls = [url_of(number) for number in range(80)]
    expected, sites = ranks_of(reader, *urls), SiteReader(data)
    known = sites.site("br.test").known  # type: ignore[union-attr]
    rng, started = random.Random(3), multiprocessing.get_context("fork")
    for _ in range(20):
        child = started.Process(target=_die_while_surveying, args=(data, rng.uniform(0.002, 0.04)))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGALRM
        assert ranks_of(GraphReader(data), *urls) == pytest.approx(expected, rel=1e-5)
        assert SiteReader(data).site("br.test").known == known  # type: ignore[union-attr]
    assert compute_rankings(data) is not None
    assert not list(data.graph.glob("*.new*"))


def test_a_survey_dies_with_the_follower_that_started_it(data):
    surveyed(data, *small_web(20))
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    orphan = subprocess.run(
        [sys.executable, "-m", "tarrafa.graph.ranking_process", "--data", str(data.root), "--parent", str(parent.pid)],
        capture_output=True,
        timeout=60,
    )
    parent.communicate(b"\n")
    assert orphan.returncode == 75, "its parent was gone when it looked"


def test_two_surveys_at_once_are_one(data):
    surveyed(data, a_record(A, links=[B]))
    lock = try_lock(data.graph / "survey.lock")
    assert lock is not None
    with lock:
        assert compute_rankings(data) is None
    assert compute_rankings(data) is not None


# -- deleted collections ----------------------------------------------------------------------------------------------


LINKED = {"um": {A: [B, C], B: [A]}, "dois": {A: [C], C: [D, A], D: [B]}, "tres": {E: [A], A: [E, D]}}


@pytest.mark.parametrize("gone", [["um"], ["dois"], ["tres"], ["um", "dois"], ["um", "tres"], list(LINKED)])
def test_what_is_left_when_collections_are_deleted_is_ranked_as_if_they_had_never_been(tmp_path, gone):
    """Their numbers are not used again: there are holes among the nodes, in front, between and behind."""
    records = {
        name: [a_record(url, links=links, collection=name) for url, links in pages.items()]
        for name, pages in LINKED.items()
    }
    late = a_record(C, links=[A, B, D], collection="depois", at=FIRST_AT + 2)
    data, other = new_data(tmp_path / "data"), new_data(tmp_path / "other")
    surveyed(data, *chain.from_iterable(records.values()))
    record_deletions(data.archive, dict.fromkeys(gone, FIRST_AT + 1), FIRST_AT + 1)
    left = [name for name in LINKED if name not in gone]
    after = surveyed(data, late, worker="w2")
    never = surveyed(other, *chain.from_iterable(records[name] for name in left), late)
    for name in (*left, "depois"):
        urls = {url for pages in (LINKED | {"depois": {C: [A, B, D]}})[name].items() for url in (pages[0], *pages[1])}
        found, wanted = (ranks_of(reader, *sorted(urls), collection=name) for reader in (after, never))
        assert found == pytest.approx(wanted, rel=1e-5)
    assert set(map(repr, SiteReader(data).hosts(99))) == set(map(repr, SiteReader(other).hosts(99)))
    stated = [RankFile.open(one, GraphReader(one).incarnation()).stated for one in (data, other)]
    assert len({one.nodes for one in stated if one is not None}) == 1


def test_a_link_of_a_node_that_is_not_there_is_told(data):
    surveyed(data, a_record(A, links=[B]), a_record(C, links=[D]))
    with closing(open_writer(data)) as connection:
        connection.execute("DELETE FROM nodes WHERE url = ?", (B,))
    with pytest.raises(DataError, match="a link of a node that is not there"):
        compute_rankings(data)
