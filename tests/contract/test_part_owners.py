"""What every body of the frontier promises about the owners of parts, and about their weights."""

import random

import pytest

from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import LEASE_S, OwnedPart, OwnedParts, UrlWeight
from tarrafa.frontier.store.part_owners import NODE_CHARS_MAX, PARTS_MAX, REPLICAS_MAX
from tarrafa.parse.url import host_key
from tests.contract.frontier_bodies import FalseLeaseClock, a_collection, offer

PAGE = "http://a.br/"


def pass_time(seconds: float) -> None:
    FalseLeaseClock.shift[0] += seconds


class Node:
    """A node as a supervisor is one: it claims, and gives back what is too much."""

    def __init__(
        self, frontier: Frontier, name: str, parts: int = 8, projection: str = "index", replicas: int = 1
    ) -> None:
        self._frontier, self.name, self._parts, self._projection = frontier, name, parts, projection
        self._replicas = replicas
        self.owned = OwnedParts([], [], 0.0)
        self.at_hand: list[int] = []

    @property
    def numbers(self) -> list[int]:
        return [one.number for one in self.owned.parts]

    def epoch(self, number: int) -> int:
        return next(one.epoch for one in self.owned.parts if one.number == number)

    async def claim(self) -> list[int]:
        held = [one for one in self.owned.parts if one.number not in self.owned.surplus]
        self.owned = await self._frontier.claim_parts(
            self.name, self._projection, self._parts, held, self.at_hand, self._replicas
        )
        return self.numbers

    async def restart(self) -> list[int]:
        self.owned = OwnedParts([], [], 0.0)
        return await self.claim()

    async def leave(self) -> None:
        self.owned = await self._frontier.claim_parts(self.name, self._projection, 0, [], [], 1)


async def settle(*nodes: Node) -> None:
    for _ in range(3):
        for node in nodes:
            await node.claim()


async def test_parts_are_spread_evenly_over_the_nodes_that_claim(frontier):
    a, b, c = (Node(frontier, name) for name in "abc")
    assert await a.claim() == list(range(1, 9))
    assert a.owned.lease_s == LEASE_S
    assert await b.claim() == [], "a still serves them"
    await a.claim()
    assert a.owned.surplus == [5, 6, 7, 8]
    await settle(a, b)
    assert (len(a.numbers), len(b.numbers)) == (4, 4)
    await settle(a, b, c)
    assert sorted(len(node.numbers) for node in (a, b, c)) == [2, 3, 3]
    assert sorted(a.numbers + b.numbers + c.numbers) == list(range(1, 9))
    before = [node.owned for node in (a, b, c)]
    await settle(a, b, c)
    assert [node.owned for node in (a, b, c)] == before, "nothing moves without need"


