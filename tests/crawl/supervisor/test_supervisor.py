"""The start of a supervisor."""

from pathlib import Path

import pytest

from tarrafa.config.sections import Collection
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.worker.session_harness import a_collection


async def test_no_worker_is_started_before_a_known_frontier_has_the_present_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, launches = Supervisor._submit, list[int]()

    async def counted(supervisor: Supervisor, collection: Collection) -> None:
        launches.append(supervisor._workers[0].launches)
        await submit(supervisor, collection)

    monkeypatch.setattr(Supervisor, "_submit", counted)
    data = DataDirectory(tmp_path / "d")
    for delay_s in (1.0, 2.0):
        async with Supervisor(data, 1, submitted=a_collection(politeness={"delay": delay_s})):
            pass
    assert launches[-1] == 0
