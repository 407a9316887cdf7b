"""The HTTP client of a node: joins the coordinator and sends it heartbeats.

Two questions over HTTP: may I join, and here is my beat. Promises: an answer, or one line that says why there is
none, within a few seconds; the token goes to the coordinator and to nobody else, without TLS to no public address
(`peer`). Knows nothing of what a node does. Blocking: to be called from a thread.
"""

from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from tarrafa.coordinator.node.messages import JoinRequest, JoinResponse, NodeHeartbeat, NodeOrders, decode_message
from tarrafa.errors import AccessRefused, ConfigError, NameTaken, Unreachable
from tarrafa.fetch.node_client import (
    ERROR_CHARS_MAX,
    NodeHttpClient,
    NodeRequestFailed,
    NodeRequestRefused,
    check_node_url,
)
from tarrafa.runtime.heartbeat import printable_text
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token

TIME_MAX_S = 5.0
RESPONSE_BYTES_MAX, JOIN_RESPONSE_BYTES_MAX = 64 << 10, 96 << 20  # an invitation holds the secrets of all collections
NODES_PATH = "/nodes/v1"
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the coordinator's"

T = TypeVar("T", bound=msgspec.Struct)


class CoordinatorClient:
    """A node's line to its coordinator."""

    def __init__(self, url: str, token: Token) -> None:
        self.url = check_node_url(url, "--join")
        if not token:
            raise ConfigError(
                f"--join needs the coordinator's token: --token-file FILE, or {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
            )
        self.token = token
        self.local = ""  # the address of ours that the last answer came to
        self._peer = NodeHttpClient(self.url, token.secret, "application/json", TIME_MAX_S, private=True)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def join(self, who: JoinRequest) -> JoinResponse:
        return self._post("/join", who, JoinResponse, JOIN_RESPONSE_BYTES_MAX)

    def heartbeat(self, beat: NodeHeartbeat) -> NodeOrders:
        return self._post(f"/{quote(beat.node, safe='')}/beat", beat, NodeOrders)

    def _post(self, path: str, question: msgspec.Struct, kind: type[T], bytes_max: int = RESPONSE_BYTES_MAX) -> T:
        try:
            answer = self._peer.post(f"{NODES_PATH}{path}", msgspec.json.encode(question), bytes_max)
        except NodeRequestRefused as error:
            raise AccessRefused(f"{self.url}: {error}") from None
        except NodeRequestFailed as error:
            raise Unreachable(f"{self.url}: {error}") from None
        self.local = answer.local or self.local
        code = answer.code
        try:
            if code == 200:
                return decode_message(answer.body, kind)
            sentence = printable_text(str(msgspec.json.decode(answer.body)["error"]), ERROR_CHARS_MAX)
        except (ValueError, msgspec.MsgspecError, TypeError, KeyError):
            raise Unreachable(f"{self.url}: what answers there is no coordinator of Tarrafa (HTTP {code})") from None
        if code == 409:
            raise NameTaken(f"{self.url}: {sentence}")
        if code == 401:
            raise AccessRefused(f"{self.url}: {WRONG_TOKEN}")
        if 400 <= code < 500:
            raise AccessRefused(f"{self.url}: it does not take what we say ({sentence}); are both of the same version?")
        raise Unreachable(f"{self.url}: {sentence}")
