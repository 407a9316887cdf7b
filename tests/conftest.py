"""Settings for all tests."""

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
    """Of the four processes of `make test`, each of which begins with a quarter of the tests, two begin with journeys.
    Journeys are long and mostly wait: those begun last would run while nothing else is left."""
    journeys = [item for item in items if "/journey/" in item.nodeid]
    others = [item for item in items if "/journey/" not in item.nodeid]
    modules = sorted({item.nodeid.partition("::")[0] for item in journeys})
    first = [item for item in journeys if modules.index(item.nodeid.partition("::")[0]) % 2 == 0]
    second = [item for item in journeys if item not in first]
    half = max(0, len(items) // 2 - len(first))
    items[:] = [*first, *others[:half], *second, *others[half:]]
