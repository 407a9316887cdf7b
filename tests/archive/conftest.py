"""Fixtures: a frontier with a segment log, in a folder or in a real object store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.archive.log_cluster import Cluster
from tests.object_store_process import WHY_NOT, a_store, program


@pytest.fixture(params=["folder", "s3"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    if request.param == "s3":
        if program() is None:
            pytest.skip(WHY_NOT)
        for name, value in a_store().environment.items():
            monkeypatch.setenv(name, value)
    store = f"file://{tmp_path}/store" if request.param == "folder" else f"s3://tests/{tmp_path.name}"
    found = Cluster(tmp_path, store)
    yield found
    found.close()


@pytest.fixture
def folder_cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path, f"file://{tmp_path}/store")
    yield found
    found.close()
