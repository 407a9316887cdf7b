"""The link graph: exact links and counts whatever the order, depths that fall, a frontier that is told."""

import multiprocessing
import os
import random
import signal
import threading
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError, DiskFull
from tarrafa.frontier.messages import UrlWeight
from tarrafa.graph import follower
from tarrafa.graph.follower import GraphFollower, behind, catch_up, cursor, follow, rebuild
from tarrafa.graph.graph_writer import GraphWriter, open_reader, out_edges, path_of
from tarrafa.graph.reader import GraphReader
from tarrafa.model import Link, LinkedPage, RobotsMeta
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tests.graph.archived_web import COLLECTION, a_record, graph_size, in_links_in, new_data, small_web, url_of, write

A, B, C, D = (f"http://{name}.test/" for name in "abcd")


class ReceivedWeights:
    """A frontier's end of the wire: what it was told, in absolute values."""

    def __init__(self) -> None:
        self.weights: dict[tuple[str, bytes], UrlWeight] = {}
        self.depths: dict[tuple[str, bytes], int] = {}
        self.calls = 0

    def __call__(self, collection: str, weights: list[UrlWeight]) -> None:
        self.calls += 1
        for weight in weights:
            self.weights[collection, weight.id] = weight
            if weight.depth >= 0:
                self.depths[collection, weight.id] = weight.depth

    def in_links(self, url: str, collection: str = COLLECTION) -> int:
        return self.weights[collection, url_id(url)].in_links

    def depth(self, url: str) -> int | None:
        return self.depths.get((COLLECTION, url_id(url)))


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


@pytest.fixture
def told() -> ReceivedWeights:
    return ReceivedWeights()


def contents(data: DataDirectory) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], tuple[int, int]]:
    """All that the graph says, without the numbers that depend on history."""
    connection = open_reader(data)
    nodes = rows(
        connection,
        """SELECT c.name, n.url, n.id, n.host, n.depth, n.in_links, n.visit, n.status, n.visited_at, n.title
           FROM nodes n JOIN collections c USING (collection) ORDER BY c.name, n.url""",
    )
    edges = rows(
        connection,
        """SELECT s.collection, s.url, e.n, d.url, e.anchor, e.rel, e.hops FROM edges e
           JOIN nodes s ON s.node = e.src JOIN nodes d ON d.node = e.dst ORDER BY 1, 2, 3""",
    )
    connection.close()
    return nodes, edges, graph_size(data)


def depths(data: DataDirectory) -> dict[str, int | None]:
    return {str(node[1]): node[4] for node in contents(data)[0]}  # type: ignore[misc]


def test_links_are_known_from_both_ends_with_anchor_and_rel_even_of_pages_never_fetched(data, told):
    write(data, [a_record(A, links=[Link(B, "veja B", "nofollow"), Link(C, "C")], title="A"), a_record(B, links=[C])])
    assert catch_up(data, told) == 2
    reader = GraphReader(data)
    found = reader.neighbours(C)
    assert found.incoming == [LinkedPage(A, "C"), LinkedPage(B, "")]
    assert (found.in_total, found.out_total) == (2, 0)
    assert reader.neighbours(A).outgoing == [LinkedPage(B, "veja B", "nofollow"), LinkedPage(C, "C")]
    node = reader.node(A)
    assert node is not None
    assert (node.title, node.status, node.visit, node.in_links) == ("A", 200, 1, 0)
    never = reader.node(C)
    assert never is not None
    assert (never.status, never.visit, never.in_links) == (None, -1, 2)
    assert reader.node(D) is None
    assert graph_size(data) == (3, 3)
    assert in_links_in(reader, [url_id(A), url_id(B), url_id(C), url_id(D)]) == {
        url_id(A): 0,
        url_id(B): 1,
        url_id(C): 2,
    }


def test_several_links_to_one_url_and_links_to_itself_count_once_and_never(data, told):
    write(data, [a_record(A, links=[Link(B, "um"), Link(A, "eu"), Link(B, "dois"), Link(B, "um"), Link(B)])])
    catch_up(data, told)
    reader = GraphReader(data)
    assert told.in_links(B) == 1
    assert (COLLECTION, url_id(A)) not in told.weights
    assert reader.neighbours(B).incoming == [LinkedPage(A, "um · dois")]
    assert reader.neighbours(A).incoming == []
    assert reader.neighbours(A).outgoing == [LinkedPage(B, "um · dois"), LinkedPage(A, "eu")]
    links = reader.links_of([url_id(A), url_id(B), url_id("http://unknown.test/")], COLLECTION)
    assert links[url_id(B)].anchors == ["um", "dois"], "the most frequent first"
    assert links[url_id(A)].anchors == []
    assert len(links) == 2