async def test_the_parts_of_a_silent_node_are_taken_over_with_higher_epochs(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    await settle(a, b)
    lost = {number: a.epoch(number) for number in a.numbers}
    pass_time(LEASE_S - 1)
    assert len(await b.claim()) == 4, "the lease of a holds"
    pass_time(2)
    assert await b.claim() == list(range(1, 9))
    assert all(b.epoch(number) > epoch for number, epoch in lost.items())
    epochs = {number: b.epoch(number) for number in b.numbers}
    assert await a.claim() == [], "it hears that it has lost them"
    await settle(a, b)
    assert (len(a.numbers), len(b.numbers)) == (4, 4)
    assert all(a.epoch(number) > epochs[number] for number in a.numbers)


async def test_after_a_pause_of_the_whole_cluster_each_node_finds_its_parts_again(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    await settle(a, b)
    before = a.numbers, b.numbers
    pass_time(10 * LEASE_S)
    assert (await a.claim(), await b.claim()) == before
    pass_time(10 * LEASE_S)
    assert await b.restart() == before[1]
    pass_time(LEASE_S - 1)
    assert await b.claim() == before[1], "a may still come back"
    pass_time(2)
    assert await b.claim() == list(range(1, 9))


async def test_a_node_that_starts_again_has_its_parts_at_once_under_new_epochs(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    await settle(a, b)
    before = a.owned.parts
    assert await a.restart() == [one.number for one in before]
    assert all(a.epoch(one.number) > one.epoch for one in before)


async def test_a_node_gets_what_it_has_at_hand_before_other_parts(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    b.at_hand = [2, 5, 7]
    await a.claim()
    await b.claim()
    await a.leave()
    assert await b.claim() == list(range(1, 9))
    await settle(a, b)
    await b.leave()
    a.at_hand = b.at_hand = []
    c = Node(frontier, "c")
    c.at_hand = [one for one in range(1, 9) if one not in a.numbers][:2]
    await c.claim()
    assert set(c.at_hand) <= set(c.numbers)


async def test_a_node_that_leaves_gives_everything_back(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    await settle(a, b)
    await a.leave()
    assert a.owned.parts == []
    assert await b.claim() == list(range(1, 9))


async def test_a_repeated_claim_whose_answer_was_lost_owns_the_same_parts(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b")
    await settle(a, b)
    lost = await frontier.claim_parts("a", "index", 8, [], [], 1)
    assert [one.number for one in lost.parts] == a.numbers
    assert await a.claim() == [one.number for one in lost.parts], "under epochs that it did not know"
    assert all(a.epoch(one.number) > one.epoch for one in lost.parts)


async def test_owners_outlive_the_frontier_process(open_frontier):
    async with open_frontier() as frontier:
        a, b = Node(frontier, "a"), Node(frontier, "b")
        await settle(a, b)
        before = a.owned, b.owned
    async with open_frontier() as frontier:
        again = Node(frontier, "a")
        again.owned = before[0]
        await again.claim()
        assert again.owned == before[0]


async def test_all_nodes_divide_a_projection_alike(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b", parts=4)
    await a.claim()
    with pytest.raises(ConfigError, match="divided into 8 parts"):
        await b.claim()
    await a.leave()
    assert await b.claim() == [1, 2, 3, 4]
    epochs = {one.number: one.epoch for one in b.owned.parts}
    await b.leave()
    await a.claim()
    assert all(a.epoch(number) > epoch for number, epoch in epochs.items())


@pytest.mark.parametrize(
    ("node", "projection", "parts", "replicas"),
    [
        ("", "index", 8, 1),
        ("x" * (NODE_CHARS_MAX + 1), "index", 8, 1),
        ("a", "captures", 8, 1),
        ("a", "index", PARTS_MAX + 1, 1),
        ("a", "index", 8, 0),
        ("a", "index", 8, REPLICAS_MAX + 1),
    ],
)
async def test_claims_beyond_the_bounds_are_refused(frontier, node, projection, parts, replicas):
    with pytest.raises(FrontierError):
        await frontier.claim_parts(node, projection, parts, [], [], replicas)


async def test_no_part_has_two_owners_in_random_lives(frontier):
    """Nodes come, go, are silent and return; what two nodes believe at a time is of different epochs, and the later one
    is the owner."""
    rng = random.Random(7)
    nodes = [Node(frontier, name, parts=5) for name in "abcd"]
    highest: dict[int, tuple[int, str]] = {}
    for _ in range(150):
        node = rng.choice(nodes)
        before = {one.number: one.epoch for one in node.owned.parts}
        await rng.choice([node.claim, node.claim, node.claim, node.restart, node.leave])()
        for one in node.owned.parts:
            epoch, owner = highest.get(one.number, (0, ""))
            assert (one.epoch, node.name) >= (epoch, owner) if owner == node.name else one.epoch > epoch
            assert before.get(one.number) in (None, one.epoch) or one.epoch > before[one.number]
            highest[one.number] = (one.epoch, node.name)
        pass_time(rng.choice([0.0, 1.0, 5.0, 5.0, 12.0, 40.0]))
    pass_time(2 * LEASE_S)
    await settle(*nodes)
    pass_time(LEASE_S - 1)
    await settle(*nodes)
    pass_time(LEASE_S - 1)
    await settle(*nodes)
    assert sorted(number for node in nodes for number in node.numbers) == [1, 2, 3, 4, 5]
    assert sorted(len(node.numbers) for node in nodes) == [1, 1, 1, 2]


# -- replicas ----------------------------------------------------------------------------------------------------------


def replicated(frontier: Frontier, names: str, parts: int = 8) -> list[Node]:
    return [Node(frontier, name, parts, replicas=2) for name in names]


def owners_of(nodes: list[Node], number: int) -> list[str]:
    return [node.name for node in nodes if number in node.numbers]


async def test_each_part_has_two_owners_on_different_nodes(frontier):
    nodes = replicated(frontier, "abc")
    a, b, _ = nodes
    assert await a.claim() == list(range(1, 9)), "a node alone owns each part once"
    assert await b.claim() == list(range(1, 9))
    assert [one.replica for one in a.owned.parts + b.owned.parts] == [1] * 8 + [2] * 8
    await settle(*nodes)
    assert a.owned.surplus == b.owned.surplus == []
    assert sorted(len(node.numbers) for node in nodes) == [5, 5, 6]
    assert all(len(owners_of(nodes, number)) == 2 for number in range(1, 9))
    before = [node.owned for node in nodes]
    await settle(*nodes)
    assert [node.owned for node in nodes] == before, "nothing moves without need"


async def test_a_lost_node_is_replaced_in_every_part_that_it_owned(frontier):
    nodes = replicated(frontier, "abc")
    a, b, c = nodes
    await settle(*nodes)
    await settle(*nodes)
    lost = {one.number: (one.replica, one.epoch) for one in a.owned.parts}
    kept = {node.name: {*node.numbers} for node in (b, c)}
    pass_time(LEASE_S - 1)
    await settle(b, c)
    pass_time(2)
    await settle(b, c)
    assert b.numbers == c.numbers == list(range(1, 9))
    for node in (b, c):
        for one in node.owned.parts:
            if one.number in lost and one.number not in kept[node.name]:
                replica, epoch = lost[one.number]
                assert (one.replica, one.epoch > epoch) == (replica, True)


async def test_all_nodes_have_the_same_number_of_replicas(frontier):
    a, b = Node(frontier, "a"), Node(frontier, "b", replicas=2)
    await a.claim()
    with pytest.raises(ConfigError, match=r"divided into 8 parts \(by node a\), here into 8x2"):
        await b.claim()
    await a.leave()
    assert len(await b.claim()) == 8


async def test_replicas_of_a_part_are_never_on_one_node_in_random_lives(frontier):
    rng = random.Random(11)
    nodes = replicated(frontier, "abcde", 7)
    highest: dict[tuple[int, int], tuple[int, str]] = {}
    for _ in range(200):
        node = rng.choice(nodes)
        await rng.choice([node.claim, node.claim, node.claim, node.claim, node.restart, node.leave])()
        assert len({*node.numbers}) == len(node.numbers)
        for one in node.owned.parts:
            key = (one.number, one.replica)
            epoch, owner = highest.get(key, (0, ""))
            assert (one.epoch, node.name) >= (epoch, owner) if owner == node.name else one.epoch > epoch
            highest[key] = (one.epoch, node.name)
        pass_time(rng.choice([0.0, 1.0, 5.0, 5.0, 12.0, 40.0]))
    pass_time(2 * LEASE_S)
    for _ in range(3):
        await settle(*nodes)
        pass_time(LEASE_S - 1)
    await settle(*nodes)
    assert sorted(len(node.numbers) for node in nodes) == [2, 3, 3, 3, 3]
    assert all(len(owners_of(nodes, number)) == 2 for number in range(1, 8))


# -- weights -----------------------------------------------------------------------------------------------------------


async def in_links(frontier: Frontier) -> int:
    page = offer(PAGE)
    return (await frontier.look_up(page.host, page.id)).urls[0].in_links


def weight(count: int) -> list[UrlWeight]:
    page = offer(PAGE)
    return [UrlWeight(page.host, page.id, count, host_key=host_key(PAGE))]


@pytest.fixture
async def with_a_page(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(PAGE)])
    return frontier


async def test_weights_need_no_owner_where_nobody_claims(with_a_page):
    assert await with_a_page.update_weights("c", weight(3))
    assert await in_links(with_a_page) == 3


async def test_weights_of_an_old_owner_are_refused(with_a_page):
    frontier = with_a_page
    a, b = (Node(frontier, name, 1, "graph") for name in "ab")
    assert (await a.claim(), await b.claim()) == ([1], [])
    old = a.epoch(1)
    assert await frontier.update_weights("c", weight(3), old)
    assert not await frontier.update_weights("c", weight(9), old - 1)
    pass_time(LEASE_S - 1)
    await b.claim()
    pass_time(LEASE_S - 1)
    assert await frontier.update_weights("c", weight(4), old), "nobody else owns it yet"
    assert await b.claim() == [1]
    assert await frontier.update_weights("c", weight(5), b.epoch(1))
    assert not await frontier.update_weights("c", weight(9), old)
    assert await in_links(frontier) == 5


@pytest.mark.one_server  # of several, the first alone knows the owners
async def test_weights_without_an_epoch_are_refused_while_the_graph_has_an_owner(with_a_page):
    frontier = with_a_page
    a = Node(frontier, "a", 1, "graph")
    await a.claim()
    assert await frontier.update_weights("c", weight(3), a.epoch(1))
    assert not await frontier.update_weights("c", weight(9))
    assert await in_links(frontier) == 3
    pass_time(LEASE_S + 1)
    assert await frontier.update_weights("c", weight(4)), "the machines of this frontier claim no more"
    assert await in_links(frontier) == 4
    await a.claim()
    await a.leave()
    assert await frontier.update_weights("c", weight(5))


async def test_an_epoch_is_never_lower_than_the_time_of_its_claim(frontier):
    """So a frontier that is restored or rebuilt gives no epoch again."""
    a = Node(frontier, "a", 1, "graph")
    await a.claim()
    assert a.epoch(1) == 1_000_000
    assert OwnedPart(1, 1_000_001) in (await frontier.claim_parts("a", "graph", 1, [], [], 1)).parts
