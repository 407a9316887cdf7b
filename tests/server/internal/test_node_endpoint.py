"""The two questions of a node that joins, as a server hears them."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tarrafa.coordinator.node.messages import NODE_HEARTBEAT_BYTES_MAX, JoinResponse, NodeOrders
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.store import open_store
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.server.internal.node_endpoint import create_node_app
from tests.coordinator.node.sample_messages import a_beat, a_joining, as_json
from tests.server.crawler_api_harness import AsgiResponse, asgi_request

SECRET = "a secret of many letters"
RIGHT = f"Bearer {SECRET}"


class Coordinator:
    def __init__(self, data: DataDirectory) -> None:
        self.nodes, self.now = NodeRegistry(open_store(data)), 100.0
        self.app = create_node_app(self.nodes, Token(SECRET.encode()), self.invite, lambda: self.now)

    async def invite(self, orders: NodeOrders) -> JoinResponse:
        return JoinResponse(("tcp://127.0.0.1:8070",), "the frontier's own", orders)

    def post(self, path: str, body: Any, authorization: str = RIGHT, method: str = "POST") -> AsgiResponse:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return asyncio.run(asgi_request(self.app, method, path, content, authorization=authorization))


@pytest.fixture
def there(tmp_path):
    data = DataDirectory(tmp_path / "d")
    data.create()
    return Coordinator(data)


def test_who_joins_learns_where_the_frontier_is_and_who_beats_hears_orders(there):
    joined = there.post("/join", a_joining())
    assert (joined.code, joined.json["frontier"], joined.json["token"]) == (
        200,
        ["tcp://127.0.0.1:8070"],
        "the frontier's own",
    )
    there.nodes.set_orders("one", NodeOrders(workers=1), 100.0)
    answer = there.post("/one/beat", a_beat())
    assert (answer.code, answer.json) == (200, {"number": 1, "workers": 1})


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer wrong", f"Basic {SECRET}", SECRET])
@pytest.mark.parametrize("path", ["/join", "/one/beat", "/"])
def test_nobody_without_the_token_learns_anything_or_changes_anything(there, path, authorization):
    answer = there.post(path, a_joining(), authorization)
    assert answer.code == 401
    assert SECRET.encode() not in answer.body
    assert there.nodes.states(100.0) == []


def test_a_living_nodes_name_is_taken(there):
    there.post("/join", a_joining(process="p1"))
    for path, body in (("/join", a_joining(process="p2")), ("/one/beat", a_beat(process="p2"))):
        answer = there.post(path, body)
        assert answer.code == 409
        assert "another node of that name is running" in answer.json["error"]
    there.now += 60
    assert there.post("/join", a_joining(process="p2")).code == 200


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/join", b"", 400),
        ("/join", b"{}", 400),
        ("/join", b"[" * 50_000, 400),
        ("/join", b"\xff", 400),
        ("/one/beat", b"x" * (NODE_HEARTBEAT_BYTES_MAX + 1), 413),
        ("/two/beat", json.dumps(as_json(a_beat())).encode(), 400),
        ("/one/beat", json.dumps(as_json(a_beat()) | {"at": float("nan")}).encode(), 400),
        ("/one/beat", json.dumps(as_json(a_beat()) | {"at": -1}).encode(), 400),
        ("/one/beat", json.dumps(as_json(a_beat()) | {"lines": [[0, "w", "x"]] * 1_000}).encode(), 400),
        ("/elsewhere", b"{}", 404),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_and_changes_nothing(there, path, body, code):
    answer = there.post(path, body)
    assert answer.code == code
    assert set(answer.json) == {"error"}
    assert answer.json["error"].isprintable()
    assert there.nodes.states(100.0) == []


def test_only_post_is_answered(there):
    assert there.post("/join", a_joining(), method="GET").code == 405


def test_without_a_token_there_is_no_joining(tmp_path):
    data = DataDirectory(tmp_path / "d")
    data.create()
    with pytest.raises(ValueError, match="token"):
        create_node_app(NodeRegistry(open_store(data)), Token(), Coordinator(data).invite, lambda: 0.0)
