"""Which tests are too lengthy for every run? They are played with `make test-long`."""

import pytest

LENGTHY = frozenset({
    "tests.frontier.test_spread", "tests.frontier.test_spread_books", "tests.frontier.test_spread_killed",
    "tests.frontier.test_spread_meanwhile",
    "tests.frontier.test_breadth_at_once", "tests.frontier.test_postgres_life", "tests.journey.test_relations",
    "tests.journey.test_shards", "tests.journey.test_spread", "tests.journey.test_orders",
})  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        module = getattr(item, "module", None)
        if module is not None and module.__name__ in LENGTHY:
            item.add_marker(pytest.mark.long)
