"""Compares policies: those of a scenario on the same changes, or all of them under four change processes.

Promises: every policy sees exactly the same changes; the same arguments give the same report. Between change processes
only the times of the changes differ, not the documents, their servers and mean rates.
Knows nothing of TOML, nor of how a simulation runs.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate import change_process, event_simulation, web_model
from tarrafa.simulate.change_process import ProcessName
from tarrafa.simulate.freshness_metrics import FreshnessBounds, SimulationSummary, freshness_bounds
from tarrafa.simulate.policy_controllers import POLICY_NAMES, PolicyName, SimulationSettings
from tarrafa.simulate.scenario import Scenario
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer, WebModel
from tarrafa.simulate.workload import largest_remainder, zipf_shares

MIXTURE_SEED = 0x6D6978  # separates the random numbers for mixtures from those for changes
PROCESS_NAMES: tuple[ProcessName, ...] = ("poisson", "pareto", "regular", "mixture")
RATE_MIN_PER_DAY, RATE_MAX_PER_DAY = 1 / 30, 10.0

HEADINGS = ("policy", "freshness", "staleness", "expected staleness", "age", "visits", "violations")

Progress = Callable[[int, int], None]


class ScenarioReport(msgspec.Struct, frozen=True):
    """The results of a scenario."""

    days: float
    seed: int
    learn: bool
    budget: float | None  # visits a day
    crawlers: int
    servers: int
    documents: int
    bounds: FreshnessBounds  # of staleness
    runs: tuple[SimulationSummary, ...]


def run_scenario(scenario: Scenario, progress: Progress = lambda done, total: None) -> ScenarioReport:
    """Run each policy of a scenario; `progress` is called with policies done and policies in all."""
    run, web = scenario.run, build_web(scenario)
    progress(0, len(run.policies))
    runs = []
    for policy in run.policies:
        runs.append(event_simulation.run(web, settings_of(scenario, policy)).summary)
        progress(len(runs), len(run.policies))
    return ScenarioReport(
        days=run.days,
        seed=run.seed,
        learn=run.learn,
        budget=run.budget,
        crawlers=len(web.crawlers),
        servers=len(web.servers),
        documents=len(web.documents),
        bounds=freshness_bounds(web, run.budget),
        runs=tuple(runs),
    )


def settings_of(scenario: Scenario, policy: PolicyName) -> SimulationSettings:
    run = scenario.run
    return SimulationSettings(
        policy=policy,
        budget=run.budget,
        learn=run.learn,
        start=run.start,
        share=run.share,
        horizon_s=float(run.horizon),
        interval_min_s=float(run.interval_min),
        statistic_s=float(run.statistic),
        from_s=float(run.warmup),
    )


def build_web(scenario: Scenario) -> WebModel:
    """Make crawlers, servers and documents; the documents of a group are distributed in turn over the servers of a
    name.
    """
    crawlers = [SimulatedCrawler(group.speed or math.inf) for group in scenario.crawlers for _ in range(group.count)]
    servers: list[SimulatedServer] = []
    numbers: dict[str, range] = {}
    for group in scenario.servers:
        numbers[group.name] = range(len(servers), len(servers) + group.count)
        one = SimulatedServer(float(group.pause), group.speed or math.inf, group.pause_from, group.dates)
        servers += [one] * group.count
    dealt = dict.fromkeys(numbers, 0)
    dice = np.random.default_rng((scenario.run.seed, MIXTURE_SEED))
    documents = []
    for described in scenario.documents:
        among = numbers[described.server]
        for _ in range(described.count):
            server = among[dealt[described.server] % len(among)]
            dealt[described.server] += 1
            process = change_process.choose_process(described.process, dice)
            documents.append(
                SimulatedDocument(server, described.rate_per_s, described.size, described.importance, process)
            )
    return web_model.make_web_model(crawlers, servers, documents, scenario.run.days * DAY_S, scenario.run.seed)


def report_rows(report: ScenarioReport) -> list[tuple[str, ...]]:
    """Lines of a table under `HEADINGS`, the freshest first; bounds are among them."""
    found: list[tuple[float, tuple[str, ...]]] = []
    for run in report.runs:
        expected = "" if run.expected_freshness is None else f"{1.0 - run.expected_freshness:.4f}"
        numbers = (f"{run.freshness:.4f}", f"{run.staleness:.4f}", expected, format_hours(run.age_s))
        found.append((run.staleness, (run.policy, *numbers, f"{run.visits:,}", f"{run.violations}")))
    for name, bound in (("wp (bound)", report.bounds.wp), ("non_polite (bound)", report.bounds.non_polite)):
        if bound is not None:
            found.append((bound, (name, f"{1.0 - bound:.4f}", f"{bound:.4f}", f"{bound:.4f}", "", "", "")))
    return [row for _, row in sorted(found)]


def format_hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h"


def markdown_table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    ruled = [headings, ["---"] * len(headings), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


# Every policy assumes Poisson changes, most of all index and the plans, which weigh visits by that formula. The true
# value of a visit depends on the gaps: a regular document is certainly fresh for a while after a change and certainly
# stale later; a Pareto document changes in bursts, and after a long silence hardly at all. Staleness is therefore
# counted from the actual changes, never in closed form.
#
# Known weakness: rates are drawn from one distribution (log-even from one change a month to ten a day), chosen because
# it is wide; the order of the policies depends on the budget more than on the process.
class ComparisonCell(msgspec.Struct, frozen=True):
    """One policy under one process."""

    policy: str
    process: str
    staleness: float
    freshness: float
    age_s: float | None = None
    visits: int | None = None


def compare_processes(
    policies: Sequence[PolicyName] = POLICY_NAMES,
    processes: Sequence[ProcessName] = PROCESS_NAMES,
    *,
    documents: int = 2_000,
    servers: int = 50,
    servers_theta: float = 1.0,
    days: float = 10.0,
    warmup_days: float = 2.0,
    budget: float = 4_000.0,
    pause_s: float = 180.0,
    learn: bool = False,
    seed: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[ComparisonCell]:
    """Run every policy under every process; `budget` is in visits per day, server sizes follow Zipf(servers_theta). For
    the Poisson process a last cell is the bound.
    """
    chance = np.random.default_rng((seed, MIXTURE_SEED))
    span = np.log(RATE_MAX_PER_DAY / RATE_MIN_PER_DAY)
    rates = RATE_MIN_PER_DAY * np.exp(span * chance.random(documents)) / DAY_S
    sizes = largest_remainder(documents, zipf_shares(servers, servers_theta))
    where = chance.permutation(np.repeat(np.arange(servers), sizes))
    cells: list[ComparisonCell] = []
    bound: ComparisonCell | None = None
    for process in processes:
        dice = np.random.default_rng((seed, MIXTURE_SEED, 1))
        pages = [
            SimulatedDocument(int(server), float(rate), process=change_process.choose_process(process, dice))
            for server, rate in zip(where, rates, strict=True)
        ]
        web = web_model.make_web_model(
            [SimulatedCrawler()] * 10, [SimulatedServer(pause_s)] * servers, pages, days * DAY_S, seed
        )
        for policy in policies:
            how = SimulationSettings(policy, budget, learn, start="fresh", from_s=warmup_days * DAY_S)
            done = event_simulation.run(web, how).summary
            cells.append(ComparisonCell(policy, process, done.staleness, done.freshness, done.age_s, done.visits))
            progress(len(cells), len(processes) * len(policies))
        least = freshness_bounds(web, budget).wp
        if least is not None:
            bound = ComparisonCell("wp (bound)", process, least, 1.0 - least)
    return cells if bound is None else [*cells, bound]


def comparison_table(cells: Sequence[ComparisonCell]) -> str:
    """A Markdown table: a row for each policy, a column for each process, staleness (and freshness)."""
    policies = list(dict.fromkeys(cell.policy for cell in cells))
    processes = list(dict.fromkeys(cell.process for cell in cells))
    found = {(cell.policy, cell.process): cell for cell in cells}
    lines = []
    for policy in policies:
        row = [found.get((policy, process)) for process in processes]
        numbers = [f"{cell.staleness:.3f} ({cell.freshness:.3f})" if cell else "" for cell in row]
        visits = [f"{cell.visits:,}" for cell in row if cell and cell.visits is not None]
        lines.append([policy, *numbers, visits[0] if visits else ""])
    return markdown_table(["policy", *processes, "visits"], lines)
