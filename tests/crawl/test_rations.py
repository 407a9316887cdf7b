"""How much the workers of a machine may take, while they run."""

import pytest

from tarrafa.crawl.rations import EVERYTHING, Rationed, Rations, hand_out, path_of
from tarrafa.data import DataDirectory


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.mark.parametrize(
    ("rations", "most", "share", "hosts"),
    [
        (EVERYTHING, 500, 1.0, 500),
        (EVERYTHING, 500, 0.5, 250),
        (EVERYTHING, 1, 0.05, 1),
        (Rations(workers=2, hosts_at_once=100), 500, 1.0, 50),
        (Rations(workers=3, hosts_at_once=100), 500, 1.0, 34),
        (Rations(workers=2, hosts_at_once=1), 500, 1.0, 1),
        (Rations(workers=2, hosts_at_once=1000), 50, 1.0, 50),
        (Rations(share=0.1), 500, 1.0, 50),
        (Rations(share=0.1), 500, 0.05, 25),
        (Rations(share=0.01), 5, 1.0, 1),
        (Rations(paused=True), 500, 1.0, 0),
    ],
)
def test_how_many_hosts_a_worker_visits_at_once(data, rations, most, share, hosts):
    hand_out(data, rations)
    assert Rationed(data, 2).hosts(most, share) == hosts


def test_what_is_handed_out_is_seen_with_the_next_look_and_only_news_is_news(data):
    rationed = Rationed(data, 2)
    assert (rationed.now, rationed.workers, rationed.bandwidth) == (EVERYTHING, 2, None)
    hand_out(data, Rations(workers=4, bandwidth=1_000))
    assert rationed.look()
    assert (rationed.workers, rationed.bandwidth) == (4, 250.0)
    assert not rationed.look()
    hand_out(data, EVERYTHING)
    assert rationed.look()
    assert rationed.now == EVERYTHING
    assert not path_of(data).exists(), "what an earlier supervisor ordered must not hold for a later one"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"paused": "no"}', b"\xff"])
def test_a_file_that_cannot_be_read_rations_nothing(data, content):
    path_of(data).write_bytes(content)
    assert Rationed(data, 2).now == EVERYTHING
