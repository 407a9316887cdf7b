"""Search process: answers one search at a time, for the server that started it.

Started by `search_pool`, which sends it requests over a socket. Promises: a search has the result or the error that it
has in the server itself; every search sees the newest commit. An error that is none of Tarrafa's is reported with its
traceback, and the next search is answered. It ends with the server.
"""

import traceback

import msgspec

from tarrafa import errors
from tarrafa.errors import TarrafaError
from tarrafa.i18n import Message
from tarrafa.model import SearchResult
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sandbox import MessageSocket
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher

READY = b""


class SearchFailure(msgspec.Struct, frozen=True, array_like=True):
    """Why there is no result: a class of `errors` and its message; without a class, a traceback."""

    kind: str
    reason: Message | str

    @classmethod
    def of(cls, error: Exception) -> "SearchFailure":
        if isinstance(error, TarrafaError):
            return cls(type(error).__name__, error.message)
        return cls("", "".join(traceback.format_exception(error)))

    def error(self) -> Exception:
        kind = getattr(errors, self.kind, None)
        return kind(self.reason) if kind is not None else RuntimeError(str(self.reason))


class SearchResponse(msgspec.Struct, frozen=True, array_like=True):
    """The result, or the failure."""

    result: SearchResult | None
    failure: SearchFailure | None = None


def answer(searcher: Searcher, request: SearchRequest) -> SearchResponse:
    try:
        return SearchResponse(searcher.search(request))
    except Exception as error:
        return SearchResponse(None, SearchFailure.of(error))


def main(descriptor: int, data: DataDirectory) -> None:
    line, searcher = MessageSocket(descriptor), Searcher.open(data)
    decode, encode = msgspec.msgpack.Decoder(SearchRequest).decode, msgspec.msgpack.Encoder().encode
    searcher.suggest("a")  # opens the index, and has its words read, before the first search comes
    line.send(READY)
    while True:
        line.send(encode(answer(searcher, decode(line.receive()))))


if __name__ == "__main__":
    run_child(main)
