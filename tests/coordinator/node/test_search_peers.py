"""A search goes to the nodes that there are, as they come and go: real shards on loopback, beats on paper."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from tarrafa.clock import boot_id
from tarrafa.coordinator.node import search_peers
from tarrafa.coordinator.node.messages import NODE_SILENT_AFTER_S, NodeOrders
from tarrafa.coordinator.node.node_registry import FORGET_AFTER_S, NodeRegistry, SearchNode
from tarrafa.coordinator.node.search_peers import (
    DUPLICATE_ADDRESS,
    GIVEN_UP_AFTER_S,
    LOOPBACK_ONLY,
    NO_ADDRESS,
    NOT_RUNNING,
    SILENT,
    NodeShards,
    PeerAddress,
    peer_addresses,
)
from tarrafa.coordinator.store import open_store
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.search.remote_shard import RemoteShard, UnavailableShard
from tarrafa.search.searcher import Searcher
from tarrafa.server.http_server import bind
from tests.coordinator.node.sample_messages import a_beat, a_joining
from tests.graph.archived_web import new_data, write
from tests.ports import reserved_port
from tests.search.sample_pages import a_page
from tests.search.sharded_index import PATIENCE_S
from tests.server.conftest import RunningSite
from tests.wait import wait_until

TOKEN = Token(b"a token of many letters")
HERE, THERE = f"{boot_id()}/pid:[1]/7/9", "another-boot/pid:[1]/7/9"


def an_index(root: Path, *names: str) -> DataDirectory:
    """A page for each of these, which speaks of its name and of fish."""
    data = new_data(root)
    write(data, [a_page(f"http://{name}.test/", f"peixe {name} {name}s", f"Página {name}") for name in names])
    index.catch_up(data)
    return data


def as_shard(data: DataDirectory, port: int = 0) -> RunningSite:
    return RunningSite(data, shard_token=TOKEN, listening=bind("127.0.0.1", port))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slow because others work here, too, is not away."""
    monkeypatch.setattr(search_peers, "RemoteShard", partial(RemoteShard, limit_s=PATIENCE_S))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DataDirectory]:
    root = tmp_path_factory.mktemp("indexes")
    return {name: an_index(root / name, name) for name in ("um", "dois", "casa")}


@contextmanager
def a_nodes_search(data: DataDirectory, told: Path) -> Iterator[None]:
    """The process that a node with the role `search` has."""
    line = [
        sys.executable,
        "-m",
        "tarrafa.server.internal.peer_server",
        "--data",
        str(data.root),
        "--parent",
        str(os.getpid()),
    ]
    process = subprocess.Popen(
        [*line, "--host", "127.0.0.1", "--address_file", str(told)],
        env=os.environ | {TOKEN_VARIABLE: TOKEN.secret.decode()},
    )
    try:
        while not told.exists():
            with suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"ended with {process.wait(0.02)}")
        yield
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert not told.exists(), "it does not answer any more"


class Coordinating:
    """The registry of a coordinator, its shards, and its page over an index of its own."""

    def __init__(self, root: Path, own: DataDirectory | None = None) -> None:
        self.data = DataDirectory(root / "coordinator")
        self.data.create()
        self.now = 1_000.0
        self.begin()
        self.page = RunningSite(
            own or self.data, searcher=Searcher.over_changing_shards(own or self.data, self.present)
        )

    def begin(self) -> None:
        """As a coordinator does that is started, and started again."""
        self.nodes = NodeRegistry(open_store(self.data), own="casa")
        self.shards = NodeShards(self.nodes, TOKEN, lambda: self.now)
        self.shards.refresh()

    def present(self) -> tuple[RemoteShard | UnavailableShard, ...]:
        return self.shards()

    def hear(self, name: str, address: str, process: str = HERE) -> None:
        self.nodes.receive_heartbeat(a_beat(name, process=process, address=address.rstrip("/")), self.now)
        self.shards.refresh()

    def find(self, text: str) -> tuple[set[str], dict[str, str]]:
        """The hosts that are found, and who is away and why."""
        found = json.loads(self.page.get(f"/search.json?q={quote(text)}")[1])
        return {hit["site"] for hit in found["hits"]}, {
            one["name"]: one["trouble"] for one in found["shards"] if one["trouble"]
        }


@pytest.fixture
def there(tmp_path: Path, indexes: dict[str, DataDirectory]) -> Iterator[Coordinating]:
    made = Coordinating(tmp_path, indexes["casa"])
    with made.page:
        yield made
    made.shards._replace_shards({})


