"""Expected improvement and expected improvement per unit cost, also where they are far too small for a float.

With v = (mu - best) / s and h(v) = phi(v) + v Phi(v):

    EI(mu, s; best) = E[max(F - best, 0)] = s h(v),  F ~ N(mu, s^2)
    EIPC            = EI / c

(Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box Gittins index",
eqs. 3 and 9.) Far below the best value EI underflows and with it every gradient, so that nothing could be climbed;
therefore everything is in logarithms, a monotone transformation that leaves every maximiser where it was.
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
