"""Many versions of some pages, imported once; each test works on a copy."""

from pathlib import Path

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.compaction.versions import import_versions, write_versions
from tests.crawl.verify.conftest import copy_of


@pytest.fixture(scope="package")
def imported(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    folder = tmp_path_factory.mktemp("versions")
    write_versions(folder / "source")
    return import_versions(folder / "data", folder / "source" / "archive")


@pytest.fixture
def data(imported: DataDirectory, tmp_path: Path) -> DataDirectory:
    return copy_of(imported, tmp_path / "data")
