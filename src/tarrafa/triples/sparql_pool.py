"""SparqlPool: answers SPARQL queries in a pool of processes, under limits of time and memory.

Promises: no query takes more than a named time, memory or number of results, and the caller never blocks: one of a few
processes (`sparql_process`) answers it, and is killed and replaced when the time is over, when it needs too much
memory, or when the caller has gone. More queries than processes wait for a short time, in a bounded number; further
ones are refused with a request to retry. No client has all processes or all waiting places, and waiting clients have
their turns one after the other. Knows nothing of HTTP.
"""

import asyncio
from collections import Counter

import msgspec

from tarrafa.errors import Busy, DataError, QueryError, QueryLimitExceeded, TarrafaError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sandbox import SandboxProcess
from tarrafa.triples.sparql_matches import FindPages, MatchingPages, match_patterns
from tarrafa.triples.sparql_process import MEMORY_BYTES, SparqlFailure, SparqlRequest, SparqlResponse
from tarrafa.triples.sparql_results import RESULT_BYTES_MAX

PROCESSES = 2
TIME_MAX_S = 10.0
RESULTS_MAX = 10_000
WAITING_MAX = 16
WAITING_SHARE = 0.25
WAIT_MAX_S = 3.0
PROCESS_MODULE = "tarrafa.triples.sparql_process"
ENVELOPE_BYTES = 4_096  # around the body of a response


class SparqlLimits(msgspec.Struct, frozen=True):
    """The limits of a query. `results`: solutions or statements; the rest is cut off."""

    time_s: float = TIME_MAX_S
    results: int = RESULTS_MAX
    processes: int = PROCESSES
    waiting: int = WAITING_MAX
    wait_s: float = WAIT_MAX_S


class NoAcceptableFormat(QueryError):
    """The result has no format that the client accepts."""


class ProcessQueue:
    """Decides whose query gets the next process. Each process but one may work for the same client, and each client may
    have WAITING_SHARE of the waiting places. Nobody waits who could have a process: each release hands it on at once.
    """

    def __init__(self, limits: SparqlLimits) -> None:
        self._limits = limits
        self._running = Counter[str]()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}  # clients in the order of their turns

    async def acquire(self, client: str, wait_s: float) -> None:
        if self._may_run(client):
            self._running[client] += 1
            return
        self._check_room(client)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, []).append(turn)
        try:
            async with asyncio.timeout(wait_s):
                await turn
        except BaseException as error:
            if not turn.cancelled():  # its turn came in the same moment
                self.release(client)
            if isinstance(error, TimeoutError):
                raise Busy("other queries are being answered; try again in some seconds") from None
            raise
        finally:
            self._waiting[client].remove(turn)
            if not self._waiting[client]:
                del self._waiting[client]

    def release(self, client: str) -> None:
        self._running -= Counter((client,))
        self._move_back(client)
        for one in filter(self._may_run, self._waiting):
            turn = next((turn for turn in self._waiting[one] if not turn.done()), None)
            if turn is not None:
                self._running[one] += 1
                turn.set_result(None)
                self._move_back(one)
                return

    def _move_back(self, client: str) -> None:
        """The other clients come first."""
        if client in self._waiting:
            self._waiting[client] = self._waiting.pop(client)

    def _may_run(self, client: str) -> bool:
        processes = self._limits.processes
        return self._running.total() < processes and self._running[client] < max(1, processes - 1)

    def _check_room(self, client: str) -> None:
        count, own = sum(map(len, self._waiting.values())), len(self._waiting.get(client, ()))
        if own >= max(1, self._limits.waiting * WAITING_SHARE):
            raise Busy(f"{own} of your queries are waiting already; try again in some seconds")
        if count >= self._limits.waiting:
            raise Busy(f"{count} queries are waiting already; try again in some seconds")