def test_a_newer_visit_replaces_the_links_exactly_and_an_older_one_changes_nothing(data, told):
    write(data, [a_record(A, 5, links=[B, C]), a_record(D, 1, links=[C])])
    catch_up(data, told)
    write(data, [a_record(A, 4, links=[D]), a_record(A, 5, links=[D])], "w2")
    catch_up(data, told)
    assert told.in_links(C) == 2
    assert [found.url for found in GraphReader(data).neighbours(A).outgoing] == [B, C]
    write(data, [a_record(A, 6, links=[C, D])], "w3")
    catch_up(data, told)
    assert [found.url for found in GraphReader(data).neighbours(A).outgoing] == [C, D]
    assert (told.in_links(B), told.in_links(C), told.in_links(D)) == (0, 2, 1)
    assert GraphReader(data).neighbours(B).incoming == []


@pytest.mark.parametrize(("status", "kept"), [(500, True), (-11, True), (304, True), (404, False), (410, False)])
def test_a_failed_visit_keeps_the_links_unless_the_page_is_gone(data, told, status, kept):
    write(data, [a_record(A, 1, links=[B], title="A"), a_record(A, 2, status=status)])
    catch_up(data, told)
    reader = GraphReader(data)
    assert [found.url for found in reader.neighbours(A).outgoing] == ([B] if kept else [])
    assert told.in_links(B) == int(kept)
    node = reader.node(A)
    assert node is not None
    assert (node.status, node.visit, node.title) == (status, 2, "A")


def test_a_redirect_is_an_edge_that_costs_no_hop(data, told):
    write(data, [a_record(A, 1, 2, status=301, location="/x"), a_record(f"{A}x", 1, 7, links=[B])])
    catch_up(data, told)
    assert GraphReader(data).neighbours(A).outgoing == [LinkedPage(f"{A}x", "", "redirect")]
    assert depths(data) == {A: 2, f"{A}x": 2, B: 3}


def test_the_end_of_too_long_a_chain_of_redirects_is_known_but_not_walked(data, told):
    write(data, [a_record(A, 1, 2, status=-16, location=B)])
    catch_up(data, told)
    assert GraphReader(data).neighbours(A).outgoing == [LinkedPage(B, "", "redirect")]
    assert depths(data) == {A: 2, B: None}


def test_a_depth_that_falls_is_carried_on_and_told(data, told):
    chain = [f"http://chain.test/{number}" for number in range(30)]
    write(data, [a_record(url, 1, 5 + n, links=chain[n + 1 : n + 2]) for n, url in enumerate(chain)])
    catch_up(data, told)
    assert told.depths == {}, "the frontier gave these depths out itself"
    write(data, [a_record(A, 1, 0, links=[chain[0]])], "w2")
    catch_up(data, told)
    found = depths(data)
    assert [found[url] for url in chain] == list(range(1, 31))
    assert [told.depth(url) for url in chain[1:]] == list(range(2, 31))
    assert told.depth(chain[0]) is None, "its discoverer offered it at depth 1 already"


def test_depths_are_carried_on_within_bounds_and_the_rest_is_not_forgotten(data, told, monkeypatch):
    monkeypatch.setattr("tarrafa.graph.graph_writer.RELAXED_MAX", 4)
    chain = [f"http://chain.test/{number}" for number in range(30)]
    write(data, [a_record(url, 1, 5 + n, links=chain[n + 1 : n + 2]) for n, url in enumerate(chain)])
    write(data, [a_record(A, 1, 0, links=[chain[0]])], "w2")
    catch_up(data, told)
    assert [depths(data)[url] for url in chain] == list(range(1, 31))
    assert behind(data) == 0


