"""A frontier that is not in the data directory is compared through its calls, over a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarrafa.clock import Clock
from tarrafa.crawl.verify import remote_frontier_check
from tarrafa.crawl.verify.findings import VerifyReport
from tarrafa.crawl.verify.verification import Verification
from tarrafa.frontier.address import UnixSocket
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import SUFFIXES
from tests.crawl.verify import planted
from tests.crawl.verify.conftest import Plant


@asynccontextmanager
async def served_elsewhere(data: DataDirectory, folder: Path) -> AsyncIterator[UnixSocket]:
    """The frontier of a data directory, moved to another place and served there."""
    folder.mkdir()
    path = data.frontier.rename(folder / "frontier.sqlite")
    frontier = SqliteFrontier(path, Clock.real(), SUFFIXES)
    server = await frontier_server.serve_unix(frontier, str(folder / "f.sock"))
    try:
        yield UnixSocket(str(folder / "f.sock"))
    finally:
        server.close()
        await frontier.close()


async def verified(data: DataDirectory, folder: Path) -> VerifyReport:
    def verify() -> VerifyReport:
        with Verification(data, deep=True, frontier=address) as verification:
            return verification.run()

    async with served_elsewhere(data, folder) as address:
        return await asyncio.to_thread(verify)


async def test_a_healthy_archive_and_its_remote_frontier_have_no_finding(copy, tmp_path):
    report = await verified(copy, tmp_path / "elsewhere")
    assert (report.findings, report.notes) == ([], [])


@pytest.mark.parametrize(
    ("plant", "kind"),
    [(planted.visit_without_record, "visit-without-record"), (planted.forget_visit, "record-unknown")],
)
async def test_a_damage_between_archive_and_remote_frontier_is_found(
    copy: DataDirectory, tmp_path: Path, plant: Plant, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_frontier_check, "RECENT_S", -60.0)  # the crawl has ended just now
    plant(copy)
    report = await verified(copy, tmp_path / "elsewhere")
    assert [(one.store, one.kind) for one in report.counts] == [("frontier", kind)]


async def test_records_that_are_as_new_as_the_reading_are_not_compared(copy, tmp_path):
    planted.forget_visit(copy)
    assert (await verified(copy, tmp_path / "elsewhere")).findings == []
