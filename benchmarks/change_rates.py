"""How right are believed change rates, from one change a minute to one a year?

    python -m benchmarks.change_rates

Simulated pages that change by a Poisson process, visited at regular gaps, and what `tarrafa.revisit.believe` says of
them. Tables: believed rate / true rate once ten changes were seen; the share of cases in which the 90 % interval holds
the truth, for a page by itself and for pages that are learned together; the rate after days of regular visits; and what
a belief costs.
"""

import math
import random
import statistics
import time
from collections.abc import Iterator

from tarrafa.revisit import believe
from tarrafa.revisit.change_rate import DAY_S, RateSums, log_rate_prior
from tarrafa.revisit.policy import record_first_visit, record_visit

SCALES = (("minute", 60.0), ("hour", 3600.0), ("day", DAY_S), ("month", 30 * DAY_S), ("year", 365 * DAY_S))
EXPECTED = (0.05, 0.3, 1.0, 2.0, 4.0, 10.0)  # changes between two visits
VISITS = (1, 2, 3, 5, 10, 30, 100, 300)
PAGES = 1000
DECADES, TOGETHER = (0, 2, 4, 8), 400
# Changes a day, and seconds between visits.
REGULAR = ((24.0, 600.0), (144.0, 600.0), (1.0, DAY_S / 4), (0.01, 7 * DAY_S))
DAYS = (1, 3, 10, 30)

Visits = list[tuple[float, bool]]


def watch(rng: random.Random, expected: float, gap: float) -> tuple[float, bool]:
    return gap, rng.random() < -math.expm1(-expected)


def watch_changes(rng: random.Random, expected: float, gap: float, changes: int) -> Visits:
    seen: Visits = []
    while changes:
        seen.append(watch(rng, expected, gap))
        changes -= seen[-1][1]
    return seen


def print_ratios(rng: random.Random) -> None:
    print(f"believed / true rate, median of {PAGES:,} pages, once ten changes were seen (holds: the lower end)")
    print("one change a".ljust(14), *(f"{expected:>14g}" for expected in EXPECTED), " changes between two visits")
    for name, scale in SCALES:
        cells = []
        for expected in EXPECTED:
            found = [believe(watch_changes(rng, expected, expected * scale, 10)) for _ in range(PAGES)]
            ratio = statistics.median(rate for rate, _, _ in found) * scale
            at_least = statistics.mean(high == math.inf for _, _, high in found)
            holds = statistics.mean(low * scale <= 1.0 for _, low, _ in found)
            cells.append(f"{ratio:.2f}" if at_least < 0.5 else f"at least {holds:.1%}")
        print(name.ljust(14), *(f"{cell:>14}" for cell in cells))


def print_coverage(rng: random.Random) -> None:
    print(
        "\nshare of cases in which the 90 % interval holds the true rate; gaps of .03 to 3 times the time of a change"
    )
    print("one change a".ljust(14), *(f"{visits:>7}" for visits in VISITS), " visits after the first")
    for name, scale in SCALES:
        cells = []
        for visits in VISITS:
            inside = 0
            for _ in range(PAGES):
                expected = math.exp(rng.uniform(math.log(0.03), math.log(3.0)))
                _, low, high = believe([watch(rng, expected, expected * scale) for _ in range(visits)])
                inside += low <= 1.0 / scale <= high
            cells.append(inside / PAGES)
        print(name.ljust(14), *(f"{cell:7.1%}" for cell in cells))


def print_learned(rng: random.Random) -> None:
    print(
        "\nthe same for pages that are learned together, and how often the lower end holds; believed and true share of"
        "\nfresh copies. Rates, gaps and ages lie within so many decades; in the second group all gaps are alike"
    )
    print("decades".ljust(14), *(f"{visits:>20}" for visits in VISITS), " visits after the first")
    for alike in (False, True):
        for decades in DECADES:
            print(f"{decades}".ljust(14), *(f"{cell:>20}" for cell in learned_together(rng, decades, alike)))


def learned_together(rng: random.Random, decades: int, alike: bool) -> Iterator[str]:
    width = decades * math.log(10)
    rates = [math.exp((number / TOGETHER - 0.5) * width) / DAY_S for number in range(TOGETHER)]
    pages, sums = [record_first_visit(0.0) for _ in rates], RateSums()
    least, most = DAY_S * math.exp(-width / 2), DAY_S * math.exp(width / 2)

    def spread(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    for visits in range(1, VISITS[-1] + 1):
        for number, rate in enumerate(rates):
            page = pages[number]
            if page.has_evidence:
                sums = sums.plus(page.alpha, page.beta, -1)
            gap = spread(0.03, 3.0) * (DAY_S if alike else spread(least, most))
            page = record_visit(page, page.last + gap, watch(rng, rate * gap, gap)[1], prior=log_rate_prior(sums))
            pages[number], sums = page, sums.plus(page.alpha, page.beta)
        if visits in VISITS:
            bounds = [page.bounds for page in pages]
            ages = [spread(least, most) for _ in pages]
            holds = statistics.mean(low <= rate for (low, _), rate in zip(bounds, rates, strict=True))
            inside = statistics.mean(low <= rate <= high for (low, high), rate in zip(bounds, rates, strict=True))
            fresh = statistics.mean(page.belief.fresh_probability(age) for page, age in zip(pages, ages, strict=True))
            true = statistics.mean(math.exp(-rate * age) for rate, age in zip(rates, ages, strict=True))
            yield f"{inside:.0%} {holds:.0%} {fresh:.2f} {true:.2f}"


def print_days(rng: random.Random) -> None:
    print(f"\nbelieved / true rate after regular visits, median of {PAGES // 5} pages")
    print("changes a day, seconds between visits".ljust(40), *(f"{days:>7}" for days in DAYS), " days")
    for per_day, gap in REGULAR:
        cells = []
        for days in DAYS:
            visits = int(days * DAY_S / gap)
            found = [
                believe([watch(rng, per_day * gap / DAY_S, gap) for _ in range(visits)])[0] * DAY_S / per_day
                for _ in range(PAGES // 5)
            ]
            cells.append(f"{statistics.median(found):7.2f}" if visits else "      -")
        print(f"{per_day:g}, {gap:,.0f}".ljust(40), *cells)


def print_cost(rng: random.Random) -> None:
    page = record_first_visit(0.0)
    moments = [rng.expovariate(1 / DAY_S) for _ in range(20_000)]
    begun = time.process_time()
    for moment in moments:
        page = record_visit(page, page.last + moment, rng.random() < 0.5)
    print(f"\nrecord_visit: {(time.process_time() - begun) / len(moments) * 1e6:.1f} us")
    for visits in (2, 200):
        page = record_first_visit(0.0)
        for moment in moments[:visits]:
            page = record_visit(page, page.last + moment, rng.random() < 0.5)
        begun = time.process_time()
        for moment in moments:
            page.belief.fresh_probability(moment)
        print(f"belief after {visits} visits: {(time.process_time() - begun) / len(moments) * 1e6:.1f} us")


def main() -> None:
    rng = random.Random(23)
    for table in (print_ratios, print_coverage, print_learned, print_days, print_cost):
        table(rng)


if __name__ == "__main__":
    main()