class SparqlPool:
    """Queries the store of a data directory. One per server process; must be closed at the end."""

    def __init__(self, data: DataDirectory, limits: SparqlLimits | None = None) -> None:
        self._data, self.limits = data, limits or SparqlLimits()
        self._queue = ProcessQueue(self.limits)
        self._is_closed = False
        self._idle: list[SandboxProcess] = []
        self._all: list[SandboxProcess] = []
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(SparqlResponse)

    async def ask(
        self, request: SparqlRequest, client: str = "", find_pages: FindPages | None = None
    ) -> SparqlResponse:
        """The response; its errors are raised. `results_max` of the request can only lower the limit; `client` is the
        address that the query counts for. `find_pages` searches the texts of tarrafa:matches, in a thread.
        """
        most = max(0, min(request.results_max, self.limits.results))
        self._encoded(request)
        await self._queue.acquire(client, self.limits.wait_s)
        try:
            self._check_open()
            found = await self._find_pages(request.text, find_pages) if find_pages is not None else {}
            matches = {text: list(pages.urls) for text, pages in found.items()}
            content = self._encoded(msgspec.structs.replace(request, results_max=most, matches=matches))
            process = self._idle.pop() if self._idle else self._another()
            try:
                return _with_limits(_raise_failure(await self._answered(process, content)), found)
            finally:
                self._idle.append(process)
        finally:
            self._queue.release(client)

    def _encoded(self, request: SparqlRequest) -> bytes:
        try:
            return self._encode(request)
        except UnicodeEncodeError:
            raise QueryError("the query is not valid UTF-8") from None

    async def _find_pages(self, query: str, find_pages: FindPages) -> dict[str, MatchingPages]:
        """The pages for each text of the query. In threads: also a long query takes a second to look through."""
        found: dict[str, MatchingPages] = {}
        try:
            async with asyncio.timeout(self.limits.time_s):
                for pattern in await asyncio.to_thread(match_patterns, query):
                    if pattern.text not in found:
                        found[pattern.text] = await asyncio.to_thread(find_pages, pattern.text)
        except TimeoutError:
            raise QueryLimitExceeded(
                f"the search for tarrafa:matches took more than {self.limits.time_s:g} s; search for less"
            ) from None
        return found

    async def _answered(self, process: SandboxProcess, content: bytes) -> SparqlResponse:
        try:
            await process.ensure_started()  # the time to start does not count for the query
            self._check_open()  # a process killed while it started has been started again
            async with asyncio.timeout(self.limits.time_s):
                response = self._decoder.decode(await process.request(content))
            if response.is_spent:
                process.kill()
            return response
        except TimeoutError:
            process.kill()
            raise QueryLimitExceeded(
                f"the query took more than {self.limits.time_s:g} s and was stopped; ask for less, or more exactly"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            process.kill()
            self._check_open()
            raise QueryLimitExceeded(
                f"the query needs more memory than the {MEMORY_BYTES >> 20} MB allowed; ask for less, or simplify it"
            ) from None
        except BaseException:  # the caller has gone
            process.kill()
            raise

    def _another(self) -> SandboxProcess:
        process = SandboxProcess(PROCESS_MODULE, RESULT_BYTES_MAX + ENVELOPE_BYTES, quiet=True, data=self._data)
        self._all.append(process)
        return process

    def _check_open(self) -> None:
        if self._is_closed:
            raise Busy("no more queries are answered: the server is being stopped")

    def close(self) -> None:
        """Answer no more queries; running ones end with an error."""
        self._is_closed = True
        for process in self._all:
            process.kill()

    def __enter__(self) -> "SparqlPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_ERRORS: dict[SparqlFailure, type[TarrafaError]] = {
    SparqlFailure.MALFORMED: QueryError,
    SparqlFailure.UNWANTED: NoAcceptableFormat,
    SparqlFailure.COSTLY: QueryLimitExceeded,
    SparqlFailure.DATA: DataError,
}


def _raise_failure(response: SparqlResponse) -> SparqlResponse:
    if response.trouble is None:
        return response
    raise _ERRORS[response.trouble](response.sentence)


def _with_limits(response: SparqlResponse, found: dict[str, MatchingPages]) -> SparqlResponse:
    cut = [len(pages.urls) for pages in found.values() if pages.is_cut]
    missing = dict.fromkeys(name for pages in found.values() for name in pages.missing)
    return msgspec.structs.replace(response, matches_max=max(cut, default=0), missing=tuple(missing))


def ask_sparql(
    data: DataDirectory,
    request: SparqlRequest,
    limits: SparqlLimits | None = None,
    find_pages: FindPages | None = None,
) -> SparqlResponse:
    """One query, for callers without an event loop."""

    async def once() -> SparqlResponse:
        with SparqlPool(data, limits) as pool:
            return await pool.ask(request, find_pages=find_pages)

    return asyncio.run(once())
