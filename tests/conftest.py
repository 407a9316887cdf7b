"""Settings for all tests."""

from itertools import chain, zip_longest

import pytest
from hypothesis import settings

# Without this, an example that takes 200 ms fails: on a machine where others work, too, any does now and then.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests and fixtures run on asyncio, each test in an event loop of its own."""
    return "asyncio"


@pytest.hookimpl(trylast=True)  # after the marks have chosen the tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Journeys are long and mostly wait: one file of them, then one file of other tests, so that journeys run beside
    tests that compute, and are not the last."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    journeys = [tests for name, tests in files.items() if "/journey/" in name]
    others = [tests for name, tests in files.items() if "/journey/" not in name]
    in_turns = chain.from_iterable(zip_longest(journeys, others, fillvalue=[]))
    items[:] = chain.from_iterable(in_turns)
