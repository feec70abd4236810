"""The Pandora's Box Gittins index: what a setting's box is worth before it is opened.

For a value F ~ N(mu, s^2) that costs c to look at, the index g is the sure value that makes looking and not looking
equally good (Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box
Gittins index", eqs. 5 and 6):

    EI(mu, s; g) = s h(v) = lambda c,   h(v) = phi(v) + v Phi(v),   v = (mu - g) / s

so h(v) = q with q = lambda c / s, and g = mu - s v. lambda says how much value a unit of cost is worth.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.acquisition.improvement import LOG_ROOT_2PI, Acquired, log_height
from rigctl.core.experiment.arrays import FloatArray

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