def test_a_batch_is_bounded_by_its_links_too(data, told, monkeypatch):
    monkeypatch.setattr("tarrafa.graph.graph_writer.EDGES_PER_BATCH_MAX", 3)
    write(data, small_web(40))
    commits = []
    original = GraphWriter.commit

    def commit(self, entries, records_max):
        commits.append(original(self, entries, records_max))
        return commits[-1]

    monkeypatch.setattr(GraphWriter, "commit", commit)
    assert catch_up(data, told) == 40
    assert len(commits) > 15
    assert graph_size(data)[1] == sum(len(out_edges(record) or []) for record in small_web(40))


@pytest.mark.parametrize("rel", ["external NoFollow", "ugc", "sponsored noopener"])
def test_links_marked_nofollow_are_known_but_lead_nowhere(data, told, rel):
    quiet = RobotsMeta(nofollow=True)
    marked = Link(B, "b", rel)
    write(data, [a_record(A, 1, 0, links=[marked]), a_record(C, 1, 0, links=[D], robots=quiet)])
    catch_up(data, told)
    assert depths(data) == {A: 0, B: None, C: 0, D: None}
    assert (told.in_links(B), told.in_links(D)) == (1, 1)
    assert told.depths == {}


def test_depths_equal_the_shortest_paths_of_the_web(data, told):
    records = small_web(150)
    shuffled = [msgspec.structs.replace(record, depth=99 if record.depth else 0) for record in records]
    random.Random(3).shuffle(shuffled)
    write(data, shuffled)
    catch_up(data, told)
    expected, queue = {url_of(0): 0}, deque([url_of(0)])
    edges = {record.url: out_edges(record) or [] for record in records}
    while queue:
        url = queue.popleft()
        for edge in edges.get(url, []):
            if edge.hops is not None and edge.url not in expected:
                expected[edge.url] = expected[url] + 1
                queue.append(edge.url)
    assert depths(data) == expected


def test_two_collections_keep_their_own_links_and_are_collapsed_by_url(data, told):
    write(data, [a_record(A, links=[Link(C, "um")]), a_record(A, links=[Link(C, "dois")], collection="outra")])
    write(data, [a_record(B, links=[C], collection="outra")], "w2")
    catch_up(data, told)
    reader = GraphReader(data)
    assert [found.url for found in reader.neighbours(C, COLLECTION).incoming] == [A]
    assert [found.url for found in reader.neighbours(C, "outra").incoming] == [A, B]
    both = reader.neighbours(C)
    assert ([found.url for found in both.incoming], both.in_total) == ([A, B], 2)
    assert reader.neighbours(A).outgoing == [LinkedPage(C, "um · dois")]
    assert in_links_in(reader, [url_id(C)]) == {url_id(C): 2}
    assert in_links_in(reader, [url_id(C)], COLLECTION) == {url_id(C): 1}
    assert {node.collection for node in reader.nodes(C)} == {COLLECTION, "outra"}
    assert (told.in_links(C), told.in_links(C, "outra")) == (1, 2)


def test_neighbours_come_in_pages(data, told):
    write(data, [a_record(f"http://many.test/{n}", links=[A]) for n in range(25)])
    catch_up(data, told)
    reader = GraphReader(data)
    pages = [reader.incoming(A, limit=10, offset=offset) for offset in (0, 10, 20, 30)]
    assert [len(page) for page, _ in pages] == [10, 10, 5, 0]
    assert {total for _, total in pages} == {25}
    assert len({found.url for page, _ in pages for found in page}) == 25


def test_behind_is_zero_only_when_all_is_applied_and_delivered(data, told):
    assert behind(data) == 0
    write(data, [a_record(A, links=[B])])
    assert behind(data) > 0
    with GraphFollower(data, told) as steps:
        steps.read()
        assert behind(data) == 1, "applied, but B's weight is not delivered"
        steps.deliver_weights()
        assert behind(data) == 0
    assert told.weights == {(COLLECTION, url_id(B)): UrlWeight(host_id(host_key(B)), url_id(B), 1, -1, host_key(B))}
    assert cursor(data) == {file.name.removesuffix(".meta.warc.gz"): file.stat().st_size
                            for file in data.archive.glob("*.meta.warc.gz")}  # fmt: skip


def test_what_could_not_be_delivered_is_delivered_again(data, told):
    write(data, small_web(20))

    def refuse(collection: str, weights: list[UrlWeight]) -> None:
        raise ConnectionError("the frontier is away")

    with pytest.raises(ConnectionError):
        catch_up(data, refuse)
    assert behind(data) > 0
    catch_up(data, told)
    assert told.in_links(url_of(0)) == in_links_in(GraphReader(data), [url_id(url_of(0))])[url_id(url_of(0))] > 0
    assert behind(data) == 0


