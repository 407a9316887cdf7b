"""SPARQL is answered by processes that may be killed: by what was published last, within limits, and by nobody else."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from tarrafa.errors import Busy, QueryError, QueryLimitExceeded
from tarrafa.index.shards import shard_number
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import start_ticks
from tarrafa.runtime.sandbox import SOCKET_CALLS
from tarrafa.triples import sparql_parts
from tarrafa.triples.snapshots import folder, publish, remove_published
from tarrafa.triples.sparql_check import NO_SERVICE
from tarrafa.triples.sparql_pool import (
    PROCESS_MODULE,
    NoAcceptableFormat,
    ProcessQueue,
    SparqlLimits,
    SparqlPool,
    ask_sparql,
)
from tarrafa.triples.sparql_process import GROWN_BYTES, SnapshotCache, SparqlRequest, answer_query
from tests.triples.sample_store import filled, new_data, page_of, small_web, store_of
from tests.triples.test_sparql_check import DISGUISES
from tests.wait import wait_until

COUNT = "SELECT (COUNT(*) AS ?n) { ?s a schema:Person }"
EVERYTHING = list(small_web(60))
ENDLESS = "SELECT (COUNT(*) AS ?x) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("pool") / "data")
    filled(data, EVERYTHING)
    return data


@pytest.fixture
async def pool(data: DataDirectory) -> AsyncIterator[SparqlPool]:
    with SparqlPool(data) as pool:
        yield pool


@contextlib.contextmanager
def limited(pool: SparqlPool, **limits: float) -> Iterator[None]:
    """For a while: whoever answers something quickly may be slow at it where others work, too."""
    before = pool.limits
    pool.limits = msgspec.structs.replace(before, **limits)
    yield
    pool.limits = before


def rows(body: bytes) -> list[dict[str, str]]:
    return [{name: term["value"] for name, term in row.items()} for row in json.loads(body)["results"]["bindings"]]


def direct(data: DataDirectory, query: str, **more: Any) -> Any:
    """What the process would say, said by ourselves."""
    return answer_query(SparqlRequest(query, **more), SnapshotCache(data))


def children() -> list[int]:
    """The processes that answer for us."""
    found = []
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            answers = one.name.isdigit() and PROCESS_MODULE.encode() in (one / "cmdline").read_bytes()
            if answers and (one / "stat").read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                found.append(int(one.name))
    return found


async def test_a_process_is_kept_for_the_next_question_however_large_we_are(data):
    ballast = bytearray(b"x" * GROWN_BYTES)

    with SparqlPool(data) as pool:
        await pool.ask(SparqlRequest(COUNT))
        before = children()
        await pool.ask(SparqlRequest(COUNT))
        assert children() == before != []
    assert ballast


def lives(pid: int) -> bool:
    return start_ticks(pid) is not None


async def test_each_kind_of_query_has_its_answer(pool: SparqlPool) -> None:
    found = await pool.ask(SparqlRequest("SELECT ?n { ?p a schema:Person ; schema:jobTitle ?j ; schema:name ?n }"))
    assert (found.form, found.count, found.is_cut) == ("json", 20, False)
    assert {"n": "Ana Silva 0"} in rows(found.body)
    assert json.loads((await pool.ask(SparqlRequest("ASK { ?s a schema:Event }"))).body)["boolean"] is True
    assert json.loads((await pool.ask(SparqlRequest("ASK { ?s a schema:Recipe }"))).body)["boolean"] is False
    found = await pool.ask(SparqlRequest("CONSTRUCT { ?s schema:name ?n } WHERE { ?s schema:name ?n }", graph_as="nt"))
    assert (found.form, found.count) == ("nt", 100)
    found = await pool.ask(SparqlRequest(f"DESCRIBE <{page_of(3)}>"))
    assert b"tarrafa:collection" in found.body
    assert len(children()) == 1


def test_before_anything_is_crawled_answers_are_empty(tmp_path):
    data = new_data(tmp_path / "data")
    assert rows(direct(data, COUNT).body) == [{"n": "0"}]
    assert direct(data, "SELECT * { ?s ?p ?o }").count == 0


def test_the_newest_publication_answers_also_when_all_is_made_again(tmp_path):
    data = new_data(tmp_path / "data")
    store = store_of(data)
    shelf = SnapshotCache(data)
    for number in range(1, 5):
        store.add(Quad(NamedNode(f"urn:{number}"), NamedNode("urn:p"), Literal("x"), NamedNode("http://a.test/")))
        publish(store, data)
        assert answer_query(SparqlRequest("SELECT * { ?s ?p ?o }"), shelf).count == number
    remove_published(data)
    assert answer_query(SparqlRequest("SELECT * { ?s ?p ?o }"), shelf).count == 0
    assert publish(store, data) == 1
    assert answer_query(SparqlRequest("SELECT * { ?s ?p ?o }"), shelf).count == 4
    remove_published(data)
    store.remove_graph(NamedNode("http://a.test/"))
    assert publish(store, data) == 1, "the number of the one that is held, and another store"
    assert answer_query(SparqlRequest("SELECT * { ?s ?p ?o }"), shelf).count == 0


def test_what_is_no_longer_the_newest_is_let_go(tmp_path):
    data = new_data(tmp_path / "data")
    store = filled(data, small_web(3))
    shelf = SnapshotCache(data)
    answer_query(SparqlRequest(COUNT), shelf)
    for _ in range(4):
        publish(store, data)
    assert (folder(data) / "1").exists(), "somebody holds it"
    shelf.drop_outdated()
    publish(store, data)
    assert not (folder(data) / "1").exists()


async def test_a_running_process_answers_from_what_was_published_after_it_started(tmp_path):
    data = new_data(tmp_path / "data")
    store = filled(data, small_web(3))

    with SparqlPool(data) as pool:
        assert rows((await pool.ask(SparqlRequest(COUNT))).body) == [{"n": "2"}]
        (first,) = children()
        store.extend(small_web(30))
        publish(store, data)
        assert rows((await pool.ask(SparqlRequest(COUNT))).body) != [{"n": "2"}]
        assert children() == [first]


async def test_a_query_that_takes_too_long_is_stopped_and_the_next_one_answered(pool: SparqlPool) -> None:
    await pool.ask(SparqlRequest(COUNT))
    (first,) = children()
    with limited(pool, time_s=0.3), pytest.raises(QueryLimitExceeded, match=r"more than 0\.3 s"):
        await pool.ask(SparqlRequest(ENDLESS))
    assert not lives(first)
    assert (await pool.ask(SparqlRequest("ASK { ?s ?p ?o }"))).count == 1


GROWING = "".join(f"BIND(CONCAT(?x{n}, ?x{n}, ?x{n}, ?x{n}) AS ?x{n + 1})" for n in range(20))


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(f"SELECT ?x20 {{ BIND('0123456789' AS ?x0) {GROWING} }}", marks=pytest.mark.long),
        "SELECT * { FILTER(" + "!" * 90_000 + "true) }",
        pytest.param("SELECT * { FILTER(" + "1+" * 40_000 + "1) }", marks=pytest.mark.long),
    ],
    ids=["text that grows", "depth", "length"],
)
async def test_a_query_that_asks_for_too_much_hurts_only_its_process(pool: SparqlPool, query: str) -> None:
    with pytest.raises(QueryLimitExceeded, match=r"needs more memory|more than 10 s"):
        await pool.ask(SparqlRequest(query))
    assert (await pool.ask(SparqlRequest("ASK { ?s ?p ?o }"))).count == 1


async def test_patterns_and_paths_that_ruin_others_do_no_harm(pool: SparqlPool) -> None:
    bad = "SELECT * { FILTER REGEX('" + "a" * 40 + "!', '^(a+)+$') }"
    assert (await pool.ask(SparqlRequest(bad))).count == 0
    circle = "ASK { ?s (schema:worksFor|^schema:worksFor|schema:name|^schema:name)* ?s }"
    assert (await pool.ask(SparqlRequest(circle))).count == 1
    values = f"SELECT ?x {{ VALUES ?x {{{' 1' * 40_000}}} }}"
    assert (await pool.ask(SparqlRequest(values))).is_cut
    assert (await pool.ask(SparqlRequest("SELECT * { BIND(RAND() AS ?x) }"))).count == 1


async def test_a_process_that_somebody_killed_is_replaced(pool: SparqlPool) -> None:
    for _ in range(2):
        await pool.ask(SparqlRequest(COUNT))
        (process,) = children()
        os.kill(process, signal.SIGKILL)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)


async def test_who_no_longer_waits_is_not_worked_for(pool: SparqlPool) -> None:
    await pool.ask(SparqlRequest(COUNT))
    (process,) = children()
    before = _cpu_ticks(process)
    task = asyncio.create_task(pool.ask(SparqlRequest(ENDLESS)))
    await wait_until(lambda: _cpu_ticks(process) >= before + 5)  # it works on the query
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(process)


def _cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


async def test_more_questions_than_processes_wait_a_little_and_not_in_any_number(data):
    with SparqlPool(data, SparqlLimits(processes=1, waiting=2)) as pool:
        with limited(pool, time_s=0.5, wait_s=0.1):
            asked = [asyncio.create_task(pool.ask(SparqlRequest(ENDLESS), str(n))) for n in range(4)]
            ends = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(end) for end in ends] == [QueryLimitExceeded, Busy, Busy, Busy]
        assert "waiting already" in str(ends[3])
        assert (await pool.ask(SparqlRequest("ASK { ?s ?p ?o }"))).count == 1


async def test_one_client_never_has_all_processes(data):
    with SparqlPool(data, SparqlLimits(time_s=600, wait_s=600)) as pool:
        held = [asyncio.create_task(pool.ask(SparqlRequest(ENDLESS), "a")) for _ in range(4)]
        await wait_until(lambda: len(children()) == 1)
        assert (await pool.ask(SparqlRequest("ASK {}"), "b")).count == 1
        for one in held:
            one.cancel()
        ends = await asyncio.gather(*held, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 4
        assert (await pool.ask(SparqlRequest("ASK {}"), "a")).count == 1


async def test_one_client_never_has_all_waiting_places():
    queue = ProcessQueue(SparqlLimits(processes=2, waiting=8))
    await queue.acquire("a", 60)
    waiting = [asyncio.create_task(queue.acquire("a", 60)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="2 of your queries are waiting already"):
        await queue.acquire("a", 60)
    await queue.acquire("b", 60)
    queue.release("a")
    await waiting[0]
    waiting[1].cancel()


async def test_clients_take_turns():
    queue, order = ProcessQueue(SparqlLimits(processes=2, waiting=40)), list[str]()

    async def ask(client: str) -> None:
        await queue.acquire(client, 60)
        order.append(client)
        await asyncio.sleep(0)
        queue.release(client)

    await queue.acquire("x", 60)
    await asyncio.gather(*(ask(client) for client in "aaaaabbbccd"))
    assert "".join(order) == "abcdabcabaa"


async def test_a_client_that_leaves_as_its_turn_comes_hands_it_on():
    queue = ProcessQueue(SparqlLimits(processes=1))
    await queue.acquire("a", 60)
    gone, next_one = asyncio.create_task(queue.acquire("b", 60)), asyncio.create_task(queue.acquire("c", 60))
    await asyncio.sleep(0)
    queue.release("a")
    gone.cancel()
    await next_one
    gone, next_one = asyncio.create_task(queue.acquire("a", 60)), asyncio.create_task(queue.acquire("a", 60))
    await asyncio.sleep(0)
    gone.cancel()
    queue.release("c")
    await next_one
    queue.release("a")
    await queue.acquire("a", 0)


async def test_when_the_pool_is_closed_its_processes_end(data):
    with SparqlPool(data, SparqlLimits(wait_s=60)) as pool:
        await asyncio.gather(*(pool.ask(SparqlRequest(COUNT), str(n)) for n in range(6)))
        started = children()  # some wait until the first processes have started
    assert len(started) == SparqlLimits().processes
    assert not any(map(lives, started))


def test_results_beyond_the_limit_are_left_out_and_it_is_told(data):
    found = direct(data, "SELECT * { ?s ?p ?o }", results_max=7)
    assert (found.count, len(rows(found.body)), found.is_cut) == (7, 7, True)
    found = direct(data, "SELECT * { ?s ?p ?o } LIMIT 7", results_max=7)
    assert (found.count, found.is_cut) == (7, False)
    found = direct(data, "SELECT * { ?s ?p ?o } LIMIT 9 VALUES ?p { schema:name }", results_max=7)
    assert (found.count, found.is_cut) == (7, True)
    found = direct(data, "CONSTRUCT WHERE { ?s ?p ?o }", results_max=7, graph_as="nt")
    assert (found.body.count(b"\n"), found.is_cut) == (7, True)


def test_an_answer_of_too_many_bytes_is_refused(data, monkeypatch):
    monkeypatch.setattr("tarrafa.triples.sparql_results.RESULT_BYTES_MAX", 1 << 20)
    found = direct(data, "SELECT ?a ?b ?c ?x { ?a ?b ?c . ?d ?e ?f BIND(CONCAT(?c, '" + "x" * 1_000 + "') AS ?x) }")
    assert found.trouble == "costly"
    assert "larger than 1 MB" in found.sentence


def test_the_default_graph_is_all_pages_unless_the_query_or_the_asker_names_others(data):
    page, names = page_of(3), "SELECT ?n { ?s schema:name ?n }"
    assert direct(data, names).count == 100
    assert direct(data, f"SELECT ?n FROM <{page}> {{ ?s schema:name ?n }}").count == 2
    assert direct(data, f"SELECT ?n FROM NAMED <{page}> {{ ?s schema:name ?n }}").count == 0
    assert direct(data, f"SELECT ?n FROM NAMED <{page}> {{ GRAPH ?g {{ ?s schema:name ?n }} }}").count == 2
    assert direct(data, names, default_graphs=[page]).count == 2
    assert direct(data, names, default_graphs=[page, page_of(6)]).count == 4
    assert direct(data, names, named_graphs=[page]).count == 0
    inside = "SELECT ?g ?n { GRAPH ?g { ?s schema:name ?n } }"
    assert direct(data, inside, named_graphs=[page]).count == 2
    assert direct(data, inside, default_graphs=[page]).count == 0
    assert "not a valid IRI" in direct(data, names, default_graphs=["no iri"]).sentence


def test_a_bad_query_is_told_where_in_one_line(data):
    found = direct(data, "SELECT *\n{ ?s ?p")
    assert found.trouble == "malformed"
    assert found.sentence.startswith("line 2, column 8: expected")
    assert "\n" not in found.sentence
    assert "u{" not in found.sentence
    for query in (
        "",
        "DELETE WHERE { ?s ?p ?o }",
        "LOAD <http://127.0.0.1:1/>",
        "INSERT DATA { <a:b> <a:b> 1 }",
        "SELECT",
    ):
        assert direct(data, query).trouble == "malformed"
    assert direct(data, "SELECT (<http://x/f>(1) AS ?x) {}").trouble == "malformed"
    with pytest.raises(QueryError, match="UTF-8"):
        ask_sparql(data, SparqlRequest("SELECT \udcff"))


def test_an_answer_in_no_form_that_is_wanted_says_which_there_are(data):
    assert "json, xml, csv, tsv" in direct(data, "ASK {}", solutions_as="").sentence
    assert "ttl, nt, rdf, jsonld" in direct(data, "CONSTRUCT WHERE {?s ?p ?o}", graph_as="").sentence
    with pytest.raises(NoAcceptableFormat):
        ask_sparql(data, SparqlRequest("ASK {}", solutions_as=""))


# -- nothing goes out -------------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A port of this machine, and who came."""
    came: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                came.append(address)
                connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def test_nobody_is_asked_for_service_from_or_load(data, listener):
    port, came = listener
    with pytest.raises(OSError):  # the listener hears what Oxigraph does by itself
        list(Store().query(f"SELECT * {{ SERVICE <http://127.0.0.1:{port}/> {{}} }}"))  # type: ignore[arg-type]
    assert came
    came.clear()

    with SparqlPool(data) as pool:
        for disguise in DISGUISES:
            with pytest.raises(QueryError) as refused:
                await pool.ask(SparqlRequest(disguise.replace("127.0.0.1:1/", f"127.0.0.1:{port}/")))
            assert str(refused.value) == NO_SERVICE
        for query in ("LOAD <{}>", "LOAD SILENT <{}> INTO GRAPH <a:b>"):
            with pytest.raises(QueryError):
                await pool.ask(SparqlRequest(query.format(f"http://127.0.0.1:{port}/")))
        found = await pool.ask(SparqlRequest(f"SELECT * FROM <http://127.0.0.1:{port}/> {{ ?s ?p ?o }}"))
        assert found.count == 0
    assert came == []


