"""RemoteShard: searches the index of another machine over HTTP, with a timeout and retries.

Promises: the same as a local shard, or `ShardUnavailable` with one line that gives the reason, within the time limit,
whatever the other machine does or sends. Connections are kept and reused. An unreachable shard costs one search its
time limit, not every search: later searches get `ShardUnavailable` at once, and a thread probes the shard, with growing
pauses, until it answers; `close` ends the probes and the connections (`fetch/node_client.py`). `UnavailableShard`
stands for a shard that is known to be unreachable: it is named with its reason, and no request is sent. Knows nothing
of tantivy or of ranking.
"""

import threading
from collections.abc import Sequence
from math import isfinite
from typing import Any, NoReturn

from tarrafa.errors import DataError, QueryError, ShardUnavailable
from tarrafa.fetch.node_client import NodeHttpClient, NodeRequestFailed, check_node_url
from tarrafa.i18n import Message, message
from tarrafa.model import UrlId
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.search import shard_wire
from tarrafa.search.request import (
    CandidateBlock,
    DocumentAddress,
    HitDetails,
    ScorePart,
    SearchRequest,
    ShardStatistics,
)
from tarrafa.search.shard_wire import CONTENT_TYPE, DECODE_ERRORS, METHODS, PATH, VERSION

REQUEST_TIMEOUT_S = 2.0  # for one request; a search has three
RETRY_PAUSE_S, RETRY_PAUSE_S_MAX = 1.0, 30.0  # before an unreachable shard is probed again
NO_TOKEN = Token()
NOT_A_SHARD = message("what answers here is no shard of Tarrafa; `tarrafa serve --as-shard` is one")
UNREADABLE_RESPONSE = message("what it answers cannot be understood")
WRONG_TOKEN = message(
    "wrong token: --token-file or {variable} must be the same on both machines", variable=TOKEN_VARIABLE
)


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
        self._name = name or self._peer.url
        self._trouble: Message | str = ""
        self._first_pause_s = self._pause_s = pause_s
        self._lock, self._present, self._closed = threading.Lock(), threading.Event(), threading.Event()
        self._present.set()

    @property
    def name(self) -> str:
        return self._name

    def documents(self) -> int:
        found: int = self._ask("documents")
        return found

    def statistics(self, question: SearchRequest) -> ShardStatistics:
        found: ShardStatistics = self._ask("statistics", question)
        return found

    def top_matches(self, question: SearchRequest, together: ShardStatistics, limit: int) -> CandidateBlock:
        found: CandidateBlock = self._ask("top_matches", question, together, limit)
        self._check_block(found, limit)
        self._pause_s = self._first_pause_s
        return found

    def show(self, question: SearchRequest, moment: int, places: list[DocumentAddress]) -> list[HitDetails]:
        found: list[HitDetails] = self._ask("show", question, moment, places)
        self._check_response(len(found) == len(places))
        return found

    def find_urls(self, question: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
        found: CandidateBlock = self._ask("find_urls", question, ids)
        self._check_block(found, len(ids))
        return found

    def explain_score(self, question: SearchRequest, together: ShardStatistics, url: str) -> list[ScorePart]:
        found: list[ScorePart] = self._ask("explain_score", question, together, url)
        return found

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = self._ask("complete", beginning, before, limit)
        return found

    def similar_words(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = self._ask("similar_words", word, limit)
        return found

    def expansion_terms(
        self, question: SearchRequest, together: ShardStatistics, pages: int, limit: int
    ) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = self._ask("expansion_terms", question, together, pages, limit)
        self._check_response(all(isfinite(held) for _, held in found))
        return found

    def close(self) -> None:
        """Send no more requests and no more probes."""
        self._closed.set()
        self._peer.close()

    # -- reachability ----------------------------------------------------------------------------------------------

    def _ask(self, method: str, *arguments: object) -> Any:
        if not self._present.is_set():
            raise ShardUnavailable(self._trouble)
        try:
            return self._call(method, arguments)
        except ShardUnavailable as error:
            self._mark_unavailable(error.message)
            raise

    def _check_response(self, fits: bool) -> None:
        """Check that the response fits the request."""
        if not fits:
            self._mark_unavailable(UNREADABLE_RESPONSE)
            raise ShardUnavailable(UNREADABLE_RESPONSE)

    def _check_block(self, found: CandidateBlock, limit: int) -> None:
        numbers = (number for one in found.candidates for number in (one.score, one.order))
        self._check_response(len(found.candidates) <= limit and all(map(isfinite, numbers)))

    def _mark_unavailable(self, trouble: Message | str) -> None:
        with self._lock:
            if self._present.is_set():
                self._trouble = trouble
                self._present.clear()
                threading.Thread(target=self._probe_until_back, name=f"asks after {self._name}", daemon=True).start()

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
            self._trouble = error.message
            return False
        except DataError:  # it is reachable, though damaged
            pass
        return True

    # -- one request -----------------------------------------------------------------------------------------------

    def _call(self, method: str, arguments: Sequence[object]) -> Any:
        body = shard_wire.encode(arguments)
        if len(body) > shard_wire.REQUEST_BYTES_MAX:
            raise QueryError(message("The search is too long to be asked of other machines."))
        try:
            answer = self._peer.post(f"{PATH}/{VERSION}/{method}", body, shard_wire.RESPONSE_BYTES_MAX)
        except NodeRequestFailed as error:
            raise ShardUnavailable(error.message) from None
        code = answer.code
        try:
            if answer.type != CONTENT_TYPE:
                busy = message("it has no time for us (HTTP {code})", code=code)
                raise ShardUnavailable(busy if code == shard_wire.STATUS_INDEX_ERROR else NOT_A_SHARD)
            if code == 200:
                return METHODS[method].result.decode(answer.body)
            reason = shard_wire.decode_reason(answer.body)
        except DECODE_ERRORS:
            raise ShardUnavailable(UNREADABLE_RESPONSE) from None
        raise _error_for(code, reason)


def _error_for(code: int, reason: Message | str) -> Exception:
    """The exception for an error response of a shard."""
    if code == shard_wire.STATUS_BAD_QUERY:
        return QueryError(reason)
    if code == shard_wire.STATUS_INDEX_ERROR:
        return DataError(reason)
    return ShardUnavailable(WRONG_TOKEN if code == shard_wire.STATUS_WRONG_TOKEN else reason)


class UnavailableShard:
    """The Shard protocol of a shard that is known to be unreachable."""

    def __init__(self, name: str, why: Message) -> None:
        self._name, self._why = name, why

    @property
    def name(self) -> str:
        return self._name

    def _away(self, *_: object, **__: object) -> NoReturn:
        raise ShardUnavailable(self._why)

    documents = statistics = top_matches = show = find_urls = explain_score = complete = similar_words = (
        expansion_terms
    ) = _away

    def close(self) -> None:
        """There is nothing to close."""