def test_nodes_are_asked_as_they_come_and_go(there, indexes):
    assert there.find("peixe") == ({"casa.test"}, {})
    with as_shard(indexes["um"]) as one, as_shard(indexes["dois"]) as two:
        there.nodes.join(a_joining("um", HERE), there.now)
        there.shards.refresh()
        assert there.find("peixe") == ({"casa.test"}, {}), "it has not said where it answers"
        there.hear("um", one.address)
        assert there.find("peixe") == ({"casa.test", "um.test"}, {})
        there.hear("dois", two.address)
        assert there.find("peixe") == ({"casa.test", "um.test", "dois.test"}, {})
        assert "3 pages can be searched" in there.page.get("/")[1]
        assert "dois.test" in there.page.get("/search.csv?q=dois")[1]
        assert "dois.test" in there.page.get("/search.rss?q=dois")[1]
        assert "doiss" in json.loads(there.page.get("/suggest?q=doi")[1])[1]
        assert "Página dois" in there.page.get("/?q=peixe")[1]
        there.nodes.set_orders("um", NodeOrders(roles=("worker", "follower")), there.now)
        there.shards.refresh()
        assert there.find("peixe") == ({"casa.test", "dois.test"}, {}), "it left in peace"
        there.nodes.set_orders("um", NodeOrders(), there.now)
        there.hear("um", one.address)
        assert there.find("peixe")[0] == {"casa.test", "um.test", "dois.test"}
    there.now += FORGET_AFTER_S + 1
    for name in ("um", "dois"):
        there.nodes.forget(name, there.now)
    there.shards.refresh()
    assert there.find("peixe") == ({"casa.test"}, {})


def test_one_that_does_not_answer_is_named_by_its_name_and_taken_up_at_another_port(there, indexes):
    with as_shard(indexes["um"]) as one:
        there.hear("um", one.address)
        assert there.find("peixe") == ({"casa.test", "um.test"}, {})
    found, away = there.find("um")
    assert found == set()
    assert away["um"].startswith("no answer")
    shown = there.page.get("/?q=casa")[1]
    assert "Without the pages of um: no answer" in shown
    assert "Sem as páginas de um: nenhuma resposta" in there.page.get("/?q=casa&hl=pt")[1]
    assert "Página casa" in re.sub("<[^>]*>", "", shown)
    with as_shard(indexes["um"]) as one:
        there.hear("um", one.address)
        assert there.find("um") == ({"um.test"}, {}), "at once, and not when the pause is over"


def test_one_that_was_started_again_at_the_same_port_is_asked_at_once(there, indexes):
    with reserved_port() as port:
        with as_shard(indexes["um"], port) as one:
            there.hear("um", one.address)
        assert "um" in there.find("peixe")[1]
        there.now += NODE_SILENT_AFTER_S + 1
        there.nodes.join(a_joining("um", f"{HERE}0"), there.now)
        there.shards.refresh()
        assert there.find("peixe")[1] == {"um": "its search process does not run"}
        with as_shard(indexes["um"], port) as one:
            there.hear("um", one.address, f"{HERE}0")
            assert there.find("peixe") == ({"casa.test", "um.test"}, {})


def test_one_that_is_silent_for_long_is_named_and_asked_no_more(there, indexes):
    with as_shard(indexes["um"]) as one:
        there.hear("um", one.address)
        there.now += NODE_SILENT_AFTER_S + 1
        there.shards.refresh()
        assert there.find("peixe") == ({"casa.test", "um.test"}, {}), "its search may answer all the same"
        there.now += GIVEN_UP_AFTER_S
        there.shards.refresh()
        assert there.find("peixe") == ({"casa.test"}, {"um": "it is silent"})
        there.hear("um", one.address)
        assert there.find("peixe") == ({"casa.test", "um.test"}, {})


def test_what_an_earlier_coordinator_wrote_down_is_missed_and_not_asked(there, indexes):
    with as_shard(indexes["um"]) as one:
        there.nodes.join(a_joining("um", HERE), there.now)
        there.hear("um", one.address)
        there.begin()
        assert there.find("peixe") == ({"casa.test"}, {"um": "it is silent"})
        there.hear("um", one.address)
        assert there.find("peixe") == ({"casa.test", "um.test"}, {})


def test_a_node_without_an_index_is_no_trouble_nor_is_a_coordinator_without_one(tmp_path, indexes):
    made, told = Coordinating(tmp_path), tmp_path / "told"
    with made.page, a_nodes_search(new_data(tmp_path / "new"), told), as_shard(indexes["um"]) as one:
        assert made.page.get("/?q=peixe")[0].status == 503
        made.hear("novo", told.read_text())
        assert made.find("peixe") == (set(), {})
        assert made.page.get("/?q=peixe")[0].status == 200
        made.hear("um", one.address)
        assert made.find("peixe") == ({"um.test"}, {})
        assert "1 page can be searched" in made.page.get("/")[1]
    made.shards._replace_shards({})


