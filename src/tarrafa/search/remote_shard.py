"""RemoteShard: searches the index of another machine over HTTP; and the wire format of the Shard protocol.

    POST URL/shard/VERSION/METHOD    the arguments in msgpack; the result in msgpack, or a message and a code:
                                     400 the request, 401 the token, 409 the version, 413 too long, 503 the index
    ...METHOD?parts=1,4              the same of these parts only

Promises: the same as a local shard, or `ShardUnavailable` with one line that gives the reason, within the time limit,
whatever the other machine does or sends. Connections are kept and reused. An unreachable shard costs one search its
time limit, not every search: later searches get `ShardUnavailable` at once, and a thread probes the shard, with growing
pauses, until it answers; `close` ends the probes and the connections (`fetch/node_client.py`). Every method of `Shard`
is known here by its own annotations, bounds included; a value that does not fit is refused at either end before any
other step. VERSION is made of these structs and of a sample of the text analysis, so that two machines that would
misunderstand each other report it. Knows nothing of tantivy or of ranking.
"""

import inspect
import threading
import typing
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from tarrafa.errors import DataError, QueryError, ShardUnavailable
from tarrafa.fetch.node_client import NodeHttpClient, NodeRequestFailed, check_node_url, wire_version
from tarrafa.i18n import Message, Value, message
from tarrafa.index.shards import SHARDS_MAX
from tarrafa.index.text_analysis import readings
from tarrafa.model import UrlId
from tarrafa.runtime.token import NO_TOKEN, TOKEN_VARIABLE, Token
from tarrafa.search.request import (
    CandidateBlock,
    DocumentAddress,
    HitDetails,
    ScorePart,
    SearchRequest,
    Shard,
    ShardParts,
    ShardStatistics,
)

PATH = "/shard"
PARTS_PARAMETER = "parts"
CONTENT_TYPE = "application/x-msgpack"
REQUEST_BYTES_MAX = 1 << 20
RESPONSE_BYTES_MAX = 8 << 20
MESSAGE_CHARS_MAX = 300
MESSAGE_VALUES_MAX = 10
DECODE_ERRORS = (ValueError, RecursionError)  # errors of decoding foreign bytes
STATUS_BAD_QUERY = 400
STATUS_WRONG_TOKEN = 401
STATUS_OTHER_VERSION = 409
STATUS_INDEX_ERROR = 503
ANALYSIS_SAMPLE = "as funções do guarda-chuva, libraries, Straße: 日本語 ½"

REQUEST_TIMEOUT_S = 2.0  # for one request; a search has three
RETRY_PAUSE_S, RETRY_PAUSE_S_MAX = 1.0, 30.0  # before an unreachable shard is probed again
NOT_A_SHARD = message("this address is no shard of Tarrafa; `tarrafa serve --as-shard` starts one")
UNREADABLE_RESPONSE = message("what it answers cannot be understood")
WRONG_TOKEN = message(
    "wrong token: --token-file or {variable} must be the same on both machines", variable=TOKEN_VARIABLE
)

Answer = TypeVar("Answer")


# -- the wire format ---------------------------------------------------------------------------------------------------