def test_a_batch_that_breaks_off_leaves_no_trace_and_can_be_done_again(data, tmp_path, told, monkeypatch):
    write(data, small_web(40))
    fresh = new_data(tmp_path / "fresh")
    write(fresh, small_web(40))
    catch_up(fresh, told)
    original = GraphWriter._apply
    broken: list[str] = []

    def apply(self, visit):
        original(self, visit)
        if visit.entry.record.url == url_of(20) and not broken:
            broken.append(visit.entry.record.url)
            raise MemoryError

    monkeypatch.setattr(GraphWriter, "_apply", apply)
    with GraphFollower(data, told) as steps:
        with pytest.raises(MemoryError):
            steps.read()
        assert steps.read() == 40
    assert contents(data) == contents(fresh)


def test_weights_come_in_bounded_calls(data, told, monkeypatch):
    monkeypatch.setattr(follower, "WEIGHTS_PER_CALL", 7)
    write(data, small_web(40))
    catch_up(data, told)
    assert told.calls >= len(told.weights) / 7
    counts = in_links_in(GraphReader(data), [key for _, key in told.weights])
    assert {key: weight.in_links for (_, key), weight in told.weights.items()} == counts


def test_after_a_rebuild_each_weight_is_delivered_once(data, monkeypatch):
    monkeypatch.setattr(follower, "BATCH_RECORDS", 5)
    write(data, small_web(40))
    follower.rebuild(data)
    delivered: list[bytes] = []
    catch_up(data, lambda collection, weights: delivered.extend(weight.id for weight in weights))
    assert len(delivered) == len(set(delivered)) == graph_size(data)[0]


def test_the_loop_follows_while_the_archive_grows_and_readers_read(data, told):
    stop = threading.Event()
    arrived = threading.Event()

    def deliver(collection: str, weights: list[UrlWeight]) -> None:
        told(collection, weights)
        arrived.set()

    thread = threading.Thread(target=follow, args=(data, deliver, stop))
    thread.start()
    try:
        for number, target in enumerate((B, C, D)):
            write(data, [a_record(f"{A}{number}", links=[target])], f"w{number}")
            while (COLLECTION, url_id(target)) not in told.weights:  # ranks of what was there before arrive, too
                assert arrived.wait(60)
                arrived.clear()
            assert GraphReader(data).neighbours(target).incoming == [LinkedPage(f"{A}{number}", "")]
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


def test_only_one_process_writes(data, told):
    with GraphFollower(data, told), pytest.raises(DataError, match="another process is writing the link graph"):
        catch_up(data, told)


def test_without_a_graph_the_reader_says_so_in_one_sentence(data):
    with pytest.raises(DataError, match="no link graph yet"):
        GraphReader(data)
    assert cursor(data) == {}


def test_a_damaged_graph_is_said_in_our_words(data, told):
    write(data, small_web(30))
    catch_up(data, told)
    path_of(data).write_bytes(b"not a database, " * 512)
    with pytest.raises(DataError, match="damaged"):
        catch_up(data, told)
    with pytest.raises(DataError, match="damaged"):
        GraphReader(data)
    assert rebuild(data) == 30
    assert behind(data) > 0, "the frontier is told by whoever follows next"
    catch_up(data, told)
    assert behind(data) == 0


def test_a_reader_takes_up_a_graph_that_was_made_again(data, told):
    write(data, small_web(30))
    catch_up(data, told)
    reader = GraphReader(data)
    assert reader.node(A) is None
    before = graph_size(data)
    write(data, [a_record(A, links=[B])], "w2")
    rebuild(data)
    assert graph_size(data)[1] == before[1] + 1
    assert reader.outgoing(A) == ([LinkedPage(B, "")], 1)


def _full_disk(data: DataDirectory, pipe: Connection) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    try:
        catch_up(data, ReceivedWeights())
    except DiskFull as error:
        pipe.send(str(error))
    else:
        pipe.send("")


def test_a_full_disk_is_said_in_our_words_and_damages_nothing(data, told):
    write(data, small_web(120))
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_full_disk, args=(data, there))
    child.start()
    assert here.poll(30)
    assert "the disk is full" in here.recv()
    child.join(30)
    catch_up(data, told)
    assert graph_size(data)[0] > 120


