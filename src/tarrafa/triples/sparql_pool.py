"""SparqlPool: answers SPARQL queries in a pool of processes, under limits of time and memory.

Promises: no query takes more than a named time, memory or number of results, and the caller never blocks: one of a few
processes (`sparql_process`) answers it, and is killed and replaced when the time is over, when it needs too much
memory, or when the caller has gone. More queries than processes wait for a short time, in a bounded number; further
ones are refused with a request to retry. Knows nothing of HTTP.
"""

import asyncio

import msgspec

from tarrafa.errors import Busy, DataError, QueryError, QueryLimitExceeded, TarrafaError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sandbox import SandboxProcess
from tarrafa.triples.sparql_process import MEMORY_BYTES, SparqlFailure, SparqlRequest, SparqlResponse
from tarrafa.triples.sparql_results import RESULT_BYTES_MAX

PROCESSES = 2
TIME_MAX_S = 10.0
RESULTS_MAX = 10_000
WAITING_MAX = 16
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


class SparqlPool:
    """Queries the store of a data directory. One per server process; must be closed at the end."""

    def __init__(self, data: DataDirectory, limits: SparqlLimits | None = None) -> None:
        self._data, self.limits = data, limits or SparqlLimits()
        self._places = asyncio.Semaphore(self.limits.processes)
        self._waiting = 0
        self._is_closed = False
        self._idle: list[SandboxProcess] = []
        self._all: list[SandboxProcess] = []
        self._encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(SparqlResponse)

    async def ask(self, request: SparqlRequest) -> SparqlResponse:
        """The response; its errors are raised. `results_max` of the request can only lower the limit."""
        most = max(0, min(request.results_max, self.limits.results))
        try:
            content = self._encode(msgspec.structs.replace(request, results_max=most))
        except UnicodeEncodeError:
            raise QueryError("the query is not valid UTF-8") from None
        await self._wait_for_slot()
        try:
            self._check_open()
            process = self._idle.pop() if self._idle else self._another()
            try:
                return _raise_failure(await self._answered(process, content))
            finally:
                self._idle.append(process)
        finally:
            self._places.release()

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

    async def _wait_for_slot(self) -> None:
        if self._waiting >= self.limits.waiting and self._places.locked():
            raise Busy(f"{self._waiting} queries are waiting already; try again in some seconds")
        self._waiting += 1
        try:
            async with asyncio.timeout(self.limits.wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise Busy("other queries are being answered; try again in some seconds") from None
        finally:
            self._waiting -= 1

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


def ask_sparql(data: DataDirectory, request: SparqlRequest, limits: SparqlLimits | None = None) -> SparqlResponse:
    """One query, for callers without an event loop."""

    async def once() -> SparqlResponse:
        with SparqlPool(data, limits) as pool:
            return await pool.ask(request)

    return asyncio.run(once())