async def test_the_process_itself_has_no_network(pool: SparqlPool) -> None:
    """Should a SERVICE ever get past the words: there is nowhere to go."""

    await pool.ask(SparqlRequest(COUNT))
    (process,) = children()
    own, theirs = (Path(f"/proc/{pid}/ns/net").readlink() for pid in (os.getpid(), process))
    if own == theirs:
        pytest.skip("this system does not let a process leave the network")
    assert Path(f"/proc/{process}/net/dev").read_text().count(":") == 1, "not even loopback is up beside lo"


GIVEN_UP = """
import ctypes, socket
from tarrafa.runtime import sandbox
class NoNamespaces:  # a system that does not let anybody leave the network
    def __init__(self, libc): self.prctl, self.unshare = libc.prctl, lambda flags: -1
real = ctypes.CDLL
ctypes.CDLL = lambda *given, **more: NoNamespaces(real(*given, **more))
sandbox.drop_privileges()
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    try:
        socket.socket(family)
    except PermissionError:
        print("refused")
print(len(open("/proc/self/statm").read()) > 0)
"""


@pytest.mark.skipif(os.uname().machine not in SOCKET_CALLS, reason="another architecture")
def test_where_the_network_cannot_be_left_no_socket_can_be_opened():
    done = subprocess.run([sys.executable, "-c", GIVEN_UP], capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["refused", "refused", "refused", "True"], done.stderr


# -- several parts ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """The same statements in three parts, by host."""
    data = new_data(tmp_path_factory.mktemp("parts") / "data", parts=3)
    for number in range(1, 4):
        part = DataDirectory(data.root, f"{number}-of-3")
        filled(part, (quad for quad in EVERYTHING if shard_number(_page(quad), 3) == number))
    return data


def _page(quad: Quad) -> str:
    named = quad.graph_name if isinstance(quad.graph_name, NamedNode) else quad.subject
    assert isinstance(named, NamedNode)
    return named.value


def test_parts_answer_together_what_each_can_answer_alone(data, divided):
    for query in (
        "SELECT ?page ?n { GRAPH ?page { ?s schema:name ?n } }",
        "SELECT ?n { ?s a schema:Event ; schema:name ?n FILTER(STRLEN(?n) > 7) }",
        "SELECT DISTINCT ?class { ?s a ?class }",
        "SELECT REDUCED ?page { ?page tarrafa:fetched ?when } ",
    ):
        together = [sorted(row.items()) for row in rows(direct(divided, query).body)]
        assert sorted(together) == sorted(sorted(row.items()) for row in rows(direct(data, query).body)), query
    assert json.loads(direct(divided, "ASK { ?s schema:name 'Festa 4' }").body)["boolean"] is True
    assert json.loads(direct(divided, "ASK { ?s schema:name 'Festa 5' }").body)["boolean"] is False
    construct = "CONSTRUCT { ?s a ?c } WHERE { ?s a ?c }"
    assert direct(divided, construct).count == direct(data, construct).count == 120
    assert direct(divided, "SELECT * { ?s ?p ?o } LIMIT 37").count == 37
    assert direct(divided, "SELECT DISTINCT ?c { ?s a ?c } LIMIT 4").count == 4
    found = direct(divided, "SELECT * { ?s ?p ?o }", results_max=50)
    assert (found.count, found.is_cut) == (50, True)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (COUNT(*) AS ?n) { ?s a schema:Person MINUS { ?s schema:jobTitle ?j } }",
        "SELECT (EXISTS { ?s a ?c } AS ?is) (COUNT(*) AS ?n) { ?s a ?c } GROUP BY ?s ?c",
        "SELECT (SUM(?n) AS ?all) { { SELECT ?c (COUNT(*) AS ?n) { ?s a ?c } GROUP BY ?c } }",
        "CONSTRUCT { ?s a ?c } WHERE { ?s a ?c } ORDER BY ?s",
        "SELECT ?s { ?s a schema:Person MINUS { ?s schema:jobTitle ?j } }",
        "SELECT ?s { ?s a schema:Person FILTER NOT EXISTS { ?s schema:jobTitle ?j } }",
        "SELECT ?s { { SELECT ?s { ?s a schema:Person } LIMIT 3 } }",
        "CONSTRUCT { ?s a ?c } WHERE { { SELECT * { ?s a ?c } } }",
        "CONSTRUCT { ?s a ?c } WHERE { ?s a ?c } LIMIT 3",
    ],
)
def test_what_needs_all_parts_at_once_is_refused_with_what_to_do(divided, query):
    found = direct(divided, query)
    assert found.trouble == "malformed"
    assert "3 parts" in found.sentence
    assert "part=1-of-3" in found.sentence
    assert direct(divided, query, part="2-of-3").trouble is None


