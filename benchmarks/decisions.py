"""How many decisions a second does the index policy make, and what do its classes cost in freshness?

The peers, in the same run: a scan that computes the worth of every page of the server from its own rate, compiled just
the same, and the live policy in plain Python (`policy.choose`). Prints decisions a second by pages of a server, then
the staleness of class heads against that of the scan.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from tarrafa.revisit import policy
from tarrafa.simulate import index_policy_queues as heads
from tarrafa.simulate.steady_state import ServerVisits, SteadyWeb, index_timetable_at_price, make_web, measure_staleness
from tarrafa.simulate.workload import HOUR_S, Floats, Numbers, uniform_numbers

LEAST = 1_000_000  # decisions a second of one processor
PAGES = (1_000, 10_000, 100_000)
CLASSES, SLOT_S = 30, 15.0
SECONDS_MIN = 0.5
RATIOS = (0.2, 1.0)


def spread_rates(pages: int) -> Floats:
    """From one change in 40 days upwards, over 30 classes."""
    return 0.001 * policy.RATE_STEP ** (CLASSES * uniform_numbers(pages)) / HOUR_S


@heads.compiled
def decide(shelves, numbers, slots, first):  # type: ignore[no-untyped-def]
    for slot in range(first, first + slots):
        now_s = slot * SLOT_S
        page = heads.take_head(shelves, 0, heads.best_class(shelves, 0, now_s, 0.0))
        heads.append_page(shelves, 0, numbers[page], page, now_s)


@heads.compiled
def scan(rates_per_s, last_s, times_s):  # type: ignore[no-untyped-def]
    """The peer: the page worth most of all, by its own rate."""
    pages = np.empty(len(times_s), np.int64)
    for slot in range(len(times_s)):
        chosen, most = 0, -1.0
        for page in range(len(rates_per_s)):
            value = heads.compiled_visit_value(rates_per_s[page], 1.0, times_s[slot] - last_s[page])
            if value > most:
                chosen, most = page, value
        last_s[chosen] = times_s[slot]
        pages[slot] = chosen
    return pages


def plain(rates_per_s: Floats) -> Callable[[int, int], None]:
    """The peer in Python: what the live frontier does, with its shelves in memory."""
    index = policy.IndexPolicy()
    queues: dict[int, deque[float]] = {}
    for rate in rates_per_s:
        queues.setdefault(policy.shelf_of(float(rate), 1.0), deque()).append(heads.LONG_AGO_S)

    def run(slots: int, first: int) -> None:
        for slot in range(first, first + slots):
            shelf = policy.choose_shelf(index, ((shelf, queue[0]) for shelf, queue in queues.items()), slot * SLOT_S)
            assert shelf is not None
            queues[shelf].popleft()
            queues[shelf].append(slot * SLOT_S)

    return run


def per_second(run: Callable[[int, int], None]) -> float:
    """Decisions a second of one processor; more and more of them until the time says something. The first call
    compiles."""
    run(1, 0)
    slots, first = 10, 1
    while True:
        began = time.process_time()
        run(slots, first)
        took = time.process_time() - began
        if took >= SECONDS_MIN:
            return slots / took
        first += slots
        slots *= 4


def speed(pages: int) -> bool:
    rates, weights = spread_rates(pages), np.ones(pages)
    classes = heads.classes_of(rates, weights)
    numbers: Numbers = heads.class_numbers(classes, rates, weights)
    last_s = np.full(pages, heads.LONG_AGO_S)
    shelves = heads.make_queues(classes, numbers, np.zeros(pages, np.int64), 1, last_s)
    ours = per_second(lambda slots, first: decide(shelves, numbers, slots, first))
    scans = per_second(lambda slots, first: scan(rates, last_s, np.arange(first, first + slots) * SLOT_S))
    python = per_second(plain(rates))
    print(
        f"{pages:>8,} pages {len(classes.rates):>3} classes {ours:>12,.0f}/s {scans:>12,.0f}/s {ours / scans:>9,.0f} x"
        f" {python:>9,.0f}/s {ours / python:>6,.0f} x"
    )
    return ours >= LEAST


def scanned(web: SteadyWeb) -> Iterator[ServerVisits]:
    times_s = np.arange(float(web.slots_per_day * web.days)) * web.politeness_s
    yield ServerVisits(times_s, scan(web.rates_per_s, np.full(len(web.rates_per_s), heads.LONG_AGO_S), times_s))


def cost(ratio: float) -> None:
    for unit in ("hour", "day"):
        web = make_web(int(ratio * 1440), 1440, "hour" if unit == "hour" else "day", 1, 40, None, 0.0)
        ours, exact = (
            measure_staleness(web, index_timetable_at_price(web, 0.0))[0],
            measure_staleness(web, scanned(web))[0],
        )
        print(f"{ratio:g} pages a slot, rates per {unit:4}: {ours:.6f} {exact:.6f} {100 * (ours / exact - 1):+.3f} %")


def main() -> None:
    print(f"{'':29}{'heads':>14} {'scan':>14} {'':>11} {'python':>11}")
    fast = [speed(pages) for pages in PAGES]
    print("\nstaleness: class heads, scan by exact rates, cost of the classes")
    for ratio in RATIOS:
        cost(ratio)
    sys.exit(0 if all(fast) else 1)


if __name__ == "__main__":
    main()
