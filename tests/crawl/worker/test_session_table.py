"""The sessions of a worker by their hosts."""

from types import SimpleNamespace
from typing import Any, cast

from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.host_session import HostSession, SessionTable


class IdleSession:
    """A session on host 7 without visits."""

    def __init__(self) -> None:
        self.lease: Any = SimpleNamespace(host=7)

    async def run(self) -> None:
        return


async def test_the_new_session_of_a_host_stays_when_the_end_of_the_old_one_becomes_known_late():
    table = SessionTable(cast(WorkerCollections, None))
    old, new = cast(HostSession, IdleSession()), cast(HostSession, IdleSession())
    for session in (old, new):
        await table.start(session)
    table.remove(old)
    assert table.get(7) is new
    table.remove(new)
    assert 7 not in table
