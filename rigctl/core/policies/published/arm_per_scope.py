"""An arm per scope: each pair of what is controlled and what is looked at has a model of its own.

The scope of an arm is the variables that are controlled and those that are looked at first. A trial of a control set is
an example for all its arms. An arm's model is a Gaussian process of the outcome over its own variables, those looked at
as they read; what else varies is noise to it. The arm with the largest upper bound at today's reading is played at its
maximiser. Costs do not count.

Scopes as arms are an idea of contextual causal Bayesian optimisation (arXiv 2301.12412, of which the abstract was read;
algorithms, section 6). This is not that policy: it knows of no causal graph that would leave scopes out, has no bandit
over arms beside their models, and does not optimise within an arm as that policy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition.outlook import first_point, sobol_seed_of
from rigctl.core.bounds.best import best_bounds
from rigctl.core.costs.beliefs import believe, fitting
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.experiment.space import ControlSet, Space
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import REFIT_GROWTH, turned
from rigctl.core.gp.surrogate import Posterior, fit
from rigctl.flaws import require
from rigctl.text import set_label

EXACT = 1e-3
"""Spread of what was looked at, in an arm's model: the reading is an input there, whatever it means for the trial."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Name what is controlled and what is looked at first."""

    control_set: int
    looked_at: tuple[int, ...]
    """Columns, ascending; none of them controlled."""

    @property
    def key(self) -> str:
        """Return how a state names it."""
        return f"{self.control_set}:{','.join(map(str, self.looked_at))}"


@dataclass(frozen=True, slots=True)
class ArmPerScope(Policy):
    """Play the policy `arm-per-scope`; its fields are its options."""

    name = "arm-per-scope"

    plays: int = 3
    """Trials that every control set has first, at points of an even spread."""

    def __post_init__(self) -> None:
        require(self.plays >= 1, self.plays, "must be >= 1", where="plays")

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Play every control set a few times, then the arm with the largest upper bound."""
        sobol_seed, sets = sobol_seed_of(state, rng), problem.space.control_sets
        beliefs = believe(problem, history, "hoeffding")
        playable = fitting(problem, history, beliefs)
        models = dict(state.get("models", {}))
        few = [i for i in playable if history.trials_of(i) < self.plays or len(_of(history, i, ())[1]) < 2]
        if few:
            chosen = min(few, key=lambda i: (history.trials_of(i), i))
            size = len(sets[chosen].indices)
            setting = first_point(size, history.trials_of(chosen), sobol_seed)
            setting = problem.space.evenly(chosen, setting)
            phase, why = "explore", f"{sets[chosen].label} has had too few trials to be judged"
        else:
            phase = "commit"
            arms = [arm for i in playable for arm in arms_of(problem, i)]
            bounds = [self._bound(arm, problem, history, models, rng) for arm in arms]
            best = max(range(len(arms)), key=lambda a: (bounds[a][0], -a))
            chosen, setting = arms[best].control_set, bounds[best][1]
            seen = set_label(problem.space.names[v] for v in arms[best].looked_at)
            why = f"{sets[chosen].label} could turn out best" + (f", by what {seen} read" if seen else "")
        proposal = Proposal(
            trial=len(history) + 1,
            policy=self.name,
            phase=phase,
            control_set=chosen,
            setting=setting,
            reason=why,
            predicted_cost=to_units(beliefs[chosen].upper) or None,
        )
        return proposal, {"models": models, "sobol_seed": sobol_seed}

    @staticmethod
    def _bound(
        arm: Arm, problem: Problem, history: History, models: dict[str, object], rng: np.random.Generator
    ) -> tuple[float, tuple[float, ...]]:
        """Return an arm's largest upper bound at today's reading, as a value, and where it is, (k,)."""
        controlled = problem.space.control_sets[arm.control_set].indices
        columns = sorted((*controlled, *arm.looked_at))
        read = () if problem.look is None else problem.look.x
        variables = [
            problem.space.variables[v]
            if v in controlled
            else replace(problem.space.variables[v], marginal=TruncatedNormal(float(read[v] or 0.0), EXACT))
            for v in columns
        ]
        own = tuple(columns.index(v) for v in controlled)
        space = Space(tuple(variables), (ControlSet(own, problem.space.control_sets[arm.control_set].names),))
        posterior = _model(arm, columns, problem, history, models)
        bounds = best_bounds(posterior, space, replace(problem.model, bounds="integrated"), rng)[0]
        return bounds.upper, bounds.upper_at


def arms_of(problem: Problem, control_set: int) -> tuple[Arm, ...]:
    """Return a control set's arms: look at nothing, and at everything else that was read."""
    read = () if problem.look is None else problem.look.x
    controlled = problem.space.control_sets[control_set].indices
    others = tuple(v for v, value in enumerate(read) if value is not None and v not in controlled)
    return (Arm(control_set, ()), Arm(control_set, others)) if others else (Arm(control_set, ()),)


def _of(history: History, control_set: int, looked_at: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Return what a control set's trials show an arm, (n, d) and (n,): controlled as measured, looked at as read."""
    rows, outcomes = [], []
    for o in history.complete:
        if o.control_set != control_set or o.x is None or o.y is None:
            continue
        x = list(o.x)
        for v in looked_at:
            value = None if o.look is None else o.look.x[v]
            x[v] = np.nan if value is None else value
        if np.isfinite(x).all():
            rows.append(x)
            outcomes.append(o.y)
    return np.array(rows, dtype=float).reshape(len(rows), -1), np.array(outcomes)


def _model(
    arm: Arm, columns: Sequence[int], problem: Problem, history: History, models: dict[str, object]
) -> Posterior:
    """Return an arm's posterior, refitted when its trials have grown by a quarter; `models` remembers the last fits."""
    x, y = _of(history, arm.control_set, arm.looked_at)
    stored = models.get(arm.key)
    before, fitted_at = (None, 0) if not isinstance(stored, dict) else (stored, int(stored["fitted_at"]))
    previous = Hyperparameters.remembered(before)
    options = turned(problem).among(columns)
    refit = previous is None or len(y) >= REFIT_GROWTH * max(fitted_at, 1)
    posterior = fit(
        x[:, list(columns)] if len(x) else np.empty((0, len(columns))),
        sign(problem) * y,
        options,
        previous,
        refit=refit and options.hyperparameters == "learned",
    )
    h = posterior.hyperparameters
    models[arm.key] = {"hyperparameters": h.to_json(), "fitted_at": len(y) if refit else fitted_at}
    return posterior
