"""How much of its budget does the index policy spend, and how far is it from the best possible policy, by size?

Pages with known rates of 0.01 to 1 change a day, fifty on a server, all visited at the start. The event-driven
simulator runs the live crawl's policy and budget; the second half of the days is measured. The bound is the
long-run optimum under politeness.

    python benchmarks/revisit_budget.py [--pages 50 105 200 500 1000 5000 20000] [--visits 0.1 0.5 1 5]
"""

import argparse
from dataclasses import dataclass

from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate import event_simulation, web_model
from tarrafa.simulate.freshness_metrics import freshness_bounds
from tarrafa.simulate.policy_controllers import SimulationSettings
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer
from tarrafa.simulate.workload import uniform_rates

PAGES_PER_SERVER = 50
PAUSE_S = 5.0
DAYS, ROUNDS = 40, 20  # at least so many days, and so many visits of a page


@dataclass
class Spending:
    """Both in percent."""

    excess: float  # staleness above the bound
    spent: float  # of the budget


def measure(pages: int, visits_per_page: float, seed: int = 4) -> Spending:
    """Simulate pages that are visited so many times a day in the mean."""
    days, servers = max(DAYS, int(ROUNDS / visits_per_page)), max(1, pages // PAGES_PER_SERVER)
    documents = [
        SimulatedDocument(number % servers, float(rate) * 3600 / DAY_S)
        for number, rate in enumerate(uniform_rates(pages))
    ]
    crawlers, hosts = [SimulatedCrawler()] * servers, [SimulatedServer(PAUSE_S)] * servers
    web, budget = web_model.make_web_model(crawlers, hosts, documents, days * DAY_S, seed), visits_per_page * pages
    from_s = days * DAY_S / 2
    done = event_simulation.run(web, SimulationSettings("index", budget, learn=False, start="fresh", from_s=from_s))
    bound, fresh = freshness_bounds(web, budget).wp, done.summary.expected_freshness
    assert bound is not None
    assert fresh is not None
    visits = int((done.log.starts_s >= from_s).sum())
    return Spending(100 * ((1 - fresh) / bound - 1), 100 * visits / (budget * days / 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, nargs="+", default=[50, 105, 200, 500, 1000, 5000, 20_000])
    parser.add_argument("--visits", type=float, nargs="+", default=[0.1, 0.5, 1.0, 5.0])
    asked = parser.parse_args()
    print("| pages | " + " | ".join(f"{visits:g} visits a page a day" for visits in asked.visits) + " |")
    print("|---" * (1 + len(asked.visits)) + "|")
    for pages in asked.pages:
        found = [measure(pages, visits) for visits in asked.visits]
        cells = [f"{one.excess:.2f} % above the bound, {one.spent:.1f} % spent" for one in found]
        print(f"| {pages:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
