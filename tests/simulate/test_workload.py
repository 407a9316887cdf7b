"""The portable workload: numbers that any language can compute again."""

import numpy as np
import pytest

from tarrafa.simulate.workload import (
    largest_remainder,
    make_workload,
    splitmix64,
    uniform_numbers,
    zipf_rates,
    zipf_shares,
    zipf_weights,
)


def plain_splitmix64(i: int) -> int:
    most = 2**64 - 1
    z = i * 0x9E3779B97F4A7C15 & most
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & most
    z = (z ^ z >> 27) * 0x94D049BB133111EB & most
    return z ^ z >> 31


def test_splitmix64_gives_the_published_numbers_from_seed_0():
    found = splitmix64(np.array([1, 2, 3], dtype=np.uint64))
    assert [int(one) for one in found] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_splitmix64_agrees_with_whole_numbers_of_any_size():
    numbers = np.array([1, 7, 10**6, 2**32 + 5, 2**63, 2**64 - 1], dtype=np.uint64)
    assert [int(one) for one in splitmix64(numbers)] == [plain_splitmix64(int(i)) for i in numbers]


def test_uniform_numbers_are_the_top_53_bits():
    assert uniform_numbers(3).tolist() == [(plain_splitmix64(i) >> 11) / 2**53 for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("total", "shares", "expected"),
    [(10, [0.5, 0.3, 0.2], [5, 3, 2]), (10, [1 / 3] * 3, [4, 3, 3]), (3, [0.1, 0.45, 0.45], [0, 2, 1]), (0, [1], [0])],
)
def test_largest_remainder(total, shares, expected):
    assert largest_remainder(total, np.array(shares, dtype=float)).tolist() == expected


def test_pages_are_contiguous_by_server_and_sizes_follow_zipf():
    web = make_workload(1_000_000, 2_000, 1.0)
    sizes = np.bincount(web.servers, minlength=web.n_servers)
    assert sizes.sum() == 1_000_000
    assert (np.diff(web.servers) >= 0).all()
    assert np.abs(sizes - zipf_shares(2_000, 1.0) * 1_000_000).max() < 1
    assert (make_workload(1_000, 10, 0.0).servers == np.repeat(np.arange(10), 100)).all()


def test_rates_of_the_first_experiment_are_between_a_hundredth_and_one_an_hour():
    rates = make_workload(10_000, 10, 0.0).rates_per_s * 3600
    assert rates[0] == pytest.approx(0.01 + 0.99 * (plain_splitmix64(1) >> 11) / 2**53)
    assert 0.01 <= rates.min() < 0.011
    assert 0.999 < rates.max() < 1.0
    assert rates.mean() == pytest.approx(0.505, abs=0.01)


@pytest.mark.parametrize("theta", [0.0, 1.0, 2.0])
def test_rates_of_the_second_experiment_follow_zipf_over_a_hundred_steps(theta):
    steps = np.rint(zipf_rates(100_000, theta) * 3600 * 100).astype(int)
    assert steps.min() == 1
    assert steps.max() == 100
    shares = np.bincount(steps, minlength=101)[1:] / 100_000
    assert np.abs(shares - zipf_shares(100, theta)).max() < 0.005


def test_rates_of_the_second_experiment_are_the_first_step_whose_sum_exceeds_u():
    sums = np.cumsum(zipf_shares(100, 1.5))
    expected = [0.01 * (1 + sum(1 for one in sums[:-1] if one <= u)) for u in uniform_numbers(200)]
    assert zipf_rates(200, 1.5) * 3600 == pytest.approx(expected)


def test_weights_have_mean_1_and_nothing_to_do_with_rates():
    web = make_workload(100_000, 10, 1.0, weights_theta=1.0)
    assert web.weights.mean() == pytest.approx(1.0)
    assert np.sort(web.weights)[::-1] == pytest.approx(zipf_shares(100_000, 1.0) * 100_000)
    ranks = np.argsort(np.argsort(web.weights)), np.argsort(np.argsort(web.rates_per_s))
    assert abs(np.corrcoef(*ranks)[0, 1]) < 0.01
    assert (zipf_weights(100, 0.0) == 1.0).all()
