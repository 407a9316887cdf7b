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
