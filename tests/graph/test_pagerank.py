"""PageRank: what a dense computation gives, whatever the links are and wherever it starts."""

from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tarrafa.graph.pagerank import DAMPING, LinkMatrix, pagerank, receive, sweep

Number = TypeVar("Number", int, float)


def links_of(nodes: int, edges: set[tuple[int, int]]) -> LinkMatrix:
    """Links as the arrays hold them."""
    pairs = sorted((target, source) for source, target in edges if source != target)
    targets = np.array([target for target, _ in pairs], np.int64)
    sources = np.array([source for _, source in pairs], np.int32)
    pointers = np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=nodes)))).astype(np.int64)
    return LinkMatrix(pointers, sources, np.bincount(sources, minlength=nodes).astype(np.int32))


def densely(nodes: int, edges: set[tuple[int, int]], blocks: list[int]) -> NDArray[np.float64]:
    """By the book: the random surfer's matrix of each block, dangling pages leading everywhere, and its powers."""
    ranks = np.zeros(nodes)
    for block in set(blocks):
        members = [node for node in range(nodes) if blocks[node] == block]
        size, place = len(members), {node: number for number, node in enumerate(members)}
        matrix = np.zeros((size, size))
        for source, target in edges:
            if source != target and source in place:
                matrix[place[target], place[source]] = 1.0
        matrix[:, matrix.sum(axis=0) == 0] = 1.0
        surfer = DAMPING * matrix / matrix.sum(axis=0) + (1 - DAMPING) / size
        found = np.full(size, 1 / size)
        for _ in range(120):
            found = surfer @ found
        ranks[members] = found * size
    return ranks


@st.composite
def some_graphs(draw):
    nodes = draw(st.integers(1, 14))
    blocks = draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    ends = st.integers(0, nodes - 1)
    edges = {(a, b) for a, b in draw(st.sets(st.tuples(ends, ends), max_size=60)) if blocks[a] == blocks[b]}
    return nodes, edges, blocks


@given(some_graphs(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_ranks_equal_those_of_a_dense_computation(graph, compiled):
    nodes, edges, blocks = graph
    found = pagerank(links_of(nodes, edges), np.array(blocks, np.int32), compiled=compiled)
    assert found.ranks == pytest.approx(densely(nodes, edges, blocks), rel=2e-6)
    for block in set(blocks):
        assert np.mean(found.ranks[np.array(blocks) == block], dtype=float) == pytest.approx(1, abs=1e-6)


@given(some_graphs(), st.data(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_wherever_it_starts_it_ends_at_the_same_ranks(graph, data, compiled):
    nodes, edges, blocks = graph
    values = st.floats(width=32, allow_nan=True, allow_infinity=True)
    start = np.array(data.draw(st.lists(values, max_size=nodes + 3)), np.float32)
    cold = pagerank(links_of(nodes, edges), np.array(blocks, np.int32), compiled=compiled)
    warm = pagerank(links_of(nodes, edges), np.array(blocks, np.int32), start, compiled=compiled)
    assert warm.ranks == pytest.approx(cold.ranks, rel=3e-6)


def a_web(nodes: int, seed: int) -> set[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    sources = rng.integers(0, nodes // 2, 8 * nodes)
    return set(zip(sources.tolist(), (nodes * rng.random(8 * nodes) ** 3).astype(int).tolist(), strict=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_ranks_of_before_save_most_of_the_sweeps(compiled):
    edges = a_web(3_000, 1)
    blocks = np.zeros(3_000, np.int32)
    cold = pagerank(links_of(3_000, edges), blocks, compiled=compiled)
    again = pagerank(links_of(3_000, edges), blocks, cold.ranks, compiled=compiled)
    assert again.sweeps <= cold.sweeps / 2
    grown = links_of(3_000, edges | a_web(3_000, 2) - a_web(3_000, 3))
    near = pagerank(links_of(3_000, edges | {(1, 2_000)}), blocks, cold.ranks, compiled=compiled)
    far = pagerank(grown, blocks, compiled=compiled)
    assert near.sweeps < cold.sweeps
    assert pagerank(grown, blocks, cold.ranks, compiled=compiled).ranks == pytest.approx(far.ranks, rel=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("nodes", "edges", "ranks"),
    [
        (0, set(), []),
        (1, set(), [1]),
        (1, {(0, 0)}, [1]),
        (3, set(), [1, 1, 1]),
        (2, {(0, 1), (1, 0)}, [1, 1]),
        (2, {(0, 1)}, [1 / 1.425, 1.85 / 1.425]),  # x = 1 and 1 + 0.85, to be scaled
    ],
)
def test_graphs_that_one_can_compute_by_hand(nodes, edges, ranks, compiled):
    found = pagerank(links_of(nodes, edges), np.zeros(nodes, np.int32), compiled=compiled)
    assert found.ranks.tolist() == pytest.approx(ranks)


@pytest.mark.parametrize("compiled", [False, True])
def test_sweeps_are_bounded_whatever_is_asked_for(compiled):
    links, blocks = links_of(200, a_web(200, 1)), np.zeros(200, np.int32)
    assert pagerank(links, blocks, tolerance=0.0, sweeps_max=3, compiled=compiled).sweeps == 3


class BoundedArray(list[Number]):
    """An array of numba's kernels, which have no bounds checks: no entry outside of it is read or written."""

    def __getitem__(self, place):
        assert 0 <= place < len(self)
        return super().__getitem__(place)

    def __setitem__(self, place, value):
        assert 0 <= place < len(self)
        super().__setitem__(place, value)


@given(some_graphs(), st.integers(0, 5))
@settings(deadline=None)
def test_kernels_touch_no_entry_outside_of_their_arrays(graph, sweeps_max):
    nodes, edges, _ = graph
    links = links_of(nodes, edges)
    pointers, sources = BoundedArray(map(int, links.pointers)), BoundedArray(map(int, links.sources))
    linking = BoundedArray(map(int, np.flatnonzero(links.links_of)))
    share = BoundedArray(DAMPING / count if count else 0.0 for count in map(int, links.links_of))
    gives, values, changes = BoundedArray(share), BoundedArray([1.0] * nodes), BoundedArray([0.0])
    swept = sweep(pointers, sources, linking, len(linking), share, gives, 0.0, sweeps_max, changes)
    assert swept <= sweeps_max
    assert receive(pointers, sources, gives, values, nodes) == nodes
    assert (len(pointers), len(sources)) == (nodes + 1, pointers[nodes])  # no larger than the caller's
