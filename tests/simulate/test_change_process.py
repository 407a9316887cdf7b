import math

import numpy as np
import pytest

from tarrafa.simulate.change_process import (
    JITTER,
    MIXTURE,
    PARETO_SHAPE,
    ChangeProcess,
    ChangeTimes,
    choose_process,
    draw_all_changes,
    draw_changes,
    draw_gaps,
)

DOCUMENTS = 4000


def sample(process: ChangeProcess, rate: float, until: float, seed: int = 1) -> list[ChangeTimes]:
    return draw_all_changes([process] * DOCUMENTS, [rate] * DOCUMENTS, until, seed)


@pytest.mark.parametrize("process", ChangeProcess)
def test_gaps_have_the_mean_that_the_rate_says(process):
    drawn = draw_gaps(process, 4.0, 400_000, np.random.default_rng(1))
    assert (drawn > 0).all()
    tolerance = 0.05 if process is ChangeProcess.PARETO else 0.005  # no variance: the mean comes slowly
    assert drawn.mean() == pytest.approx(0.25, rel=tolerance)


@pytest.mark.parametrize("process", ChangeProcess)
def test_the_rate_is_the_same_from_time_0_on(process):
    """A process that began with a change would be too fast at first, or, if regular, have no changes for a while."""
    moments = np.concatenate([life.after for life in sample(process, rate=1.0, until=6.0)])
    counts = np.histogram(moments, bins=12, range=(0.0, 6.0))[0]
    assert counts == pytest.approx(np.full(12, DOCUMENTS / 2), rel=0.12)
    assert counts.sum() == pytest.approx(6 * DOCUMENTS, rel=0.03)


@pytest.mark.parametrize("process", ChangeProcess)
def test_the_wait_for_the_first_change_is_the_residual_of_the_gap(process):
    """P(first > t) = rate x the integral of P(gap > x) from t on."""
    firsts = np.array([life.after[0] if len(life.after) else math.inf for life in sample(process, 1.0, 50.0)])
    drawn = draw_gaps(process, 1.0, 2_000_000, np.random.default_rng(5))
    for t in (0.1, 0.4, 0.9, 1.5):
        residual = np.maximum(drawn - t, 0.0).mean() / drawn.mean()
        assert np.mean(firsts > t) == pytest.approx(residual, abs=0.03), t


@pytest.mark.parametrize("process", ChangeProcess)
def test_the_last_change_before_0_mirrors_the_first_one_after(process):
    seen = sample(process, 1.0, 50.0)
    before = np.array([-life.before for life in seen])
    after = np.array([life.after[0] if len(life.after) else math.inf for life in seen])
    for t in (0.1, 0.4, 0.9, 1.5):
        assert np.mean(before > t) == pytest.approx(np.mean(after > t), abs=0.035)


def test_regular_documents_keep_their_time():
    life = draw_changes(ChangeProcess.REGULAR, 2.0, 100.0, np.random.default_rng(3))
    steps = np.diff(life.after)
    assert steps.min() >= 0.5 * (1 - JITTER)
    assert steps.max() <= 0.5 * (1 + JITTER)
    assert len(life.after) == pytest.approx(200, abs=4)


def test_pareto_gaps_have_a_heavy_tail_and_a_least_length():
    drawn = draw_gaps(ChangeProcess.PARETO, 1.0, 400_000, np.random.default_rng(2))
    least = (PARETO_SHAPE - 1) / PARETO_SHAPE
    assert drawn.min() >= least
    assert np.mean(drawn > 10 * least) == pytest.approx(10**-PARETO_SHAPE, rel=0.03)
    assert np.mean(drawn > 100 * least) == pytest.approx(100**-PARETO_SHAPE, rel=0.15)


def test_a_document_of_rate_0_never_changed_and_never_will():
    life = draw_changes(ChangeProcess.POISSON, 0.0, 1e9, np.random.default_rng(1))
    assert life.before == -math.inf
    assert len(life.after) == 0


@pytest.mark.parametrize("process", ChangeProcess)
def test_changes_are_ascending_and_end_in_time(process):
    life = draw_changes(process, 1.0, 300.0, np.random.default_rng(9))
    assert life.before <= 0 < life.after[0]
    assert (np.diff(life.after) > 0).all()
    assert life.after[-1] <= 300.0


def test_a_mixture_is_60_30_and_10_of_a_hundred():
    dice = np.random.default_rng(4)
    rolled = [choose_process("mixture", dice) for _ in range(20_000)]
    for process, share in zip(ChangeProcess, MIXTURE, strict=True):
        assert rolled.count(process) / len(rolled) == pytest.approx(share, abs=0.01)
    assert choose_process("pareto", dice) is ChangeProcess.PARETO


def test_what_one_document_does_depends_on_the_seed_and_its_number_alone():
    few = draw_all_changes([ChangeProcess.POISSON] * 3, [1.0, 2.0, 3.0], 50.0, seed=7)
    many = draw_all_changes(
        [ChangeProcess.POISSON, ChangeProcess.PARETO, ChangeProcess.POISSON, ChangeProcess.REGULAR],
        [9.0, 5.0, 3.0, 1.0],
        50.0,
        seed=7,
    )
    assert few[2].after.tolist() == many[2].after.tolist()
    other = draw_all_changes([ChangeProcess.POISSON] * 3, [1.0, 2.0, 3.0], 50.0, seed=8)
    assert few[2].after.tolist() != other[2].after.tolist()
