"""How much the workers of a machine may take, while they run."""

import pytest

from tarrafa.crawl.worker.resource_limits import UNLIMITED, ResourceLimits, ResourceShare, limits_path, write_limits
from tarrafa.runtime.data_dir import DataDirectory

CONNECTIONS_MAX = 600


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.mark.parametrize(
    ("rations", "most", "share", "hosts"),
    [
        (UNLIMITED, 500, 1.0, 500),
        (UNLIMITED, 500, 0.5, 250),
        (UNLIMITED, 1, 0.05, 1),
        (UNLIMITED, 1000, 1.0, CONNECTIONS_MAX),
        (ResourceLimits(workers=2, hosts_at_once=100), 500, 1.0, 50),
        (ResourceLimits(workers=3, hosts_at_once=100), 500, 1.0, 34),
        (ResourceLimits(workers=2, hosts_at_once=1), 500, 1.0, 1),
        (ResourceLimits(workers=2, hosts_at_once=1000), 50, 1.0, 50),
        (ResourceLimits(share=0.1), 500, 1.0, 50),
        (ResourceLimits(share=0.1), 500, 0.05, 25),
        (ResourceLimits(share=0.01), 5, 1.0, 1),
        (ResourceLimits(paused=True), 500, 1.0, 0),
    ],
)
def test_how_many_hosts_a_worker_visits_at_once(data, rations, most, share, hosts):
    write_limits(data, rations)
    assert ResourceShare(data, 2, CONNECTIONS_MAX).hosts_at_once(most, share) == hosts


def test_what_is_handed_out_is_seen_with_the_next_look_and_only_news_is_news(data):
    rationed = ResourceShare(data, 2, CONNECTIONS_MAX)
    assert (rationed.current, rationed.workers, rationed.bandwidth) == (UNLIMITED, 2, None)
    write_limits(data, ResourceLimits(workers=4, bandwidth=1_000))
    assert rationed.reload()
    assert (rationed.workers, rationed.bandwidth) == (4, 250.0)
    assert not rationed.reload()
    write_limits(data, UNLIMITED)
    assert rationed.reload()
    assert rationed.current == UNLIMITED
    assert not limits_path(data).exists(), "what an earlier supervisor ordered must not hold for a later one"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"paused": "no"}', b"\xff"])
def test_a_file_that_cannot_be_read_rations_nothing(data, content):
    limits_path(data).write_bytes(content)
    assert ResourceShare(data, 2, CONNECTIONS_MAX).current == UNLIMITED