AGGREGATES = [
    COUNT,
    "SELECT(COUNT(*)AS?n){?s a schema:Nothing}",
    "SELECT (COUNT(*) AS ?n) (COUNT(?job) AS ?jobs) (COUNT(DISTINCT ?job) AS ?kinds) "
    "{ ?s a schema:Person OPTIONAL { ?s schema:jobTitle ?job } }",
    "SELECT ?c (COUNT(*) AS ?n) { ?s a ?c } GROUP BY ?c ORDER BY DESC(?n) ?c",
    "SELECT $c (count ( $s ) AS ?n) WHERE { ?s a ?c } GROUP BY ?c HAVING (COUNT(*) > 20 && count(?s) < 50)",
    "SELECT ?c { ?s a ?c } GROUP BY ?c",
    "SELECT (COUNT(DISTINCT *) AS ?n) { ?s a ?c . ?s schema:name ?name }",
    "SELECT (COUNT(DISTINCT *) AS ?n) (COUNT(*) AS ?m) { GRAPH ?page { ?s ?p 'nothing' } }",
    "SELECT ?host (COUNT(DISTINCT ?page) AS ?pages) (SUM(?length) AS ?letters) (AVG(?length) AS ?mean) "
    "{ GRAPH ?page { ?s schema:name ?name } BIND(STRLEN(?name) AS ?length) "
    "BIND(STRBEFORE(STR(?page), '.br') AS ?host) } "
    "GROUP BY ?host",
    "SELECT (MIN(?name) AS ?first) (MAX(?name) AS ?last) { ?s schema:name ?name }",
    "SELECT (MIN(?o) AS ?first) (MAX(?o) AS ?last) (COUNT(?o) AS ?n) { ?s ?p ?o }",
    "SELECT (AVG(?x) AS ?none) (SUM(?x) AS ?zero) (MIN(?x) AS ?nothing) { ?s a schema:Nothing ; schema:price ?x }",
    "SELECT (SUM(DISTINCT ?length) AS ?sum) { ?s schema:name ?name BIND(STRLEN(?name) AS ?length) }",
    "SELECT ?c (SAMPLE(?c) AS ?same) { ?s a ?c } GROUP BY ?c",
    "SELECT ?c (STRLEN(GROUP_CONCAT(?name; SEPARATOR=', ')) AS ?length) { ?s a ?c ; schema:name ?name } GROUP BY ?c",
    "SELECT (COUNT(?s) + SUM(1) AS ?n) (COUNT('x') AS ?m) { ?s a ?c FILTER(?c IN (schema:Person, schema:Event)) }",
    "SELECT ?kind (COUNT(*) AS ?n) { ?s a ?c } GROUP BY (STRAFTER(STR(?c), 'org/') AS ?kind) ORDER BY ?kind LIMIT 2",
    "SELECT (COUNT(*) AS ?n) { ?b ?p ?o FILTER(ISBLANK(?b)) }",
    "SELECT (COUNT(DISTINCT ?b) AS ?n) (MAX(ISBLANK(?b)) AS ?is) { ?b ?p ?o }",
    "SELECT ?c (COUNT(*) AS ?n) { ?s a ?c } GROUP BY ?c VALUES ?c { schema:Person schema:Event }",
    "SELECT (COUNT(*) AS ?n) FROM <http://h1.br/p1> { ?s ?p ?o }",
    "SELECT (COUNT(*) AS ?tarrafa_times) (COUNT(?tarrafa_row) AS ?n) { ?tarrafa_row a ?tarrafa }",
    "SELECT (COUNT(*) AS ?n) # GROUP BY ?x { }\nWHERE { ?s a ?c FILTER(?c != 'SELECT {') }",
    "PREFIX x: <https://schema.org/> SELECT (COUNT(*) AS ?n) { ?s a x:Person }",
]
SORTED = [
    "SELECT ?c ?n { ?s a ?c ; schema:name ?n } ORDER BY ?c DESC(?n) LIMIT 7 OFFSET 3",
    "SELECT * { GRAPH ?page { ?s schema:name ?n } } ORDER BY STRLEN(?n) ?n ?page ?s",
    "SELECT DISTINCT ?c { ?s a ?c } ORDER BY DESC(?c)",
    "SELECT (UCASE(?n) AS ?name) ?page { GRAPH ?page { ?s schema:name ?n } } ORDER BY ?name ?page OFFSET 40",
]