def test_connections_of_those_who_left_are_closed(there, indexes):
    with as_shard(indexes["um"]) as one:
        there.hear("um", one.address)
        there.find("peixe")
        (shard,) = there.shards()
        assert isinstance(shard, RemoteShard)
        assert shard._peer._idle
        there.nodes.set_orders("um", NodeOrders(roles=("worker",)), there.now)
        there.shards.refresh()
        assert there.shards() == ()
        assert not shard._peer._idle
        assert shard._closed.is_set()


async def test_it_looks_by_itself_and_lets_all_go_at_the_end(there, monkeypatch):
    monkeypatch.setattr(search_peers, "NODE_HEARTBEAT_EVERY_S", 0.01)

    async with NodeShards(there.nodes, TOKEN, lambda: there.now) as shards:
        assert shards() == ()
        there.nodes.receive_heartbeat(a_beat("um", process=HERE, address="http://127.0.0.1:9"), there.now)
        await wait_until(shards)
        (shard,) = shards()
        assert shard.name == "um"
        assert isinstance(shard, RemoteShard)
    assert shards() == ()
    assert shard._closed.is_set()


# -- addresses --------------------------------------------------------------------------------------------------------


def a_node(address: str, name: str = "um", process: str = THERE, silent_s: float | None = 0.0) -> SearchNode:
    return SearchNode(name, address, process, silent_s)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://10.0.0.5:41234", "http://10.0.0.5:41234"),
        ("http://10.0.0.5:41234/", "http://10.0.0.5:41234"),
        ("HTTPS://10.0.0.5", "https://10.0.0.5"),
        ("http://[fd00::5]:41234", "http://[fd00::5]:41234"),
    ],
)
def test_where_a_node_is_asked(address, url):
    assert peer_addresses([a_node(address)]) == {"um": PeerAddress(url, THERE)}


@pytest.mark.parametrize(
    "address",
    [
        "x", "10.0.0.5:80", "//10.0.0.5", "ftp://10.0.0.5", "file:///etc/passwd", "http://", "http://:80", "http://10.0.0.5:x",
        "http://10.0.0.5:99999", "http://u:p@10.0.0.5", "http://u@10.0.0.5", "http://10.0.0.5?x", "http://10.0.0.5#x",
        "http://10.0.0.5/latest/meta-data", "http://a.test:80", "http://localhost:80", "http://2130706433", "http://127.1",
        "http://0x7f.0.0.1", "http://0.0.0.0:80", "http://[::]:80", "http://224.0.0.1", "http://10.0.0.5 x", "http://[::1",
        "http://10.0.0.5\\@a.test", "http://１０.0.0.5",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_is_named_and_not_asked(address):
    assert peer_addresses([a_node(address)]) == {"um": PeerAddress(why=NO_ADDRESS)}


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:80", "http://127.8.8.8", "http://[::1]:80", "http://[::ffff:127.0.0.1]"]
)
def test_loopback_means_a_node_on_this_machine(address):
    assert peer_addresses([a_node(address)])["um"].why == LOOPBACK_ONLY
    assert peer_addresses([a_node(address, process=HERE)])["um"].url == address


def test_a_public_address_is_asked_by_tls_only(monkeypatch, there, indexes):
    monkeypatch.setattr(
        "tarrafa.fetch.node_client.is_forbidden_address", lambda address: False
    )  # as if loopback were public
    with as_shard(indexes["um"]) as one:
        there.hear("um", one.address)
        found, away = there.find("peixe")
    assert found == {"casa.test"}
    assert away["um"].startswith("without TLS a token is sent to no public address")


def test_of_two_that_tell_one_address_the_living_one_is_asked():
    address = "http://10.0.0.5:80"
    old, new = a_node(address, "antigo", silent_s=NODE_SILENT_AFTER_S + 1), a_node(f"{address}/", "novo")
    assert peer_addresses([old, new]) == {
        "antigo": PeerAddress(why=DUPLICATE_ADDRESS),
        "novo": PeerAddress(address, THERE),
    }
    assert [place.url for place in peer_addresses([new, a_node(address, "outro")]).values()] == [address, ""]


def test_who_has_nothing_to_say_is_missing():
    found = peer_addresses([a_node("", "um"), a_node("http://10.0.0.5", "dois", silent_s=None)])
    assert found == {"dois": PeerAddress(why=SILENT), "um": PeerAddress(why=NOT_RUNNING)}
    made = NodeShards(NodeRegistry.__new__(NodeRegistry), TOKEN)
    made._replace_shards(found)
    assert [type(shard) for shard in made()] == [UnavailableShard, UnavailableShard]
