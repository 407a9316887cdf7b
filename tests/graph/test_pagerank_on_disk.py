"""PageRank on disk: the ranks of the arrays, within the memory and the disk that there are."""

import multiprocessing
import signal
import tracemalloc
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError, DiskFull
from tarrafa.graph import link_grid
from tarrafa.graph.link_grid import WORD_BITS, LinkGrid, encode
from tarrafa.graph.pagerank import PageRankResult, pagerank
from tarrafa.graph.pagerank_on_disk import complete, gather, pagerank_on_disk, settle
from tests.graph.test_pagerank import BoundedArray, a_web, densely, links_of

Edges = list[tuple[int, int]]


def grid_of(folder: Path, nodes: int, edges: Edges, memory_bytes: int) -> LinkGrid:
    grid = LinkGrid(nodes, folder, memory_bytes)
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    for piece in np.array_split(pairs, 10):
        grid.add(*piece.T)
    return grid.finish()


def ranked(
    folder: Path, nodes: int, edges: Edges, blocks: list[int], memory_bytes: int, **options: Any
) -> PageRankResult:
    with closing(grid_of(folder, nodes, edges, memory_bytes)) as grid:
        return pagerank_on_disk(grid, folder, np.array(blocks, np.int32), **options)


@st.composite
def some_graphs(draw):
    """Links in any order, some repeated, some from a node to itself; and memory for one link or for all."""
    nodes = draw(st.integers(1, 40))
    blocks = draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    ends = st.integers(0, nodes - 1)
    edges = [(a, b) for a, b in draw(st.lists(st.tuples(ends, ends), max_size=120)) if blocks[a] == blocks[b]]
    return nodes, edges, blocks, draw(st.sampled_from([128, 300, 700, 3_000, 1 << 20]))


