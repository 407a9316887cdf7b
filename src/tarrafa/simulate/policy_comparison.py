"""Runs every policy of a scenario on the same changes and reports their freshness.

Promises: every policy sees exactly the same changes; the same scenario gives the same report.
Knows nothing of TOML, nor of how the report is printed.
"""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate import change_process, engine, web_model
from tarrafa.simulate.freshness_bounds import FreshnessBounds, freshness_bounds
from tarrafa.simulate.freshness_metrics import SimulationSummary
from tarrafa.simulate.policy_controllers import PolicyName, SimulationSettings
from tarrafa.simulate.scenario import Scenario
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer, WebModel

MIXTURE_SEED = 0x6D6978  # separates the random numbers for mixtures from those for changes

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
        runs.append(engine.run(web, settings_of(scenario, policy)).summary)
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
