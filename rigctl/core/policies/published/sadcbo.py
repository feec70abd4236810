"""Sensitivity-analysis-driven contextual Bayesian optimisation (algorithms, section 6).

Martinelli, Bharti, Tiihonen, John, Filstroff, Sloman, Rinke, Kaski: Learning relevant contextual variables within
Bayesian optimization, UAI 2024 (arXiv 2305.14120), as its public code has it. How far the prediction moves where one
variable is collapsed says how much that variable matters. The few that matter most for their price are kept, and an
upper bound of a model of these alone is played. At first variables are watched rather than controlled; once another
outcome hardly changes what is expected of the best one (Ishibashi and others, AISTATS 2023), they are controlled.

What differs here. The paper may control any variables; a rig has control sets: watching plays the cheapest of them,
controlling the one that holds most of the sensitivity kept, of equals the cheapest. A variable's price is what a trial
of the cheapest set with it costs. The batch of upper maximisers are those of the control sets. Kept variables that are
not controlled are averaged over their distribution, as nobody knows their next reading, and the bound has the width
that all policies have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.bounds.best import best_bounds
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.problem import JsonState, sign
from rigctl.core.experiment.space import ControlSet, Space
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import turned
from rigctl.core.gp.surrogate import Posterior, fit
from rigctl.flaws import require
from rigctl.text import set_label

FIRST: Final = 20
"""Outcomes whose change of mind is the yardstick of later ones (Ishibashi and others, section 4.3)."""
STOP: Final = 0.1
"""Of the median of these: less than that, and watching ends."""
BETA: Final = 0.2
"""Squared width of the bounds in that yardstick, as the public code has it."""
LEAST: Final = 1e-16
FEWEST: Final = 2
"""Outcomes, before anything can be said of what the last one changed."""


@dataclass(frozen=True, slots=True)
class Sadcbo(OutlookPolicy):
    """Play the policy `sadcbo`; its fields are its options, by default those of the public code."""

    name = "sadcbo"

    eta: float = 0.8
    """Share of all sensitivity that the variables kept must exceed."""
    gamma: float = 0.8
    """Share of the trials, the best ones, whose points are asked for it."""

    def __post_init__(self) -> None:
        for option in ("eta", "gamma"):
            value = getattr(self, option)
            require(0 < value <= 1, value, "must be above 0 and at most 1", where=option)

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:
        """Watch with the cheapest set, or control what matters most."""
        fitting, sets = outlook.fitting(), outlook.problem.space.control_sets
        costs = {i: outlook.cost_at(i, outlook.bounds[i].upper_at) for i in fitting}
        if outlook.too_few_outcomes or len(outlook.history.complete) < FEWEST:
            chosen = min(fitting, key=lambda i: (outlook.history.trials_of(i), costs[i], i))
            why = f"{outlook.label(chosen)} has been tried least, and too little is known"
            return Choice(chosen, "watch", why, fitting, first=True)
        told = [] if state.get("controls") else [*state.get("changes", []), change_of_mind(outlook)]
        controls = not told or (len(told) >= FIRST and told[-1] < STOP * float(np.median(told[:FIRST])))
        matters = self._sensitivity(outlook)
        kept = most_of(matters, self.eta)
        names = set_label(outlook.problem.space.names[v] for v in kept)
        if controls:
            held = {i: sum(matters[v] for v in sets[i].indices if v in kept) for i in fitting}
            chosen = min(fitting, key=lambda i: (-round(held[i], 12), costs[i], i))
            why = f"{names} matter most for their price, and {outlook.label(chosen)} controls the most of that"
        else:
            chosen = min(fitting, key=lambda i: (costs[i], i))
            why = f"what matters is still being watched, and {outlook.label(chosen)} costs least"
        setting, fits = self._setting(outlook, chosen, kept, state, rng)
        if not outlook.fits(chosen, setting):  # where costs depend on the setting
            setting = tuple(map(float, outlook.bounds[chosen].upper_at))
        return Choice(
            chosen,
            "control" if controls else "watch",
            why,
            fitting,
            setting=setting,
            remembered={"controls": controls, "changes": told, "reduced": fits},
            technical=f"kept {names} of sensitivities {[float(f'{s:.3g}') for s in matters]}",
            compared={chosen: setting},
        )

    def _sensitivity(self, outlook: Outlook) -> FloatArray:
        """Return how much every variable matters for its price, (d,), adding up to 1; alike where nothing does."""
        history, space = outlook.history, outlook.problem.space
        order = np.argsort(-sign(outlook.problem) * history.y, kind="stable")
        best = history.x[order[: max(1, int(self.gamma * len(order)))]]
        moved = divergence(outlook.fitted.posterior, np.concatenate([best, maximisers(outlook)]))
        sets = [set(c.indices) for c in space.control_sets]
        costs = [outlook.cost_at(b.control_set, b.upper_at) for b in outlook.bounds]
        # of a trial of the cheapest set that controls it; of the dearest where none does
        each = ([c for c, s in zip(costs, sets, strict=True) if v in s] for v in range(space.dimension))
        prices = [min(own, default=max(costs)) for own in each]
        found = moved.mean(axis=0) / np.array(prices)
        total = float(found.sum())
        return found / total if total > 0 else np.full(len(found), 1.0 / len(found))

    @staticmethod
    def _setting(
        outlook: Outlook, chosen: int, kept: Sequence[int], state: JsonState, rng: np.random.Generator
    ) -> tuple[tuple[float, ...], Mapping[str, object]]:
        """Return where the bound of a model of the kept variables is largest, and what to remember of that model.

        What the set controls besides is put where the whole model's bound is largest.
        """
        problem, history = outlook.problem, outlook.history
        control = problem.space.control_sets[chosen]
        own = [v for v in control.indices if v in kept]
        setting = dict(zip(control.indices, map(float, outlook.bounds[chosen].upper_at), strict=True))
        before = state.get("reduced", {})
        if not own:
            return tuple(setting.values()), before
        columns = sorted(kept)
        options = turned(problem).among(columns)
        previous = Hyperparameters.remembered(before.get("hyperparameters") if before.get("of") == columns else None)
        refit = previous is None or outlook.fitted.refitted
        posterior = fit(history.x[:, columns], sign(problem) * history.y, options, previous, refit=refit)
        control_set = ControlSet(tuple(columns.index(v) for v in own), tuple(problem.space.names[v] for v in own))
        space = Space(tuple(problem.space.variables[v] for v in columns), (control_set,))
        found = best_bounds(posterior, space, replace(problem.model, bounds="integrated"), rng)[0]
        setting |= dict(zip(own, map(float, found.upper_at), strict=True))
        return tuple(setting.values()), {"of": columns, "hyperparameters": posterior.hyperparameters.to_json()}


def maximisers(outlook: Outlook) -> FloatArray:
    """Return every control set's upper maximiser, (m, d), unit cube; what it does not control is in the middle."""
    space = outlook.problem.space
    return np.concatenate([space.rows(b.control_set, np.array([b.upper_at])) for b in outlook.bounds])


