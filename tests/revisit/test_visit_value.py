"""The formulas, against fifty digits of decimal arithmetic."""

import math
from decimal import Decimal, getcontext

import pytest

from tarrafa.revisit.visit_value import (
    SMALL,
    age_at_price,
    inverse_value_growth,
    stale_time,
    staleness,
    value_growth,
    visit_value,
)

getcontext().prec = 50

MANY = [0.0, 1e-300, 1e-20, 1e-8, 1e-4, 0.005, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 40.0, 700.0, 1e6, 1e300]
JOINT = [math.nextafter(SMALL, 0.0), SMALL, math.nextafter(SMALL, 1.0)]


def exact_staleness(y: float) -> Decimal:
    changes = Decimal(y)
    return 1 - (1 - (-changes).exp()) / changes if changes > Decimal("1e-15") else changes / 2


def exact_grown(y: float) -> Decimal:
    changes = Decimal(y)
    return 1 - (1 + changes) * (-changes).exp() if changes > Decimal("1e-15") else changes * changes / 2


@pytest.mark.parametrize("y", [*MANY, *JOINT])
def test_staleness_is_right_to_the_last_digits(y):
    assert staleness(y) == pytest.approx(float(exact_staleness(y)), rel=3e-14, abs=0.0)


@pytest.mark.parametrize("y", [*MANY, *JOINT])
def test_grown_is_right_to_the_last_digits_of_1(y):
    assert value_growth(y) == pytest.approx(float(exact_grown(y)), rel=1e-15, abs=3e-16)


@pytest.mark.parametrize("y", [1e-150, 1e-20, 1e-8, 1e-4, 0.0099])
def test_below_the_joint_the_series_of_grown_is_right_relatively(y):
    assert value_growth(y) == pytest.approx(float(exact_grown(y)), rel=1e-14, abs=0.0)


@pytest.mark.parametrize("function", [staleness, value_growth])
def test_the_series_meets_the_closed_form_without_a_step(function):
    below, at, above = (function(y) for y in JOINT)
    assert below <= at + 3e-16 <= above + 6e-16


def test_staleness_goes_from_nothing_to_all():
    assert staleness(0.0) == 0.0
    assert staleness(math.inf) == 1.0
    assert value_growth(0.0) == 0.0


def test_a_page_is_stale_for_its_share_of_the_gap():
    assert stale_time(0.5, 4.0) == 4.0 * staleness(2.0)
    assert stale_time(0.0, 4.0) == 0.0


@pytest.mark.parametrize("target", [1e-300, 1e-30, 1e-12, 1e-5, 0.01, 0.3, 0.499, 0.5, 0.501, 0.9, 0.999, 1 - 1e-9])
def test_inverse_grown_is_the_inverse_of_grown(target):
    assert float(exact_grown(inverse_value_growth(target))) == pytest.approx(target, rel=2e-12, abs=0.0)


@pytest.mark.parametrize("rate", [1e-9, 0.01, 1.0, 300.0])
@pytest.mark.parametrize("part", [1e-9, 0.2, 0.8, 0.999])
def test_at_its_age_a_visit_is_worth_the_price(rate, part):
    weight = 2.5
    price = part * weight / rate
    assert visit_value(rate, weight, age_at_price(rate, weight, price)) == pytest.approx(price, rel=1e-11)


def test_worth_grows_with_age_towards_weight_over_rate():
    values = [visit_value(0.5, 3.0, age) for age in (0.0, 0.1, 1.0, 2.0, 8.0, 30.0)]
    assert values == sorted(values)
    assert values[0] == 0.0
    assert visit_value(0.5, 3.0, 1e6) == 6.0


@pytest.mark.parametrize(
    ("rate", "weight", "price", "age"),
    [
        (1.0, 1.0, 0.0, 0.0),  # what costs nothing is worth it at once
        (0.0, 1.0, 0.1, math.inf),  # what never changes never is
        (1.0, 0.0, 0.1, math.inf),
        (2.0, 1.0, 0.5, math.inf),  # nor what is dearer than it can ever become
        (2.0, 1.0, 0.6, math.inf),
    ],
)
def test_the_ends_of_the_range_of_prices(rate, weight, price, age):
    assert age_at_price(rate, weight, price) == age


def test_what_never_changes_is_worth_nothing():
    assert visit_value(0.0, 1.0, 100.0) == 0.0
