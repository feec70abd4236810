"""Expected improvement and expected improvement per unit cost, also where they are far too small for a float.

With v = (mu - best) / s and h(v) = phi(v) + v Phi(v):

    EI(mu, s; best) = E[max(F - best, 0)] = s h(v),  F ~ N(mu, s^2)
    EIPC            = EI / c

(Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box Gittins index",
eqs. 3 and 9.) Far below the best value EI underflows and with it every gradient, so that nothing could be climbed;
therefore everything is in logarithms, a monotone transformation that leaves every maximiser where it was.

The Pandora's Box Gittins index: what a setting's box is worth before it is opened.

For a value F ~ N(mu, s^2) that costs c to look at, the index g is the sure value that makes looking and not looking
equally good (Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box
Gittins index", eqs. 5 and 6):

    EI(mu, s; g) = s h(v) = lambda c,   h(v) = phi(v) + v Phi(v),   v = (mu - g) / s

so h(v) = q with q = lambda c / s, and g = mu - s v. lambda says how much value a unit of cost is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray

FAR = 50.0
"""Beyond so many standard deviations below, h comes from its asymptotic series: in h = phi - |v| Phi all but a share
1/v^2 cancels. Here both forms are good to 1e-12."""
LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class Acquired:
    """Hold an acquisition's values and their derivatives by what it is a function of, (b,) each."""

    value: FloatArray
    by_mean: FloatArray
    by_sd: FloatArray
    by_cost: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class LogHeight:
    """Hold ln h(v), and phi and Phi as shares of h; none under- or overflows for any v up to 1e150 either way."""

    log_h: FloatArray
    phi_share: FloatArray
    """phi(v) / h(v)."""
    Phi_share: FloatArray
    """Phi(v) / h(v), the derivative of ln h."""


def log_height(v: FloatArray) -> LogHeight:
    """Return h(v) = phi(v) + v Phi(v) = E[max(v + Z, 0)], in logarithms, elementwise.

    Below 0, h = phi (1 - t R(t)) with t = -v and Mills' ratio R(t) = Phi(-t) / phi(t); above, h = v + h(-v).
    """
    from scipy.special import erfcx  # noqa: PLC0415 - heavy: not for `rigctl --help`

    v = np.asarray(v, dtype=float)
    t = np.abs(v)
    mills = np.sqrt(0.5 * np.pi) * erfcx(t / np.sqrt(2.0))
    with np.errstate(divide="ignore"):  # t = 0, where the series is not used
        u = np.minimum(1.0 / np.square(t), 1.0)
    series = u * (1.0 - u * (3.0 - u * (15.0 - u * (105.0 - 945.0 * u))))
    gap = np.where(t > FAR, series, 1.0 - t * mills)
    log_phi = -0.5 * np.square(t) - LOG_ROOT_2PI
    phi = np.exp(log_phi)
    above = np.maximum(v, 0.0) + phi * gap
    high = v > 0
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # the branch not taken
        log_h = np.where(high, np.log(above), log_phi + np.log(gap))
        phi_share = np.where(high, phi / above, 1.0 / gap)
        Phi_share = np.where(high, (1.0 - phi * mills) / above, mills / gap)
    return LogHeight(log_h, phi_share, Phi_share)


def expected_improvement(mean: FloatArray, sd: FloatArray, best: float) -> FloatArray:
    """Return EI, (b,), of normally distributed values over the best; where sd is 0, what the mean exceeds it by.

    Args:
        mean: (b,), outcome units (any, but the same throughout), larger is better.
        sd: (b,), not negative.
        best: value to improve on.
    """
    return np.asarray(
        np.where(sd > 0, np.exp(log_expected_improvement(mean, sd, best).value), np.maximum(mean - best, 0))
    )


def log_expected_improvement(mean: FloatArray, sd: FloatArray, best: float) -> Acquired:
    """Return ln EI, (b,), and its derivatives; -inf where sd is 0 and the mean does not exceed the best."""
    wide = sd > 0
    s = np.where(wide, sd, 1.0)
    height = log_height((mean - best) / s)
    with np.errstate(divide="ignore"):  # no improvement at all: ln 0
        certain = np.log(np.maximum(mean - best, 0.0))
        slope = np.where(mean > best, 1.0 / np.where(mean > best, mean - best, 1.0), 0.0)
    return Acquired(
        value=np.where(wide, np.log(s) + height.log_h, certain),
        by_mean=np.where(wide, height.Phi_share / s, slope),
        by_sd=np.where(wide, height.phi_share / s, 0.0),
        by_cost=np.zeros_like(s),
    )


def log_improvement_per_cost(mean: FloatArray, sd: FloatArray, best: float, cost: FloatArray) -> Acquired:
    """Return ln(EI / c), (b,), and its derivatives; cost is (b,), positive."""
    plain = log_expected_improvement(mean, sd, best)
    return Acquired(plain.value - np.log(cost), plain.by_mean, plain.by_sd, -1.0 / cost)


HEIGHT_AT_0 = float(np.exp(-LOG_ROOT_2PI))
"""h(0) = phi(0)."""
DEAR = 40.0
"""For q above this h(v) = v to the last bit, so v = q: nothing to solve, and s may be 0."""
MOST_STEPS = 40
CLOSE = 4 * float(np.finfo(float).eps)
"""A relative step this short ends the iteration."""


def inverse_height(log_q: FloatArray) -> FloatArray:
    """Solve ln h(v) = log_q for v, elementwise, for log_q from -1e6 to 700.

    Newton's method on ln h, which rises and is concave: from anywhere the first step ends below the root, all further
    ones rise towards it. In logarithms, as q itself is 1e-12 and smaller where h has no digits left. The bracket
    (h(v) <= phi(v) for v <= 0; v <= h(v) <= max(v, 0) + h(0)) only guards against rounding.
    """
    log_q = np.asarray(log_q, dtype=float)
    q = np.exp(np.minimum(log_q, 700.0))
    tail = -np.sqrt(np.maximum(-2.0 * (log_q + LOG_ROOT_2PI), 0.0))
    low = np.where(q < HEIGHT_AT_0, tail, q - HEIGHT_AT_0)
    high = np.where(q < HEIGHT_AT_0, 0.0, q)
    v = low.copy()
    for _ in range(MOST_STEPS):
        height = log_height(v)
        step = np.clip(v + (log_q - height.log_h) / height.Phi_share, low, high) - v
        v = v + step
        if np.all(np.abs(step) <= CLOSE * np.maximum(np.abs(v), 1.0)):
            break
    return v


def gittins_index(mean: FloatArray, sd: FloatArray, price: FloatArray, rate: float = 1.0) -> Acquired:
    """Return g, (b,), and its derivatives (the paper's eq. 8: dg = dmu + phi/Phi ds - lambda/Phi dc).

    Args:
        mean: (b,), value, larger is better.
        sd: (b,), not negative.
        price: (b,), lambda c in units of value, positive.
        rate: lambda, value per unit of cost: the derivative of the price by the cost.
    """
    sure = price >= DEAR * sd
    s = np.where(sure, 1.0, sd)
    v = inverse_height(np.where(sure, 0.0, np.log(price) - np.log(s)))
    height = log_height(v)
    return Acquired(
        value=np.where(sure, mean - price, mean - s * v),
        by_mean=np.ones_like(mean),
        by_sd=np.where(sure, 0.0, height.phi_share / height.Phi_share),
        by_cost=np.where(sure, -rate, -rate * np.exp(np.minimum(-height.log_h, 700.0)) / height.Phi_share),
    )
