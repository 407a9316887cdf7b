"""Compares all policies under four change processes with the same mean rates.

Promises: all policies, all processes, the same documents on the same servers with the same mean rates; only the times
of the changes differ between processes. The same arguments give the same table.
Knows nothing of how a simulation runs.

Every policy here assumes Poisson changes, most of all index and the plans, which weigh visits by that formula. The true
value of a visit depends on the gaps: a regular document is certainly fresh for a while after a change and certainly
stale later; a Pareto document changes in bursts, and after a long silence hardly at all. Staleness is therefore counted
from the actual changes, never in closed form.

Known weakness: rates are drawn from one distribution (log-even from one change a month to ten a day), chosen because it
is wide; the order of the policies depends on the budget more than on the process.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate import change_process, engine, web_model
from tarrafa.simulate.change_process import ProcessName
from tarrafa.simulate.freshness_bounds import freshness_bounds
from tarrafa.simulate.policy_comparison import MIXTURE_SEED, markdown_table
from tarrafa.simulate.policy_controllers import POLICY_NAMES, PolicyName, SimulationSettings
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer
from tarrafa.simulate.workload import largest_remainder, zipf_shares

PROCESS_NAMES: tuple[ProcessName, ...] = ("poisson", "pareto", "regular", "mixture")
RATE_MIN_PER_DAY, RATE_MAX_PER_DAY = 1 / 30, 10.0

Progress = Callable[[int, int], None]


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
            done = engine.run(web, how).summary
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