@given(some_graphs(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_ranks_on_disk_equal_those_in_arrays(tmp_path_factory, graph, compiled):
    nodes, edges, blocks, memory_bytes = graph
    found = ranked(tmp_path_factory.getbasetemp(), nodes, edges, blocks, memory_bytes, compiled=compiled)
    same = pagerank(links_of(nodes, set(edges)), np.array(blocks, np.int32), compiled=compiled)
    assert found.ranks == pytest.approx(same.ranks, rel=1e-6)
    assert found.ranks == pytest.approx(densely(nodes, set(edges), blocks), rel=2e-6)
    if compiled:
        assert found.sweeps == same.sweeps, "values are used as early as in one sweep over arrays"


@given(some_graphs(), st.data(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_wherever_it_starts_it_ends_at_the_same_ranks(tmp_path_factory, graph, data, compiled):
    nodes, edges, blocks, memory_bytes = graph
    values = st.floats(width=32, allow_nan=True, allow_infinity=True)
    start, folder = (
        np.array(data.draw(st.lists(values, max_size=nodes + 3)), np.float32),
        tmp_path_factory.getbasetemp(),
    )
    warm = ranked(folder, nodes, edges, blocks, memory_bytes, start=start, compiled=compiled)
    cold = ranked(folder, nodes, edges, blocks, memory_bytes, compiled=compiled)
    assert warm.ranks == pytest.approx(cold.ranks, rel=3e-6)


def test_ranks_of_before_save_most_of_the_sweeps(tmp_path):
    edges, blocks = sorted(a_web(3_000, 1)), [0] * 3_000
    cold = ranked(tmp_path, 3_000, edges, blocks, 100_000)
    assert ranked(tmp_path, 3_000, edges, blocks, 100_000, start=cold.ranks).sweeps <= cold.sweeps / 2
    assert ranked(tmp_path, 3_000, edges, blocks, 100_000, tolerance=0.0, sweeps_max=3).sweeps == 3


def test_a_graph_without_nodes_has_no_ranks(tmp_path):
    assert len(ranked(tmp_path, 0, [], [], 1_000).ranks) == 0


# -- the grid ---------------------------------------------------------------------------------------------------------


@given(st.data(), st.integers(0, 27))
def test_words_say_the_links_whatever_the_distances(data, bits):
    place = st.integers(0, min(1 << bits, 2_000_000) - 1)
    links = sorted(data.draw(st.sets(st.tuples(place, place), min_size=1, max_size=50)))
    targets, sources = np.array(links, np.int64).T
    words = encode(targets, sources, bits).tolist()
    found, target, distance_max = [], links[0][0], (1 << WORD_BITS - bits) - 1
    for word in words:
        target += word >> bits
        if word >> bits != distance_max:
            found.append((target, word & ((1 << bits) - 1)))
    assert found == links


def test_nodes_beyond_32_bits_have_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr(link_grid, "mapped_array", lambda folder, length, kind: np.zeros(1, kind))
    grid = LinkGrid(10**10, tmp_path, 4 << 30)
    sources, targets = np.array([10**10 - 1, 5]), np.array([5, 10**10 - 2])
    keys = grid._keys(sources, targets)
    assert grid._sources(keys).tolist() == sources.tolist()
    assert (grid._targets(keys) + (targets >> grid.bits << grid.bits)).tolist() == targets.tolist()
    with pytest.raises(DataError, match="too many to be ranked"):
        LinkGrid(10**10, tmp_path, 1 << 20)


def test_memory_is_bounded_whatever_the_number_of_links(tmp_path):
    rng, nodes, memory_bytes = np.random.default_rng(1), 300_000, 8 << 20
    blocks = np.zeros(nodes, np.int32)
    tracemalloc.start()
    try:
        with closing(LinkGrid(nodes, tmp_path, memory_bytes)) as grid:
            for _ in range(100):
                grid.add(rng.integers(0, nodes, 10_000), (nodes * rng.random(10_000) ** 6).astype(np.int64))
            pagerank_on_disk(grid.finish(), tmp_path, blocks, sweeps_max=2, compiled=False)
            assert grid.intervals > 2
            assert grid.links > 900_000, "8 bytes each are as much as the memory"
        assert tracemalloc.get_traced_memory()[1] < memory_bytes
    finally:
        tracemalloc.stop()


def test_files_have_no_names_so_that_a_kill_leaves_none(tmp_path):
    with closing(grid_of(tmp_path, 300, sorted(a_web(300, 1)), 10_000)) as grid:
        ranks = pagerank_on_disk(grid, tmp_path, np.zeros(300, np.int32)).ranks
        assert grid.disk_bytes > 0
        assert list(tmp_path.iterdir()) == []
    assert np.mean(ranks) == pytest.approx(1)


def _full_disk(folder: Path, bytes_max: int, pipe: Connection) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
    try:
        ranked(folder, 3_000, sorted(a_web(3_000, 1)), [0] * 3_000, 100_000, compiled=False)
    except DiskFull as error:
        pipe.send(str(error))
    else:
        pipe.send("")


@pytest.mark.parametrize("bytes_max", [10_000, 15_000, 22_000])  # for outlinks, for links, for the vectors
def test_a_full_disk_is_an_error_in_our_words(tmp_path, bytes_max):
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_full_disk, args=(tmp_path, bytes_max, there))
    child.start()
    assert here.poll(30)
    assert "the disk is full" in here.recv()
    child.join(30)


# -- kernels ----------------------------------------------------------------------------------------------------------


@given(st.data(), st.integers(1, 5), st.integers(1, 31))
@settings(deadline=None)
def test_kernels_touch_no_entry_outside_of_their_arrays(data, bits, size):
    size = min(size, 1 << bits)
    place = st.integers(0, size - 1)
    links = sorted(data.draw(st.sets(st.tuples(place, place), min_size=1, max_size=50)))
    targets, sources = np.array(links, np.int64).T
    words = BoundedArray(encode(targets, sources, bits).tolist())
    gives, values, sums = BoundedArray([1.0] * size), BoundedArray([1.0] * size), BoundedArray([0.0, 0.0])
    links_of_each = BoundedArray([sum(source == node for _, source in links) for node in range(size)])
    assert gather(words, len(words), bits, links[0][0], gives, values) == links[-1][0]
    done = settle(words, len(words), bits, links[0][0], gives, values, 0, links_of_each, sums)
    assert done == links[-1][0]
    assert complete(done, size, gives, values, links_of_each, sums) == size
    assert sums[1] == pytest.approx(sum(given for given, count in zip(gives, links_of_each, strict=True) if count))
