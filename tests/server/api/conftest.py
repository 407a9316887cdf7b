"""Fixtures of the console's tests."""

from tests.server.console.conftest import data, dear, furnished, known, quick  # noqa: F401