# -- killed at any moment ---------------------------------------------------------------------------------------------


def _die_while_following(data: DataDirectory, log: int, after_s: float) -> None:
    """Follow, telling a file instead of a frontier, until the alarm kills this process without a word."""
    follower.BATCH_RECORDS, follower.WEIGHTS_PER_CALL = 5, 20
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if after_s:
        signal.setitimer(signal.ITIMER_REAL, after_s)

    def tell(name: str, weights: list[UrlWeight]) -> None:
        os.write(log, msgspec.json.encode((name, weights)) + b"\n")

    catch_up(data, tell)
    os._exit(0)


def test_killed_at_random_moments_it_ends_as_one_made_in_one_go(tmp_path):
    records = small_web(200)
    again = [msgspec.structs.replace(record, visit=2, depth=3) for record in small_web(200, seed=8)[::3]]
    data, fresh = new_data(tmp_path / "killed"), new_data(tmp_path / "fresh")
    for target in (data, fresh):
        write(target, records[:100])
        write(target, records[100:] + again, "w2")
    told = ReceivedWeights()
    catch_up(fresh, told)
    path = tmp_path / "told.jsonl"
    log = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    rng, killed, started = random.Random(11), 0, multiprocessing.get_context("fork")
    for attempt in range(200):
        after_s = 0.0 if attempt == 199 else rng.uniform(0.001, 0.01)
        child = started.Process(target=_die_while_following, args=(data, log, after_s))
        child.start()
        child.join(60)
        killed += child.exitcode == -signal.SIGALRM
        if child.exitcode == 0:
            break
    assert child.exitcode == 0
    assert killed >= 4, "the test must really kill"
    assert behind(data) == 0
    assert contents(data) == contents(fresh)
    heard = ReceivedWeights()
    for line in path.read_bytes().splitlines():
        heard(*msgspec.json.decode(line, type=tuple[str, list[UrlWeight]]))
    assert {key: w.in_links for key, w in heard.weights.items()} == {key: w.in_links for key, w in told.weights.items()}
    assert heard.depths == told.depths


def test_a_look_up_that_failed_is_made_again(data, monkeypatch):
    write(data, [a_record(A, links=[B])])
    catch_up(data, ReceivedWeights())
    reader = GraphReader(data)

    def fail(*_: object) -> list[tuple[object, ...]]:
        raise DataError("busy")

    with monkeypatch.context() as troubled:
        troubled.setattr(reader, "_rows", fail)
        with pytest.raises(DataError):
            reader.standings([url_id(B)])
    assert in_links_in(reader, [url_id(B)]) == {url_id(B): 1}


def test_what_was_looked_up_is_looked_up_again_when_the_graph_has_changed(data):
    write(data, [a_record(A, links=[B])])
    catch_up(data, ReceivedWeights())
    reader = GraphReader(data)
    assert in_links_in(reader, [url_id(B), url_id(C)]) == {url_id(B): 1}
    write(data, [a_record(C, links=[B])], "w2")
    catch_up(data, ReceivedWeights())
    assert in_links_in(reader, [url_id(B), url_id(C)]) == {url_id(B): 2, url_id(C): 0}