def divergence(posterior: Posterior, x: FloatArray) -> FloatArray:
    """Return sqrt(KL) of the prediction at x (b, d) from that with one variable at 0, by variable, (b, d)."""
    mean, variance = posterior.mean(x), np.maximum(posterior.sd(x) ** 2, LEAST)
    found = np.empty(x.shape)
    for j in range(x.shape[1]):
        collapsed = x.copy()
        collapsed[:, j] = 0.0
        there, wide = posterior.mean(collapsed), np.maximum(posterior.sd(collapsed) ** 2, LEAST)
        kl = 0.5 * np.log(wide / variance) + (variance + (mean - there) ** 2) / (2.0 * wide) - 0.5
        found[:, j] = np.sqrt(np.maximum(kl, 0.0))
    return found


def most_of(shares: FloatArray, eta: float) -> tuple[int, ...]:
    """Return the fewest variables whose shares add up to more than eta, the largest first; all if none do."""
    order = np.argsort(-shares, kind="stable")
    enough = np.flatnonzero(np.cumsum(shares[order]) > eta)
    return tuple(int(v) for v in order[: enough[0] + 1 if len(enough) else len(order)])


def change_of_mind(outlook: Outlook) -> float:
    """Return the bound on how far the last outcome moved what is expected of the best one, own units.

    Equation 8 of Ishibashi and others, with the hyper-parameters of today before and after.
    """
    from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

    history, now, value = outlook.history, outlook.fitted.posterior, sign(outlook.problem) * outlook.history.y
    h, x = now.hyperparameters, history.x
    before = fit(x[:-1], value[:-1], turned(outlook.problem), h, refit=False)
    best, old = x[[int(value.argmax())]], x[[int(value[:-1].argmax())]]
    moved = float(before.mean(old)[0] - now.mean(best)[0])
    both = now.covariance(np.concatenate([best, old]))
    white = now.whiten(both)
    prior = h.signal_variance * float(h.product_kernel.to(best).matrix(old)[0, 0])
    shared = h.y_scale**2 * (prior - float(white[0] @ white[1]))
    spread = float(np.sqrt(max(now.sd(best)[0] ** 2 + before.sd(old)[0] ** 2 - 2.0 * shared, LEAST)))
    g = moved / spread
    gained = spread * (float(np.exp(-0.5 * g * g)) / float(np.sqrt(2.0 * np.pi)) + g * float(ndtr(g)))
    noise, last = max((h.y_scale * h.noise_sd) ** 2, LEAST), x[[-1]]
    variance, surprise = float(before.sd(last)[0] ** 2), float(value[-1] - before.mean(last)[0])
    share = variance / (variance + noise)
    kl = 0.5 * (np.log1p(variance / noise) - share + share * surprise**2 / (variance + noise))
    everywhere = np.concatenate([x, maximisers(outlook)])
    wide = float(np.sqrt(BETA))
    upper = float((now.mean(everywhere) + wide * now.sd(everywhere)).max())
    lower = float((now.mean(x[:-1]) - wide * now.sd(x[:-1])).max())
    return abs(moved) + gained + (upper - lower) * float(np.sqrt(0.5 * max(float(kl), LEAST)))
