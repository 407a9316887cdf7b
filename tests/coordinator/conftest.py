"""The coordinator as a fixture, on a clock that the test moves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.coordinator.coordinator_harness import CoordinatorHarness, coordinator_harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[CoordinatorHarness]:
    async with coordinator_harness(tmp_path) as harness:
        yield harness
