"""The index policy on compiled arrays: queues of pages by server and class, millions of decisions a second.

Promises: the decisions of `tarrafa.revisit.policy.choose_shelf` with `policy.IndexPolicy`, by the same formulas and
classes, compiled. A decision looks only at the heads of one server's classes.
Knows nothing of budgets, experiments or randomness: the caller passes the time and the price.

A server has one queue per class of pages (rate in steps of 1.25, weight in steps of 2). All pages of a class are
assumed to have its rate and weight, so the one visited longest ago is always worth the most: it is the head. A visited
page goes to the tail of its class, or of another class if its estimate moved; either way that queue stays in the order
of last visits, because time does not go back. The queues are linked lists in flat arrays: three numbers per class, two
per page, and no decision moves more than one page. A class whose pages can never be worth as much as the best one found
so far costs one comparison.

Known weakness: the index is compared in steps. Two pages at the borders of a class differ by a quarter in their rates
and are treated alike; that costs 0.01 to 0.15 % of staleness (benchmarks/decisions.py prints it). Pages with an
announced change (`policy.ANNOUNCED_SHELF`) do not exist here.

numba caches compiled code by the date of this file alone: after a change of the formulas in tarrafa.revisit delete
__pycache__, or touch this file.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable

from tarrafa.revisit import policy, visit_value
from tarrafa.runtime.compiled_kernels import has_numba_cache
from tarrafa.simulate.workload import Floats, Numbers

NO_PAGE = -1
LONG_AGO_S = -1e9  # last visit of a page never visited: thirty years before the start

compiled = njit(cache=has_numba_cache(), nogil=True)


for _function in (visit_value.staleness, visit_value.value_growth):
    register_jitable(_function)  # may now be called from compiled code, under its own name
compiled_visit_value = compiled(visit_value.visit_value)
stale_time = compiled(visit_value.stale_time)
shelf_of = compiled(policy.shelf_of)


class PageClasses(NamedTuple):
    """The classes in use, numbered from 0 by rate, then weight."""

    shelves: Numbers  # the policy's shelf of each class
    rates: Floats  # assumed rate of all its pages
    weights: Floats
    ceilings: Floats  # weight / rate: the most that a visit can be worth
    first: int  # the smallest shelf
    numbers: Numbers  # shelf - first -> number of the class; NOBODY if there is none


class IndexQueues(NamedTuple):
    """Pages in queues, per server and class."""

    classes: PageClasses
    heads: Numbers  # [server, class] -> page visited longest ago, or NOBODY
    tails: Numbers  # [server, class] -> page visited last; meaningless where the class is empty
    oldest_s: Floats  # [server, class] -> last visit of the head, so that a decision reads adjacent memory
    following: Numbers  # page -> the next one of its class, or NOBODY
    last_s: Floats  # page -> when it was last visited


def classes_between(rate_min: float, rate_max: float, weight: float = 1.0) -> PageClasses:
    """Every class from one rate to the other, for rates that are not known yet."""
    low, high = policy.shelf_of(rate_min, weight), policy.shelf_of(rate_max, weight)
    return _classes(np.arange(low, high + 1, policy.WEIGHT_CLASSES, dtype=np.int64))


def classes_of(rates_per_s: Floats, weights: Floats) -> PageClasses:
    """The classes of these pages."""
    return _classes(np.unique(_shelves_of(rates_per_s, weights)))


def _classes(shelves: Numbers) -> PageClasses:
    pairs = np.array([policy.class_of(int(shelf)) for shelf in shelves])
    numbers = np.full(int(shelves[-1] - shelves[0]) + 1, NO_PAGE, np.int64)
    numbers[shelves - shelves[0]] = np.arange(len(shelves))
    rates, weights = pairs.T.copy()
    return PageClasses(shelves, rates, weights, weights / rates, int(shelves[0]), numbers)


def make_queues(
    classes: PageClasses, numbers: Numbers, servers: Numbers, n_servers: int, last_s: Floats
) -> IndexQueues:
    """Put every page into the queue of its class (`numbers`) and server, the one visited longest ago first; ties in
    page order.
    """
    heads = np.full((n_servers, len(classes.shelves)), NO_PAGE, np.int64)
    following = np.full(len(last_s), NO_PAGE, np.int64)
    shelves = IndexQueues(classes, heads, heads.copy(), np.zeros(heads.shape), following, last_s.copy())
    _fill(shelves, numbers, servers, np.argsort(last_s, kind="stable"))
    return shelves


def class_numbers(classes: PageClasses, rates_per_s: Floats, weights: Floats) -> Numbers:
    """The class of each page."""
    return np.asarray(classes.numbers[_shelves_of(rates_per_s, weights) - classes.first])


@compiled
def class_number(classes, rate, weight):  # type: ignore[no-untyped-def]
    """The class of a page; the nearest one of this weight, if its rate has none."""
    rate = min(max(rate, classes.rates[0]), classes.rates[-1])
    return classes.numbers[shelf_of(rate, weight) - classes.first]


@compiled
def best_class(shelves, server, now_s, price):  # type: ignore[no-untyped-def]
    """The class whose head is worth most, and at least the price; NOBODY if there is none. Ties go to the first."""
    chosen, most = NO_PAGE, -1.0
    classes, heads, oldest_s = shelves.classes, shelves.heads[server], shelves.oldest_s[server]
    for number in range(len(heads)):
        ceiling = classes.ceilings[number]
        if heads[number] != NO_PAGE and ceiling > most and ceiling >= price:
            value = compiled_visit_value(classes.rates[number], classes.weights[number], now_s - oldest_s[number])
            if value > most and value >= price:
                chosen, most = number, value
    return chosen


@compiled
def oldest_class(shelves, server):  # type: ignore[no-untyped-def]
    """The class whose head was visited longest ago, whatever it is worth; NOBODY if there are no pages."""
    chosen, oldest_s = NO_PAGE, np.inf
    for number in range(shelves.heads.shape[1]):
        if shelves.heads[server, number] != NO_PAGE and shelves.oldest_s[server, number] < oldest_s:
            chosen, oldest_s = number, shelves.oldest_s[server, number]
    return chosen


@compiled
def take_head(shelves, server, number):  # type: ignore[no-untyped-def]
    """Remove the head of a class from its queue."""
    page = shelves.heads[server, number]
    following = shelves.following[page]
    shelves.heads[server, number] = following
    if following != NO_PAGE:
        shelves.oldest_s[server, number] = shelves.last_s[following]
    return page


@compiled
def append_page(shelves, server, number, page, now_s):  # type: ignore[no-untyped-def]
    """Append a page that was visited now, later than all other pages of this class."""
    shelves.last_s[page] = now_s
    shelves.following[page] = NO_PAGE
    if shelves.heads[server, number] == NO_PAGE:
        shelves.heads[server, number] = page
        shelves.oldest_s[server, number] = now_s
    else:
        shelves.following[shelves.tails[server, number]] = page
    shelves.tails[server, number] = page


@compiled
def _fill(shelves, numbers, servers, order):  # type: ignore[no-untyped-def]
    for page in order:
        append_page(shelves, servers[page], numbers[page], page, shelves.last_s[page])


@compiled
def _shelves_of(rates_per_s, weights):  # type: ignore[no-untyped-def]
    shelves = np.empty(len(rates_per_s), np.int64)
    for page in range(len(shelves)):
        shelves[page] = shelf_of(rates_per_s[page], weights[page])
    return shelves
