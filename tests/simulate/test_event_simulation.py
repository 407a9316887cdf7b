import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.policy import (
    EXPLORE_EVERY,
    IndexPolicy,
    PageHistory,
    PlannedPolicy,
    ProportionalPolicy,
    RateUpdatePolicy,
    UniformPolicy,
    shelf_of,
)
from tarrafa.simulate import plan_execution, web_model
from tarrafa.simulate.change_process import ChangeProcess, ChangeTimes, Floats
from tarrafa.simulate.event_simulation import LearnedKnowledge, SimulationResult, TrueKnowledge, run
from tarrafa.simulate.freshness_metrics import VisitLog, count_violations, freshness_bounds
from tarrafa.simulate.policy_controllers import POLICY_NAMES, PolicyTurn, SimulationSettings, make_controller
from tarrafa.simulate.scheduler import CachedPolicy, SleepingServers
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer
from tarrafa.simulate.workload import uniform_rates

FIXED = [name for name in POLICY_NAMES if name not in ("psp", "mp2", "m-wolf")]
MIXED = [0.02, 0.1, 0.5, 2.0, 8.0, 40.0]  # changes a day


def visits_of(log: VisitLog, document: int) -> Floats:
    found: Floats = log.starts_s[log.documents == document]
    return found


def predict_crawl(
    pages: Sequence[SimulatedDocument],
    hosts: int,
    delay_s: float,
    days: float,
    settings: SimulationSettings,
    *,
    dated: Collection[int] = (),
    seed: int = 0,
) -> SimulationResult:
    """Predict a live crawl of some hosts: one request at a time to each, `delay_s` from the end of a response to the
    next request, responses that take no time, a crawler for every host. `dated` hosts send a truthful Last-Modified.
    """
    servers = [SimulatedServer(delay_s, pause_from="end", dated=host in dated) for host in range(hosts)]
    web = web_model.make_web_model([SimulatedCrawler()] * hosts, servers, pages, days * DAY_S, seed)
    return run(web, settings)


