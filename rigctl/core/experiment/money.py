"""Money as whole micro-units of the rig's one currency, so that sums are exact.

A budget kept in binary floating point loses a trial: after twenty subtractions of 0.05 from 1.0 the rest is not
the 0.05 that the last trial costs. Integers of 1e-6 currency units add up whatever the order.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

from rigctl.flaws import got

Micros = int
"""Millionths of a currency unit."""

MICROS_PER_UNIT = 1_000_000


def to_micros(amount: Decimal | float | str) -> Micros:
    """Return the nearest whole micro-unit of an amount in currency units (ties to even).

    A float is read through its shortest decimal form, so `0.1` is exactly 100000 micro-units.

    Raises:
        ValueError: the amount is not a finite number.
    """
    exact = Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount)
    if not exact.is_finite():
        raise ValueError(got(repr(amount), "must be a finite amount of money"))
    return int((exact * MICROS_PER_UNIT).to_integral_value(rounding=ROUND_HALF_EVEN))


def to_units(micros: Micros) -> float:
    """Return the amount in currency units, for display and for the models; never summed."""
    return micros / MICROS_PER_UNIT
