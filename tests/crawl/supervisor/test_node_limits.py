"""A node pauses before its disk is full, and goes on by itself."""

import shutil

import pytest

from tarrafa.crawl.supervisor.node_limits import NodeLimits
from tarrafa.crawl.worker.resource_limits import UNLIMITED
from tarrafa.runtime.data_dir import FREE_BYTES_MIN, DataDirectory


@pytest.fixture
def free(monkeypatch):
    """What the disk has left, in parts of what no command works without."""
    left = [10.0]
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=int(left[0] * FREE_BYTES_MIN)))
    return left


def test_a_node_pauses_before_the_disk_is_full_and_goes_on_when_there_is_room_to_spare(tmp_path, free):
    data, lines, seen = DataDirectory(tmp_path / "data"), list[str](), []
    data.create()
    limits = NodeLimits(data, UNLIMITED, lines.append)
    for left in (10.0, 2.1, 1.9, 0.1, 2.1, 2.9, 3.1, 2.1, 1.9):
        free[0], printed = left, len(lines)
        limits.refresh()
        seen.append((len(lines) > printed, bool(limits.trouble)))
    assert seen == [
        (False, False), (False, False), (True, True), (False, True), (False, True), (False, True), (True, False),
        (False, False), (True, True),
    ]  # fmt: skip
    assert "the disk is nearly full (60 MB left, 64 MB needed)" in str(limits.trouble)
