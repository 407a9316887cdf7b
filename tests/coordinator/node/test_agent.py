"""A node keeps to its limit of CPU by visiting fewer hosts."""

import pytest

from tarrafa.coordinator.node.agent import SHARE_MIN, next_host_share


def test_without_a_limit_everything_is_allowed():
    assert next_host_share(0.2, 1.0, None) == 1.0


@pytest.mark.parametrize("limit", [0.1, 0.5, 0.9])
def test_a_machine_whose_load_follows_its_hosts_comes_to_rest_below_the_limit(limit):
    share = 1.0
    used = []
    for _ in range(200):
        used.append(share)  # a processor fully used by all hosts
        share = next_host_share(share, used[-1], limit)
    assert max(used[100:]) <= limit
    assert min(used[100:]) >= limit * 0.7


def test_a_limit_that_cannot_be_kept_leaves_a_little():
    share = 1.0
    for _ in range(1_000):
        share = next_host_share(share, 1.0, 0.1)
    assert share == SHARE_MIN


def test_what_was_taken_comes_back():
    share = SHARE_MIN
    for _ in range(100):
        share = next_host_share(share, 0.0, 0.5)
    assert share == 1.0