def documents(count: int, servers: int) -> list[SimulatedDocument]:
    return [SimulatedDocument(n % servers, MIXED[n // servers % len(MIXED)] / DAY_S) for n in range(count)]


class Given:
    """A plan that stands, until T."""

    explores = is_metered = visits_ahead = False

    def __init__(self, plan: list[tuple[float, int]], end_s: float) -> None:
        self.turn = PolicyTurn(PlannedPolicy(1, end_s), plan, end_s)

    def renew(self, now_s, pages):
        return self.turn if now_s == 0 else replace(self.turn, policy=PlannedPolicy(2, 2 * self.turn.again_s), plan=[])


def walk(
    plan: Sequence[tuple[float, int]], servers: int, pause_s: float, download_s: float, until_s: float = 60.0
) -> list[list[float]]:
    """One crawler, one document a visit; the classic study's politeness."""
    web = web_model.make_web_model(
        [SimulatedCrawler(1.0)],
        [SimulatedServer(pause_s, pause_from="start")] * servers,
        [SimulatedDocument(server, 0.0, download_s) for _, server in plan],
        until_s,
        seed=1,
    )
    given_plan = Given([(due, number) for number, (due, _) in enumerate(plan)], until_s)
    log = run(web, SimulationSettings(start="fresh", policy="psp"), by=given_plan).log
    return [log.starts_s[[plan[d][1] == server for d in log.documents.tolist()]].tolist() for server in range(servers)]


def test_design_queue_waits_for_the_pause():
    assert walk([(5, 0), (7, 0), (30, 0)], 1, pause_s=10, download_s=1) == [[5, 15, 30]]


def test_design_queue_leaves_out_what_would_start_at_the_end_or_later():
    assert walk([(50, 0), (51, 0), (52, 0)], 1, pause_s=10, download_s=1) == [[50]]


def test_design_queue_takes_the_most_overdue_of_the_servers_that_politeness_allows():
    plan = [(10, 0), (12, 0), (11, 1), (13, 1)]
    assert walk(plan, 2, pause_s=5, download_s=4) == [[10, 18], [14, 22]]


@pytest.mark.parametrize("policy", ["psp", "mp2", "m-wolf"])
def test_a_plan_is_walked_through_as_the_classic_queue_does(policy):
    """Two programs that share nothing but the plan: every visit starts at the same moment."""
    pages = sorted(documents(400, 7), key=lambda page: page.server)
    servers, download_s = [SimulatedServer(90.0, 1e5, "start")] * 7, 0.1
    web = web_model.make_web_model([SimulatedCrawler()] * 2, servers, pages, DAY_S, seed=1)
    how = SimulationSettings(policy, budget=5000, learn=False, start="fresh")
    turn = make_controller(web, how).renew(0.0, run_knowledge(web))
    assert turn.plan is not None
    plan = sorted(turn.plan, key=lambda visit: (pages[visit[1]].server, visit[0]))
    offsets = np.searchsorted([pages[document].server for _, document in plan], np.arange(8))
    walked = plan_execution.execute_plan(offsets, np.array([due for due, _ in plan]), 90.0, 2, download_s, DAY_S)
    expected = sorted((start, plan[n][1]) for n, start in enumerate(walked.starts_s.tolist()) if start < DAY_S)
    log = run(web, how).log
    found = sorted(zip(log.starts_s.tolist(), log.documents.tolist(), strict=True))
    assert len(found) > 3000
    assert [document for _, document in found] == [document for _, document in expected]
    assert [start for start, _ in found] == pytest.approx([start for start, _ in expected], abs=1e-6)


def run_knowledge(web: web_model.WebModel) -> list[PageHistory | None]:
    knowing = TrueKnowledge(web)
    return [knowing.record_visit(number, 0.0, False, 0.0) for number in range(len(web.documents))]


worlds = st.fixed_dictionaries(
    {
        "servers": st.lists(
            st.builds(
                SimulatedServer,
                pause_s=st.sampled_from([0.5, 7.0, 60.0, 900.0]),
                speed=st.sampled_from([10.0, 1000.0, math.inf]),
                pause_from=st.sampled_from(["start", "end"]),
                dated=st.booleans(),
            ),
            min_size=1,
            max_size=4,
        ),
        "crawlers": st.lists(
            st.builds(SimulatedCrawler, st.sampled_from([20.0, 5000.0, math.inf])), min_size=1, max_size=3
        ),
        "count": st.integers(1, 12),
        "rate": st.sampled_from([0.0, 3.0, 200.0]),
        "process": st.sampled_from(ChangeProcess),
        "policy": st.sampled_from(POLICY_NAMES),
        "budget": st.sampled_from([None, 20.0, 1000.0]),
        "learn": st.booleans(),
        "start": st.sampled_from(["sweep", "fresh"]),
        "share": st.sampled_from([0.0, 0.3, 1.0]),
        "seed": st.integers(0, 99),
    }
)


@given(worlds)
@settings(max_examples=60, deadline=None)
def test_politeness_is_never_violated_and_budgets_hold(world):
    hosts = len(world["servers"])
    web = web_model.make_web_model(
        world["crawlers"],
        world["servers"],
        [
            SimulatedDocument(n % hosts, (world["rate"] + n) / DAY_S, 100.0 * (n + 1), 1.0 + n % 3, world["process"])
            for n in range(world["count"])
        ],
        0.1 * DAY_S,
        world["seed"],
    )
    how = SimulationSettings(
        world["policy"], world["budget"], world["learn"], world["start"], world["share"], horizon_s=0.05 * DAY_S
    )
    done = run(web, how)  # raises at the first violation
    log, summary = done.log, done.summary
    by_server: dict[int, tuple[float, float]] = {}
    for document, start_s, end_s in zip(log.documents, log.starts_s, log.ends_s, strict=True):
        server = web.documents[document].server
        if server in by_server:
            last_start_s, last_end_s = by_server[server]
            pause_s, begins = web.servers[server].pause_s, web.servers[server].pause_from
            assert start_s >= last_end_s
            assert start_s - (last_start_s if begins == "start" else last_end_s) >= pause_s - 1e-6
        by_server[server] = (start_s, end_s)
    moments_s = np.concatenate([log.starts_s, log.ends_s])
    steps = np.repeat([1, -1], len(log.starts_s))
    assert np.cumsum(steps[np.lexsort((steps, moments_s))]).max(initial=0) <= len(web.crawlers)
    assert (log.starts_s < web.until_s).all()
    if world["budget"] is not None and world["policy"] in FIXED:
        saved = max(1.0, world["budget"] / 4)
        assert len(log.documents) <= world["count"] + saved + 0.1 * world["budget"] + 1
    assert 0 <= summary.freshness <= 1
    assert summary.violations == 0


def test_the_check_of_politeness_is_not_blind():
    servers = (SimulatedServer(10.0), SimulatedServer(10.0, pause_from="start"))
    whose = np.array([0, 0, 1, 1, 1])
    starts, ends = np.array([0.0, 11.0, 0.0, 10.0, 30.0]), np.array([2.0, 12.0, 2.0, 31.0, 31.0])
    log = VisitLog(np.arange(5), starts, ends, np.zeros(5, bool))
    assert count_violations(servers, whose, log) == 2  # 9 s after an end; and two at once


@pytest.mark.parametrize("policy", ["uniform", "index", "rateupdate"])
@pytest.mark.parametrize("start", ["sweep", "fresh"])
def test_what_happened_agrees_with_what_was_expected(policy, start):
    how = SimulationSettings(policy, budget=1200, start=start, statistic_s=DAY_S)
    ages = []  # of one run the age varies by a tenth: it is that of a few pages that are hardly ever visited
    for seed in range(8):
        done = predict_crawl(documents(120, 5), 5, 60.0, 10, how, dated=range(3), seed=seed).summary
        assert done.freshness == pytest.approx(done.expected_freshness, abs=0.015)
        for interval in done.intervals:
            assert interval.freshness == pytest.approx(interval.expected_freshness, abs=0.07)
        assert done.expected_age_s is not None
        ages.append((done.age_s, done.expected_age_s))
    found, expected = np.mean(ages, axis=0)
    assert found == pytest.approx(expected, rel=0.08)


def test_expected_freshness_and_age_are_the_textbook_ones():
    """Rate r, visited every g, y = rg: freshness (1 - e^-y) / y, age g (1/2 - 1/y + (1 - e^-y) / y^2)."""
    web = web_model.make_web_model(
        [SimulatedCrawler()], [SimulatedServer(1.0)], [SimulatedDocument(0, 1 / 3600)], 1000 * 3600.0, 1
    )
    done = run(web, SimulationSettings("uniform", start="fresh", interval_min_s=3600.0)).summary
    assert done.expected_freshness == pytest.approx(-math.expm1(-1), abs=1e-9)
    assert done.expected_age_s == pytest.approx(3600 * (0.5 - 1 - math.expm1(-1)), abs=1e-3)
    assert done.freshness == pytest.approx(done.expected_freshness, abs=0.03)


def test_importance_weighs_what_is_measured():
    web = web_model.make_web_model(
        [SimulatedCrawler()],
        [SimulatedServer(1.0)],
        [SimulatedDocument(0, 0.0, weight=3.0), SimulatedDocument(0, 1000 / DAY_S)],
        DAY_S,
        seed=1,
    )
    done = run(web, SimulationSettings("uniform", start="fresh", interval_min_s=DAY_S)).summary
    assert done.freshness == pytest.approx(0.75, abs=0.01)


def test_a_document_never_fetched_is_not_fresh_and_has_no_age():
    web = web_model.make_web_model(
        [SimulatedCrawler()], [SimulatedServer(DAY_S / 4)], [SimulatedDocument(0, 0.0)] * 4, DAY_S, seed=1
    )
    intervals = run(web, SimulationSettings("uniform", share=0.0, statistic_s=DAY_S / 4)).summary.intervals
    assert [interval.freshness for interval in intervals] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert [interval.fetched for interval in intervals] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert [interval.age_s for interval in intervals] == [0, 0, 0, 0]


def test_a_visit_sees_the_document_as_it_stands_when_the_download_starts():
    web = web_model.make_web_model(
        [SimulatedCrawler(1.0)], [SimulatedServer(5.0)], [SimulatedDocument(0, 1e-9, size=10.0)], 40.0, seed=1
    )
    web = replace(
        web, lives=[ChangeTimes(-1.0, np.array([4.0, 15.0]))]
    )  # during the first download; when the second starts
    done = run(web, SimulationSettings("uniform", statistic_s=40.0))
    assert done.log.starts_s.tolist() == [0, 15, 30]
    assert done.log.changed.tolist() == [False, True, False]
    assert done.summary.freshness == pytest.approx((4 + 25) / 40)
    assert done.summary.age_s == pytest.approx(11 * 11 / 2 / 40)


def test_the_first_sweep_goes_by_number_and_revisits_take_their_share():
    def order(share: float) -> list[int]:
        web = web_model.make_web_model([SimulatedCrawler()], [SimulatedServer(1.0)], documents(6, 1), 14.0, seed=1)
        return run(web, SimulationSettings("uniform", share=share)).log.documents.tolist()

    assert order(0.0)[:8] == [0, 1, 2, 3, 4, 5, 0, 1]
    assert order(1.0)[:4] == [0, 0, 0, 0]
    half = order(0.5)
    assert half[:3] == [0, 1, 0]
    assert [half.index(document) for document in range(6)] == [0, 1, 3, 5, 7, 9]


def test_revisits_that_the_budget_refuses_leave_their_slots_to_new_documents():
    web = web_model.make_web_model([SimulatedCrawler()], [SimulatedServer(1.0)], documents(50, 1), 60.0, seed=1)
    log = run(web, SimulationSettings("uniform", budget=1e-3 * DAY_S, share=1.0)).log
    assert set(log.documents) == set(range(50))


def test_the_budget_is_spent_and_no_more():
    for policy in ("uniform", "rateupdate", "proportional", "index"):
        how = SimulationSettings(policy, budget=1000, start="fresh", learn=False)
        done = predict_crawl(documents(200, 8), 8, 10.0, 8, how, seed=2).summary
        assert done.visits <= 1000 * 8 + 250, policy
        assert done.visits >= 1000 * 8 * 0.93, policy


def test_no_document_is_visited_more_often_than_interval_min():
    for policy in POLICY_NAMES:
        how = SimulationSettings(policy, interval_min_s=7000.0, learn=False)
        log = predict_crawl(documents(30, 3), 3, 30.0, 5, how, seed=2).log
        gaps = [np.diff(visits_of(log, document)).min() for document in range(30) if len(visits_of(log, document)) > 1]
        assert len(gaps) > 10
        assert min(gaps) >= 7000.0 - 1e-6


def test_proportional_visits_every_3_days_what_changed_10_times_in_30_daily_visits():
    web = web_model.make_web_model(
        [SimulatedCrawler()], [SimulatedServer(1.0)], [SimulatedDocument(0, 1 / DAY_S)], DAY_S, seed=1
    )
    learning = LearnedKnowledge(web)
    page = learning.record_visit(0, 0.0, False, -5.0)
    for day in range(1, 31):
        page = learning.record_visit(0, day * DAY_S, day % 3 == 0, 0.0)
    assert ProportionalPolicy().place(page) == (0, 33 * DAY_S)


def test_rateupdate_visits_rate_2_twice_as_often_as_rate_1():
    pages = [SimulatedDocument(0, 2 / DAY_S), SimulatedDocument(0, 1 / DAY_S)]
    log = predict_crawl(pages, 1, 1.0, 40, SimulationSettings("rateupdate", learn=False, start="fresh"), seed=1).log
    assert (len(visits_of(log, 0)), len(visits_of(log, 1))) == (79, 39)
    log = predict_crawl(pages, 1, 1.0, 40, SimulationSettings("rateupdate", 12, learn=False, start="fresh"), seed=1).log
    assert len(visits_of(log, 0)) / len(visits_of(log, 1)) == pytest.approx(2, rel=0.02)
    assert len(log.documents) == pytest.approx(12 * 40, abs=15)


@pytest.mark.parametrize("learn", [False, True])
def test_index_beats_uniform_and_proportional_on_mixed_rates(learn):
    def staleness(policy: str) -> float:
        how = SimulationSettings(policy, 1000, learn, start="fresh", from_s=3 * DAY_S)  # type: ignore[arg-type]
        expected = predict_crawl(documents(200, 8), 8, 20.0, 10, how, seed=4).summary.expected_freshness
        assert expected is not None
        return 1 - expected

    index, uniform, proportional = staleness("index"), staleness("uniform"), staleness("proportional")
    assert index < 0.93 * uniform
    assert index < 0.93 * proportional


def test_index_comes_close_to_what_no_policy_can_beat():
    pages = [SimulatedDocument(n % 8, rate * 20 / DAY_S) for n, rate in enumerate(MIXED * 30)]
    how = SimulationSettings("index", 3000, learn=False, start="fresh", from_s=2 * DAY_S)
    web = web_model.make_web_model([SimulatedCrawler()] * 8, [SimulatedServer(40.0)] * 8, pages, 8 * DAY_S, seed=4)
    least, found = freshness_bounds(web, 3000), run(web, how).summary.expected_freshness
    assert least.non_polite is not None
    assert least.wp is not None
    assert found is not None
    assert least.non_polite <= least.wp * (1 + 1e-9)
    assert 0.999 < (1 - found) / least.wp < 1.02


@pytest.mark.parametrize("pages", [50, 105, 200, 500])
@pytest.mark.parametrize("visits_per_page", [0.5, 1.0])
def test_index_spends_all_of_a_small_budget_and_comes_as_close_to_the_bound(pages, visits_per_page):
    """All pages begin together, so that those of one class are due together."""
    servers, budget, days = pages // 50, visits_per_page * pages, 40
    rates = [float(rate) / 24 for rate in uniform_rates(pages)]  # 0.01 to 1 change a day
    web = web_model.make_web_model(
        [SimulatedCrawler()] * servers,
        [SimulatedServer(5.0)] * servers,
        [SimulatedDocument(number % servers, rate) for number, rate in enumerate(rates)],
        days * DAY_S,
        seed=4,
    )
    done = run(web, SimulationSettings("index", budget, learn=False, start="fresh", from_s=days / 2 * DAY_S))
    bound, fresh = freshness_bounds(web, budget).wp, done.summary.expected_freshness
    assert bound is not None
    assert fresh is not None
    assert len(done.log.documents) == pytest.approx(budget * days, rel=0.005, abs=3)
    assert 0.999 < (1 - fresh) / bound < 1.003


def test_the_means_of_a_run_leave_its_beginning_out():
    web = web_model.make_web_model(
        [SimulatedCrawler()], [SimulatedServer(100.0)], [SimulatedDocument(0, 0.0)] * 3, 400.0, seed=1
    )
    assert run(web, SimulationSettings("uniform", share=0.0, statistic_s=90.0)).summary.freshness == pytest.approx(0.75)
    done = run(web, SimulationSettings("uniform", share=0.0, statistic_s=90.0, from_s=200.0)).summary
    assert done.freshness == 1
    assert [interval.until_s for interval in done.intervals] == [90, 180, 200, 270, 360, 400]
    with pytest.raises(ConfigError, match="nothing is left to measure from 400 s on"):
        run(web, SimulationSettings("uniform", from_s=400.0))


def test_every_so_many_visits_of_the_index_policy_explore():
    """Without exploring, a page that seems to change all the time would hardly ever be seen again."""
    pages = [SimulatedDocument(0, 500 / DAY_S)] + [SimulatedDocument(0, 2 / DAY_S)] * 30
    log = predict_crawl(pages, 1, 600.0, 20, SimulationSettings("index", learn=False, start="fresh"), seed=1).log
    assert len(visits_of(log, 0)) >= len(log.documents) / EXPLORE_EVERY / len(pages) * 0.9


@pytest.mark.parametrize("policy", FIXED)
def test_one_web_and_one_setting_give_one_result(policy):
    def go(seed: int) -> SimulationResult:
        return predict_crawl(documents(60, 4), 4, 100.0, 3, SimulationSettings(policy, 500), dated=[1], seed=seed)

    first, again, other = go(1), go(1), go(2)
    assert first.summary == again.summary
    assert first.log.starts_s.tolist() == again.log.starts_s.tolist()
    assert first.summary != other.summary


def test_dates_tell_fast_pages_apart_once_they_are_believed():
    """Seen once a day, 3 and 20 changes a day look alike, if it has always changed: at least so often."""

    def pages_after(dated: bool) -> list[PageHistory]:
        pages = [SimulatedDocument(0, rate / DAY_S) for rate in [3.0, 20.0] * 10]
        web = web_model.make_web_model(
            [SimulatedCrawler()], [SimulatedServer(60.0, dated=dated)], pages, 40 * DAY_S, seed=3
        )
        learning = LearnedKnowledge(web)
        for day in range(40):
            for number, life in enumerate(web.lives):
                seen = life.after[life.after <= day * DAY_S]
                changed = bool(len(seen)) and seen[-1] > (day - 1) * DAY_S
                learning.record_visit(number, day * DAY_S, changed, seen[-1] if len(seen) else life.before)
        return [page for page in learning.pages if page is not None]

    def ratio(slow: list[PageHistory], fast: list[PageHistory]) -> float:
        return float(np.mean([page.estimate for page in fast]) / np.mean([page.estimate for page in slow]))

    blind, dated = pages_after(dated=False), pages_after(dated=True)
    assert ratio([page for page in blind[::2] if not page.quiet], blind[1::2]) < 1.1
    assert all(page.bounds[1] == math.inf and page.bounds[0] * DAY_S < 20.0 for page in blind[1::2])
    assert ratio(dated[::2], dated[1::2]) > 2.3
    assert all(page.bounds[1] < math.inf for page in dated)


@pytest.mark.parametrize(
    "policy",
    [
        UniformPolicy(60.0),
        ProportionalPolicy(),
        RateUpdatePolicy(),
        PlannedPolicy(1, 1e6),
        IndexPolicy(),
        IndexPolicy(1e4, 60.0),
        IndexPolicy(1e6),
    ],
    ids=repr,
)
def test_due_moments_move_with_the_key_alone(policy):
    """What `Quick` relies on."""
    quick = CachedPolicy(policy)
    for shelf in (0, 1, shelf_of(1 / DAY_S, 1.0), shelf_of(90 / DAY_S, 4.0)):
        for key in (0.0, 17.25, 3.5e6):
            assert quick.due(shelf, key) == policy.due(shelf, key)


def test_the_server_that_has_a_due_document_first_is_visited_ahead_if_it_may():
    sleeping = SleepingServers(3)
    for server, wake_s in ((0, 30.0), (1, 10.0), (2, math.inf)):
        sleeping.put(server, wake_s)
    assert sleeping.first(lambda server: True) == 1
    assert sleeping.first(lambda server: server != 1) == 0
    for wake_s in range(50):
        sleeping.put(1, 100.0 + wake_s)
    assert sleeping.first(lambda server: True) == 0
    sleeping.put(0, math.inf)
    assert sleeping.first(lambda server: True) == 1
    assert sleeping.first(lambda server: server == 2) is None


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: SimulationSettings("best"), "policy must be one of index, psp"),  # type: ignore[arg-type]
        (lambda: SimulationSettings(share=1.5), r"share must be 0 to 1, got 1\.5"),
        (lambda: SimulationSettings(budget=0), "budget must be above 0"),
        (
            lambda: web_model.make_web_model([], [SimulatedServer(1)], [SimulatedDocument(0, 1)], 1.0, 0),
            "at least one crawler",
        ),
        (
            lambda: web_model.make_web_model(
                [SimulatedCrawler()], [SimulatedServer(1)], [SimulatedDocument(1, 1)], 1.0, 0
            ),
            "server must be 0 to 0, got 1",
        ),
        (
            lambda: web_model.make_web_model(
                [SimulatedCrawler()], [SimulatedServer(0)], [SimulatedDocument(0, 1)], 1.0, 0
            ),
            "visited for ever",
        ),
        (
            lambda: web_model.make_web_model(
                [SimulatedCrawler()], [SimulatedServer(1)], [SimulatedDocument(0, 1e6)], 1e6, 0
            ),
            "simulate less time",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(make, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make()
