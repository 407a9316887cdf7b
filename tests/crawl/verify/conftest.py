"""A small Web, crawled once; each test damages a copy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import a_journey

UNUSED = shutil.ignore_patterns("run", "*.lock")


@pytest.fixture(scope="package")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    journey = a_journey(tmp_path_factory.mktemp("crawled"), World(hosts=6, pages=90), addresses=True)
    journey.delay_s = 0.0
    with journey.web:
        journey.crawl(journey.write_collection())
    return journey.data


@pytest.fixture
def copy(crawled: DataDirectory, tmp_path: Path) -> DataDirectory:
    return copy_of(crawled, tmp_path / "data")


def copy_of(data: DataDirectory, root: Path) -> DataDirectory:
    shutil.copytree(data.root, root, ignore=UNUSED)
    copied = DataDirectory(root)
    copied.create()
    return copied


Plant = Callable[[DataDirectory], None]