class ShardMethod:
    """One method of the Shard protocol, as sent over the network."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(function, include_extras=True)
        returns: Any = hints.pop("return")
        names = [name for name in inspect.signature(function).parameters if name != "self"]
        arguments: Any = tuple[tuple(hints[name] for name in names)] if names else tuple[()]  # type: ignore[misc]
        self.shapes = msgspec.json.schema(tuple[arguments, returns])
        self.arguments = msgspec.msgpack.Decoder(arguments)
        self.result = msgspec.msgpack.Decoder(returns)


METHODS = {
    name: ShardMethod(member) for name, member in vars(Shard).items() if inspect.isfunction(member) and name[0] != "_"
}


def _version() -> str:
    return wire_version({name: method.shapes for name, method in METHODS.items()}, readings(ANALYSIS_SAMPLE))


VERSION = _version()
encode = msgspec.msgpack.Encoder().encode

ShortText = Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARS_MAX)]


class ShardReason(msgspec.Struct, frozen=True):
    """A `Message` from another machine, in bounds: few short values, and no messages inside it."""

    text: ShortText
    values: Annotated[dict[ShortText, ShortText | int | float], msgspec.Meta(max_length=MESSAGE_VALUES_MAX)] = {}


_decode_reason = msgspec.msgpack.Decoder(ShardReason | str).decode


def decode_reason(content: bytes) -> Message | str:
    """The reason that a shard gives for not answering."""
    reason = _decode_reason(content)
    if isinstance(reason, str):
        return one_line(reason)
    values: dict[str, Value] = {
        name: one_line(value) if isinstance(value, str) else value for name, value in reason.values.items()
    }
    received = Message(one_line(reason.text), values)
    str(received)  # raises ValueError where a value does not fit its place
    return received


def other_version(ours: str, theirs: str) -> Message:
    """The message of the answering machine, for the asking one."""
    return message(
        "it is another version of Tarrafa ({there} there, {here} here); install the same one on both machines",
        there=ours,
        here=one_line(theirs),
    )


def one_line(text: str) -> str:
    """A foreign message as one printable line."""
    return " ".join(text.split())[:MESSAGE_CHARS_MAX]


# -- the client --------------------------------------------------------------------------------------------------------


class RemoteShard:
    """The Shard protocol over HTTP, in any number of threads. Messages show its `name`, else its address. `private`:
    without TLS the token is sent to no public address.
    """

    def __init__(
        self,
        url: str,
        token: Token = NO_TOKEN,
        limit_s: float = REQUEST_TIMEOUT_S,
        pause_s: float = RETRY_PAUSE_S,
        name: str = "",
        private: bool = False,
    ) -> None:
        self._peer = NodeHttpClient(check_node_url(url, "--shard"), token.secret, CONTENT_TYPE, limit_s, private)
        self.name = name or self._peer.url
        self._reason: Message | str = ""
        self._first_pause_s = self._pause_s = pause_s
        self._lock, self._present, self._closed = threading.Lock(), threading.Event(), threading.Event()
        self._present.set()

    def documents(self) -> int:
        return self._ask(Shard.documents)

    def count_urls(self) -> int:
        return self._ask(Shard.count_urls)

    def parts(self) -> ShardParts:
        return self._ask(Shard.parts)

    def restricted(self, numbers: Sequence[int]) -> "RemoteShard":
        return _PartsOfRemoteShard(self, numbers)

    def statistics(self, request: SearchRequest) -> ShardStatistics:
        return self._ask(Shard.statistics, request)

    def top_matches(self, request: SearchRequest, overall: ShardStatistics, limit: int) -> CandidateBlock:
        found = self._ask(Shard.top_matches, request, overall, limit)
        self._check_block(found, limit)
        self._note_search()
        return found

    def show(self, request: SearchRequest, moment: int, places: list[DocumentAddress]) -> list[HitDetails]:
        found = self._ask(Shard.show, request, moment, places)
        self._check_response(len(found) == len(places))
        return found

    def find_urls(self, request: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
        found = self._ask(Shard.find_urls, request, ids)
        self._check_block(found, len(ids))
        return found

    def explain_score(self, request: SearchRequest, overall: ShardStatistics, url: str) -> list[ScorePart]:
        return self._ask(Shard.explain_score, request, overall, url)

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        return self._ask(Shard.complete, beginning, before, limit)

    def similar_words(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        return self._ask(Shard.similar_words, word, limit)

    def expansion_terms(
        self, request: SearchRequest, overall: ShardStatistics, pages: int, limit: int
    ) -> list[tuple[str, float]]:
        found = self._ask(Shard.expansion_terms, request, overall, pages, limit)
        self._check_response(all(isfinite(held) for _, held in found))
        return found

    def close(self) -> None:
        """Send no more requests and no more probes."""
        self._closed.set()
        self._peer.close()

    # -- reachability ----------------------------------------------------------------------------------------------

    def _ask(self, method: Callable[..., Answer], *arguments: object) -> Answer:
        return self._ask_parts("", method, arguments)

    def _ask_parts(self, parts: str, method: Callable[..., Answer], arguments: Sequence[object]) -> Answer:
        """`parts`: the query of the URL that restricts the shard."""
        if not self._present.is_set():
            raise ShardUnavailable(self._reason)
        try:
            found: Answer = self._call(method.__name__, arguments, parts)
            return found
        except ShardUnavailable as error:
            self._mark_unavailable(error.message)
            raise

    def _check_response(self, fits: bool) -> None:
        """Check that the response fits the request."""
        if not fits:
            self._mark_unavailable(UNREADABLE_RESPONSE)
            raise ShardUnavailable(UNREADABLE_RESPONSE)

    def _note_search(self) -> None:
        """It has answered a search: a later silence is probed with short pauses again."""
        self._pause_s = self._first_pause_s

    def _check_block(self, found: CandidateBlock, limit: int) -> None:
        self._check_response(len(found.candidates) <= limit and all(isfinite(one.score) for one in found.candidates))

    def _mark_unavailable(self, reason: Message | str) -> None:
        with self._lock:
            if self._present.is_set():
                self._reason = reason
                self._present.clear()
                threading.Thread(target=self._probe_until_back, name=f"probes {self.name}", daemon=True).start()

    def _probe_until_back(self) -> None:
        """Probe until the shard answers. The pause keeps growing until the shard has also answered a search."""
        try:
            while not self._closed.wait(self._pause_s) and not self._is_back():
                pass
        finally:
            self._present.set()

    def _is_back(self) -> bool:
        self._pause_s = min(2 * self._pause_s, RETRY_PAUSE_S_MAX)
        try:
            self._call("documents", ())
        except ShardUnavailable as error:
            self._reason = error.message
            return False
        except DataError:  # it is reachable, though damaged
            pass
        return True

    # -- one request -----------------------------------------------------------------------------------------------

    def _call(self, method: str, arguments: Sequence[object], parts: str = "") -> Any:
        body = encode(arguments)
        if len(body) > REQUEST_BYTES_MAX:
            raise QueryError(message("The search is too long to be sent to other machines."))
        try:
            response = self._peer.post(f"{PATH}/{VERSION}/{method}{parts}", body, RESPONSE_BYTES_MAX)
        except NodeRequestFailed as error:
            raise ShardUnavailable(error.message) from None
        code = response.code
        try:
            if response.type != CONTENT_TYPE:
                busy = message("it is too busy (HTTP {code})", code=code)
                raise ShardUnavailable(busy if code == STATUS_INDEX_ERROR else NOT_A_SHARD)
            if code == 200:
                return METHODS[method].result.decode(response.body)
            reason = decode_reason(response.body)
        except DECODE_ERRORS:
            raise ShardUnavailable(UNREADABLE_RESPONSE) from None
        raise _error_for(code, reason)


class _PartsOfRemoteShard(RemoteShard):
    """Some of the parts of a remote shard, over its connections."""

    def __init__(self, whole: RemoteShard, numbers: Sequence[int]) -> None:
        self._whole, self.name = whole, whole.name
        self._query = f"?{PARTS_PARAMETER}={','.join(map(str, numbers))}"

    def _ask(self, method: Callable[..., Answer], *arguments: object) -> Answer:
        return self._whole._ask_parts(self._query, method, arguments)

    def _check_response(self, fits: bool) -> None:
        self._whole._check_response(fits)

    def _note_search(self) -> None:
        self._whole._note_search()

    def close(self) -> None:
        """The whole shard is closed by its owner."""


def parse_parts(text: str) -> list[int]:
    """The numbers of parts in the query of a URL. Raises `ValueError`."""
    numbers = [int(one) for one in text.split(",", SHARDS_MAX)]
    if not all(1 <= number <= SHARDS_MAX for number in numbers):
        raise ValueError(f"parts have numbers from 1 to {SHARDS_MAX}")
    return numbers


def _error_for(code: int, reason: Message | str) -> Exception:
    """The exception for an error response of a shard."""
    if code == STATUS_BAD_QUERY:
        return QueryError(reason)
    if code == STATUS_INDEX_ERROR:
        return DataError(reason)
    return ShardUnavailable(WRONG_TOKEN if code == STATUS_WRONG_TOKEN else reason)


class UnavailableShard:
    """A shard that is known to be unreachable: it is named with its reason, and no request is sent."""

    def __init__(self, name: str, why: Message) -> None:
        self.name, self._why = name, why

    def _raise(self, *_: object, **__: object) -> NoReturn:
        raise ShardUnavailable(self._why)

    documents = count_urls = parts = statistics = top_matches = show = find_urls = explain_score = complete = (
        similar_words
    ) = expansion_terms = _raise

    def restricted(self, numbers: Sequence[int]) -> "UnavailableShard":
        return self

    def close(self) -> None:
        """There is nothing to close."""