@pytest.mark.parametrize("query", AGGREGATES)
def test_sparql11_aggregates_of_several_parts_are_those_of_one_store(data, divided, query):
    found, expected = direct(divided, query), direct(data, query)
    assert expected.trouble is None, expected.sentence
    assert found.trouble is None, found.sentence
    assert sorted(map(json.dumps, json.loads(found.body)["results"]["bindings"])) == sorted(
        map(json.dumps, json.loads(expected.body)["results"]["bindings"])
    )
    assert json.loads(found.body)["head"] == json.loads(expected.body)["head"]


@pytest.mark.parametrize("query", SORTED)
def test_solutions_of_several_parts_are_sorted_together(data, divided, query):
    found, expected = direct(divided, query), direct(data, query)
    assert expected.trouble is None, expected.sentence
    assert json.loads(found.body) == json.loads(expected.body)
    assert found.count > 0


def test_no_more_solutions_are_gathered_than_fit_in_memory(divided, monkeypatch):
    monkeypatch.setattr(sparql_parts, "SOLUTIONS_MAX", 100)
    found = direct(divided, "SELECT (SUM(?o) AS ?n) { ?s ?p ?o }")
    assert found.trouble == "costly"
    assert "more than 100 solutions in the 3 parts" in found.sentence
    assert direct(divided, "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p").trouble is None, (
        "counted by each part"
    )


