"""The frontier's owner is started again, also when somebody kills it before it is ready."""

from pathlib import Path

import pytest

from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.frontier_link import LocalFrontierLink
from tarrafa.errors import DataError
from tests.graph.archived_web import new_data

KILLED = 'echo x >> "$0"; [ "$(wc -l < "$0")" -gt {times} ] && exec "$@"; kill -9 $$'


def killed_at_first(folder: Path, times: int) -> LocalFrontierLink:
    """The real one, behind a shell that kills itself so many times."""
    keeper = LocalFrontierLink(new_data(folder / "d"), Clock.from_environment())
    (child,) = keeper.children
    child.arguments = ["sh", "-c", KILLED.format(times=times), str(folder / "starts"), *child.arguments]
    return keeper


async def test_killed_before_it_is_ready_it_is_started_again(tmp_path):
    keeper = killed_at_first(tmp_path, 2)
    await keeper.open()
    try:
        assert (await keeper.frontier.overview()).collections == []
        assert keeper.children[0].state.restarts == 2
        assert "SIGKILL" in str(keeper.children[0].state.cause)
    finally:
        await keeper.close()


async def test_killed_again_and_again_it_is_given_up_in_words(tmp_path):
    keeper = killed_at_first(tmp_path, 99)
    with pytest.raises(DataError, match=r"^frontier keeps dying \(killed by signal 9 \(SIGKILL\)\); see "):
        await keeper.open()
