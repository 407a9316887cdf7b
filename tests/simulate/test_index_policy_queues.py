"""The compiled shelves decide as the live policy does."""

import numpy as np
import pytest

from tarrafa.revisit import policy
from tarrafa.simulate import index_policy_queues as compiled
from tarrafa.simulate.workload import Floats

HOUR_S = 3600.0
START_S = 1e5
SURE = 1e18  # of a belief so narrow that caution is nothing


class PlainShelves:
    """One server's shelves in plain Python: lists of (key, page) kept sorted."""

    def __init__(self, rates: Floats, weights: Floats, last: Floats) -> None:
        self.rates, self.weights = list(map(float, rates)), list(map(float, weights))
        self.shelves: dict[int, list[tuple[float, int]]] = {}
        for page, at in enumerate(last):
            self.put(page, at)

    def put(self, page: int, at: float) -> None:
        history = policy.PageHistory(0.0, at, SURE, SURE / self.rates[page], self.weights[page])
        shelf, key = policy.IndexPolicy().place(history)
        self.shelves[shelf] = sorted([*self.shelves.get(shelf, []), (key, page)])

    def choose(self, price: float, now: float, explore: bool) -> int | None:
        heads = [(shelf, pages[0][0]) for shelf, pages in sorted(self.shelves.items()) if pages]
        return policy.choose_shelf(policy.IndexPolicy(price), heads, now, explore)

    def take(self, shelf: int) -> int:
        return self.shelves[shelf].pop(0)[1]


def decide(shelves: compiled.IndexQueues, server: int, price: float, now: float, explore: bool) -> int:
    number: int = compiled.best_class(shelves, server, now, price)
    if explore and number != compiled.NO_PAGE:
        number = compiled.oldest_class(shelves, server)
    return number


@pytest.mark.parametrize("seed", range(6))
def test_decisions_are_those_of_the_live_policy(seed):
    rng = np.random.default_rng(seed)
    pages, n_servers = 40, 3
    rates = np.exp(rng.uniform(np.log(1e-3), np.log(2), pages)) / HOUR_S
    weights: Floats = np.asarray(2.0 ** rng.integers(-2, 3, pages), np.float64)
    last = np.sort(rng.uniform(1.0, START_S, pages))
    servers = rng.integers(0, n_servers, pages)
    price = [0.0, 2000.0, 30000.0][seed % 3]
    several = np.repeat(rates, 2) * np.tile([1.0, 1.6], pages)  # where a page's estimate may move to
    classes = compiled.classes_of(several, np.repeat(weights, 2))
    shelves = compiled.make_queues(classes, compiled.class_numbers(classes, rates, weights), servers, n_servers, last)
    mine = [np.flatnonzero(servers == server) for server in range(n_servers)]
    plain = [PlainShelves(rates[pages], weights[pages], last[pages]) for pages in mine]
    now, idle = START_S, 0
    for _ in range(400):
        now += rng.exponential(600.0)
        server, explore = int(rng.integers(n_servers)), rng.random() < 0.2
        shelf = plain[server].choose(price, now, explore)
        number = decide(shelves, server, price, now, explore)
        if shelf is None:
            assert number == compiled.NO_PAGE
            idle += 1
            continue
        assert classes.shelves[number] == shelf
        page = compiled.take_head(shelves, server, number)
        place = plain[server].take(shelf)
        assert mine[server][place] == page
        if rng.random() < 0.3:
            plain[server].rates[place] = rates[page] * (1.6 if plain[server].rates[place] == rates[page] else 1.0)
        plain[server].put(place, now)
        rate = plain[server].rates[place]
        compiled.append_page(shelves, server, compiled.class_number(classes, rate, weights[page]), page, now)
    assert (idle > 0) == (price > 0)


def test_a_server_without_pages_has_nobody_to_visit():
    rates, weights = np.array([1.0, 2.0]), np.ones(2)
    classes = compiled.classes_of(rates, weights)
    numbers = compiled.class_numbers(classes, rates, weights)
    shelves = compiled.make_queues(classes, numbers, np.array([1, 1]), 3, np.zeros(2))
    assert compiled.best_class(shelves, 0, 1e9, 0.0) == compiled.NO_PAGE
    assert compiled.oldest_class(shelves, 2) == compiled.NO_PAGE
    assert compiled.best_class(shelves, 1, 1e9, 0.0) != compiled.NO_PAGE


def test_classes_are_those_of_the_live_policy():
    rng = np.random.default_rng(7)
    rates, weights = np.exp(rng.uniform(-25, 1, 500)), np.exp(rng.uniform(-8, 8, 500))
    classes = compiled.classes_of(rates, weights)
    numbers = compiled.class_numbers(classes, rates, weights)
    for page in range(500):
        shelf = policy.shelf_of(float(rates[page]), float(weights[page]))
        assert classes.shelves[numbers[page]] == shelf
        assert (classes.rates[numbers[page]], classes.weights[numbers[page]]) == policy.class_of(shelf)


def test_an_estimate_out_of_range_goes_to_the_nearest_class():
    classes = compiled.classes_between(1e-6, 1e-3)
    assert compiled.class_number(classes, 1e-9, 1.0) == 0
    assert compiled.class_number(classes, 1.0, 1.0) == len(classes.rates) - 1
    assert np.allclose(np.diff(np.log(classes.rates)), np.log(policy.RATE_STEP))
