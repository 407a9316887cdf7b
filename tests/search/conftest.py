"""One small Web, crawled, in graph and index, for all questions."""

import pytest

from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import new_data, small_web, write


@pytest.fixture(scope="session")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("crawled") / "data")
    write(data, small_web(120))
    graph.catch_up(data, lambda name, weights: None)
    index.catch_up(data)
    return data