def test_standings_are_as_old_as_a_reader_allows_and_no_older(data, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tarrafa.graph.reader.monotonic", lambda: now[0])
    write(data, [a_record(A, links=[B])])
    catch_up(data, ReceivedWeights())
    reader = GraphReader(data, standings_age_s=0.5)
    assert in_links_in(reader, [url_id(B)]) == {url_id(B): 1}
    write(data, [a_record(C, links=[B])], "w2")
    catch_up(data, ReceivedWeights())
    for later_s, in_links in ((0.0, 1), (0.4, 1), (0.6, 2)):
        now[0] = 100.0 + later_s
        assert in_links_in(reader, [url_id(B)]) == {url_id(B): in_links}


# -- any order of any visits ------------------------------------------------------------------------------------------

URLS = [f"http://{name}.test/{page}" for name in "ab" for page in range(3)]
some_links = st.lists(
    st.builds(Link, st.sampled_from(URLS), st.sampled_from(["", "x"]), st.sampled_from(["", "nofollow"]))
)
some_records = st.lists(
    st.builds(
        a_record,
        st.sampled_from(URLS),
        st.integers(0, 4),
        st.integers(0, 3),
        some_links,
        status=st.sampled_from([200, 200, 200, 404, 500, -11]),
        collection=st.sampled_from(["c1", "c2"]),
    ),
    max_size=12,
)


@given(some_records, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_links_and_counts_are_what_the_newest_visits_say(tmp_path_factory, records, batch):
    data = new_data(tmp_path_factory.mktemp("any"))
    write(data, records)
    newest: dict[tuple[str, str], int] = {}  # that told links
    links: dict[tuple[str, str], list[str]] = {}
    for record in records:
        key, edges = (record.collection, record.url), out_edges(record)
        if edges is not None and record.visit > newest.get(key, -1):
            newest[key], links[key] = record.visit, [edge.url for edge in edges]
    before = follower.BATCH_RECORDS
    follower.BATCH_RECORDS = batch
    try:
        catch_up(data, lambda name, weights: None)
    finally:
        follower.BATCH_RECORDS = before
    reader = GraphReader(data)
    assert graph_size(data)[1] == sum(len(targets) for targets in links.values())
    for name in ("c1", "c2"):
        for url in URLS:
            sources = {source for (held, source), targets in links.items() if held == name and url in targets} - {url}
            incoming, total = reader.incoming(url, name)
            assert ({found.url for found in incoming}, total) == (sources, len(sources))
            targets = list(dict.fromkeys(links.get((name, url), [])))
            assert [found.url for found in reader.outgoing(url, name)[0]] == targets


# -- visits of one page in several files -------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [304, 503])
def test_links_of_an_earlier_visit_are_not_lost_if_a_later_one_without_links_is_read_first(tmp_path, told, later):
    """As in a rebuild: files are read in the order of their names, and a host changes its worker."""
    page = a_record(A, 1, links=[B, Link(C, "rede")], title="A page", at=1_000.0)
    unchanged = a_record(A, 2, status=later, kept=False, at=2_000.0)
    found: list[Any] = []
    for first, second in ((page, unchanged), (unchanged, page)):
        data = new_data(tmp_path / str(len(found)))
        write(data, [first], "w1")
        write(data, [second], "w2")
        catch_up(data, told)
        found.append(contents(data))
    assert found[0] == found[1]
    nodes, edges, _ = found[1]
    assert [edge[3] for edge in edges] == [B, C]
    assert [(node[6], node[7], node[8], node[9]) for node in nodes if node[1] == A] == [(2, later, 2_000.0, "A page")]


def test_links_of_a_visit_do_not_replace_those_of_a_later_one_that_was_read_first(data, told):
    write(data, [a_record(A, 3, links=[C]), a_record(A, 4, status=304, kept=False)], "w1")
    write(data, [a_record(A, 2, links=[B])], "w2")
    catch_up(data, told)
    assert [edge[3] for edge in contents(data)[1]] == [C]
    write(data, [a_record(A, 5, status=404, kept=False)], "w3")
    write(data, [a_record(A, 1, links=[B])], "w4")
    catch_up(data, told)
    assert contents(data)[1] == []


def test_weights_are_delivered_again_at_the_first_visit_of_a_url(data, told):
    """They may have come before the frontier had heard of the URL, which ignores them then."""
    write(data, [a_record(A, links=[C]), a_record(B, links=[C])])
    catch_up(data, told)
    assert told.in_links(C) == 2
    told.weights.clear()
    write(data, [a_record(C)], "w2")
    catch_up(data, told)
    assert told.in_links(C) == 2
    told.weights.clear()
    write(data, [a_record(C, visit=2)], "w3")
    catch_up(data, told)
    assert (COLLECTION, url_id(C)) not in told.weights


def test_weights_of_the_target_of_a_redirect_are_delivered_again_at_its_first_visit(data, told):
    """The frontier began to count its in-links with none."""
    write(data, [a_record(A, status=301, location=C), a_record(B, links=[D])])
    catch_up(data, told)
    told.weights.clear()
    write(data, [msgspec.structs.replace(a_record(C), redirects=1), a_record(D)], "w2")
    catch_up(data, told)
    assert told.in_links(C) == 1
    assert (COLLECTION, url_id(D)) not in told.weights, "it began with one"
