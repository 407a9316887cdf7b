"""Formulas of staleness and of the value of a visit (the index policy's index) for Poisson changes.

A page changes by a Poisson process of rate lambda; a copy taken at time 0 is still fresh at time t with probability
e^(-lambda t). Everything here follows from that. Plain functions of floats, which numba compiles as they are.

Near zero the closed forms subtract almost equal numbers; there a few terms of the series are exact to the last digits.
"""

import math

TINY = 1e-30  # below it the first term of the inverse is all of it, and a slope would vanish
SMALL = 1e-2  # below it the series: its first neglected term is under 1e-16 of the result


def staleness(y: float) -> float:
    """Mean share of an interval during which the copy is stale; `y` is the changes expected in the interval.

    1 - (1 - e^-y) / y.
    """
    if y < SMALL:
        return y * (1 / 2 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y / 5040)))))
    return 1.0 + math.expm1(-y) / y


def stale_time(rate: float, gap: float) -> float:
    """Expected time spent stale between two visits `gap` apart."""
    return gap * staleness(rate * gap)


def value_growth(y: float) -> float:
    """1 - (1 + y) e^-y: the share of a visit's largest possible value that `y` expected changes reach."""
    if y < SMALL:
        return y * y * (1 / 2 - y * (1 / 3 - y * (1 / 8 - y * (1 / 30 - y * (1 / 144 - y / 840)))))
    return 1.0 - (1.0 + y) * math.exp(-y)


def visit_value(rate: float, weight: float, age: float) -> float:
    """The value of visiting a page now, `age` after its last visit: weight (1/l - (age + 1/l) e^(-l age)).

    This is the index of the live policy: the price at which visiting every `age` would be optimal for this page. It
    grows with age, from 0 to weight / rate: a page that changes very often is never worth much.
    """
    if rate <= 0.0:
        return 0.0
    return weight * value_growth(rate * age) / rate


def age_at_price(rate: float, weight: float, price: float) -> float:
    """The age at which a visit is worth the price; infinite if it never is."""
    if price <= 0.0:
        return 0.0
    if rate <= 0.0 or weight <= 0.0:
        return math.inf
    target = price * rate / weight
    if target >= 1.0:
        return math.inf
    return inverse_value_growth(target) / rate


def inverse_value_growth(target: float) -> float:
    """The `y` whose `value_growth` is the target, 0 < target < 1. Newton, from below where it cannot overshoot to
    nothing.
    """
    y = math.sqrt(2.0 * target)
    if target < TINY:
        return y
    if target > 0.5:
        y = max(y, -math.log(1.0 - target))
    for _ in range(60):
        slope = y * math.exp(-y)
        step = (value_growth(y) - target) / slope
        if step > y / 2:
            step = y / 2
        elif step < -1.0 - y:
            step = -1.0 - y
        y -= step
        if abs(step) <= 1e-13 * y:
            break
    return y