def test_an_error_in_a_query_to_several_parts_has_its_place(divided):
    found = direct(divided, "SELECT (COUNT(*) AS ?n)\n{ ?s a nada:x }")
    assert found.sentence == "line 2, column 14: the prefix nada: is not declared (PREFIX name: <IRI>)"
    assert direct(divided, "SELECT ?s (COUNT(*) AS ?n) { ?s a ?c }").trouble == "malformed"


def test_one_part_can_be_asked_and_one_that_is_not_there_is_named(divided, data):
    counted = [int(rows(direct(divided, COUNT, part=f"{n}-of-3").body)[0]["n"]) for n in (1, 2, 3)]
    assert sum(counted) == 40
    assert "1-of-3, 2-of-3, 3-of-3" in direct(divided, COUNT, part="4-of-3").sentence
    assert "only one" in direct(data, COUNT, part="1-of-2").sentence


@pytest.mark.parametrize("form", ["json", "xml", "csv", "tsv"])
def test_how_many_are_told_is_known_in_every_form(data, form):
    found = direct(data, "SELECT ?s { ?s ?p ?o }", solutions_as=form, results_max=7)
    assert (found.count, found.is_cut) == (7, True)


async def test_what_is_closed_while_its_process_starts_answers_nothing_and_leaves_nobody(pool: SparqlPool) -> None:
    asked = asyncio.create_task(pool.ask(SparqlRequest(COUNT)))
    await wait_until(lambda: pool._all and pool._all[0]._process is not None)
    pool.close()
    with pytest.raises(Busy, match="being stopped"):
        await asked
    assert not children()


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("SELECT * {\n ?s foo:bar ?o }", "line 2, column 12: the prefix foo: is not declared (PREFIX name: <IRI>)"),
        ("INSERT DATA { <a:b> <a:b> 1 }", "INSERT: nothing can be changed here: the triple store follows the crawled"),
        ("PREFIX a: <http://b/>\n# c\ndelete where { ?s ?p ?o }", "DELETE: nothing can be changed here"),
        ("SELCT * {}", "SELCT: a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"),
        ("PREFIX a: <b> SELECT * {}", "line 1, column 14: the IRI is not valid"),
    ],
)
def test_what_is_no_query_is_said_in_words(data, query, sentence):
    assert direct(data, query).sentence.startswith(sentence)
