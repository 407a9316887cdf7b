"""What does the index of another machine answer?

Promises: the same as a shard here, or `ShardAway` with one line that says why, within the time limit, whatever the
other end does or sends. Connections are kept and used again. A shard that is away costs one search its time limit, not
every one: from then on everybody is told so at once, and a thread of its own asks after it, after growing pauses, until
it answers; `close` ends that, and the connections (`peer`).
Knows nothing of tantivy or of ranking.
"""

import threading
from collections.abc import Sequence
from math import isfinite
from typing import Any

from tarrafa.errors import DataError, QueryError, ShardAway
from tarrafa.fetch.peer import NoAnswer, Peer, checked
from tarrafa.frontier.token import TOKEN_VARIABLE, Token
from tarrafa.model import UrlId
from tarrafa.search import conversation
from tarrafa.search.conversation import CONTENT_TYPE, METHODS, PATH, UNREADABLE, VERSION, one_line
from tarrafa.search.question import Block, Part, Place, Question, Shown, Statistics

LIMIT_S = 2.0  # for one question; a search has three
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0  # before a shard that is away is asked after again
NO_TOKEN = Token()
NOT_US = "what answers here is no shard of Tarrafa; `tarrafa serve --as-shard` is one"
GARBAGE = "what it answers cannot be understood"
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the same on both machines"


class RemoteShard:
    """The Protocol over HTTP, in any number of threads. People know it by its `name`, else by its address; `private`:
    without TLS the token is sent to no public address."""

    def __init__(
        self,
        url: str,
        token: Token = NO_TOKEN,
        limit_s: float = LIMIT_S,
        pause_s: float = PAUSE_S,
        name: str = "",
        private: bool = False,
    ) -> None:
        self._peer = Peer(checked(url, "--shard"), token.secret, CONTENT_TYPE, limit_s, private)
        self._name = name or self._peer.url
        self._trouble = ""
        self._first_pause_s = self._pause_s = pause_s
        self._lock, self._present, self._closed = threading.Lock(), threading.Event(), threading.Event()
        self._present.set()

    @property
    def name(self) -> str:
        return self._name

    def documents(self) -> int:
        found: int = self._ask("documents")
        return found

    def statistics(self, question: Question) -> Statistics:
        found: Statistics = self._ask("statistics", question)
        return found

    def best(self, question: Question, together: Statistics, limit: int) -> Block:
        found: Block = self._ask("best", question, together, limit)
        self._must_find(found, limit)
        self._pause_s = self._first_pause_s
        return found

    def show(self, question: Question, moment: int, places: list[Place]) -> list[Shown]:
        found: list[Shown] = self._ask("show", question, moment, places)
        self._must(len(found) == len(places))
        return found

    def find(self, question: Question, ids: list[UrlId]) -> Block:
        found: Block = self._ask("find", question, ids)
        self._must_find(found, len(ids))
        return found

    def why(self, question: Question, together: Statistics, url: str) -> list[Part]:
        found: list[Part] = self._ask("why", question, together, url)
        return found

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = self._ask("complete", beginning, before, limit)
        return found

    def alike(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = self._ask("alike", word, limit)
        return found

    def speaking(self, question: Question, together: Statistics, pages: int, limit: int) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = self._ask("speaking", question, together, pages, limit)
        self._must(all(isfinite(held) for _, held in found))
        return found

    def close(self) -> None:
        """Ask it no more, nor after it."""
        self._closed.set()
        self._peer.close()

    # -- whether it is there ---------------------------------------------------------------------------------------

    def _ask(self, method: str, *arguments: object) -> Any:
        if not self._present.is_set():
            raise ShardAway(self._trouble)
        try:
            return self._call(method, arguments)
        except ShardAway as error:
            self._miss(str(error))
            raise

    def _must(self, fits: bool) -> None:
        """What it said must be an answer to what it was asked."""
        if not fits:
            self._miss(GARBAGE)
            raise ShardAway(GARBAGE)

    def _must_find(self, found: Block, limit: int) -> None:
        numbers = (number for one in found.candidates for number in (one.score, one.order))
        self._must(len(found.candidates) <= limit and all(map(isfinite, numbers)))

    def _miss(self, trouble: str) -> None:
        with self._lock:
            if self._present.is_set():
                self._trouble = trouble
                self._present.clear()
                threading.Thread(target=self._ask_after, name=f"asks after {self._name}", daemon=True).start()

    def _ask_after(self) -> None:
        """Until it answers. The pause goes on growing until it has answered a search, too."""
        try:
            while not self._closed.wait(self._pause_s) and not self._is_back():
                pass
        finally:
            self._present.set()

    def _is_back(self) -> bool:
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        try:
            self._call("documents", ())
        except ShardAway as error:
            self._trouble = str(error)
            return False
        except DataError:  # it is there, if not well
            pass
        return True

    # -- one question ----------------------------------------------------------------------------------------------

    def _call(self, method: str, arguments: Sequence[object]) -> Any:
        body = conversation.encode(arguments)
        if len(body) > conversation.QUESTION_BYTES_MAX:
            raise QueryError("The search is too long to be asked of other machines.")
        try:
            answer = self._peer.post(f"{PATH}/{VERSION}/{method}", body, conversation.ANSWER_BYTES_MAX)
        except NoAnswer as error:
            raise ShardAway(str(error)) from None
        code = answer.code
        try:
            if answer.type != CONTENT_TYPE:
                raise ShardAway(f"it has no time for us (HTTP {code})" if code == conversation.INDEX else NOT_US)
            if code == 200:
                return METHODS[method].result.decode(answer.body)
            sentence = one_line(conversation.decode_sentence(answer.body))
        except UNREADABLE:
            raise ShardAway(GARBAGE) from None
        raise _said(code, sentence)


def _said(code: int, sentence: str) -> Exception:
    """What it means that a shard will not answer."""
    if code == conversation.QUERY:
        return QueryError(sentence)
    if code == conversation.INDEX:
        return DataError(sentence)
    return ShardAway(WRONG_TOKEN if code == conversation.TOKEN else sentence)
