"""Which single trials does a recommendation rest on, and which does it leave out although they would change it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rigctl.core.advice.rules.full import DOUBT
from rigctl.core.advice.worth import half_width, widths
from rigctl.core.bounds.ascent import snapped
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import Problem, sign
from rigctl.core.gp.doubting import LEARNED
from rigctl.core.gp.model import given_without
from rigctl.core.gp.surrogate import Posterior


@dataclass(frozen=True, slots=True)
class Supported:
    """The setting of one control set that the data support best. Values in outcome units, larger is better."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    mean: float
    """Posterior mean of its value."""
    sd: float
    """Posterior standard deviation of its value."""
    played: bool
    """Whether a trial with an outcome has played that control set."""
    tried: bool
    """Whether a trial was at that setting, whatever it controlled."""
    margin: float = 0.0
    """By how much the least likely limit of a further outcome is likelier to be kept there than it must be."""

    @property
    def within(self) -> bool:
        """Tell whether limits of further outcomes are likely enough to be kept there."""
        return self.margin >= 0

    @property
    def support(self) -> float:
        """What settings are compared by."""
        return self.mean - DOUBT * self.sd


Decide = Callable[[Posterior], Supported]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Name a trial that the model leaves out, or one that alone carries a recommendation. Outcomes in own units."""

    trial: int
    """0: from before the campaign."""
    outcome: float
    expected: float
    """The outcome that all other trials predict for this one."""
    counted: bool
    """Whether the recommendation counts this trial."""
    control_set: tuple[str, ...] | None = None
    """The recommendation if this trial were not counted; or, of a trial left out, its own way if that may be better.
    None: the recommendation would be the same."""
    setpoints: Mapping[str, float] | None = None
    """Engineering units; None as above."""


def promising(
    problem: Problem, history: History, posterior: Posterior, beyond: float
) -> Mapping[int, tuple[Observation, tuple[float, ...]]]:
    """Return, by row, trials that the posterior leaves out although they are beyond this value, and their settings."""
    found = {}
    for row in posterior.left_out:
        trial = history.complete[row]
        if trial.control_set >= 0 and sign(problem) * float(trial.y or 0.0) > beyond:
            x = snapped(np.clip(np.array([trial.x], dtype=float), 0.0, 1.0), problem.space.steps)[0]
            found[row] = trial, problem.space.setting(trial.control_set, x)
    return found


def advisable(problem: Problem, history: History, posterior: Posterior, decide: Decide) -> Posterior:
    """Return the posterior without the trial that alone carries the answer, if others do not predict its outcome.

    A policy that goes on trying soon sees whether the outcome was true; whoever asks for advice does not.
    """
    found = _carrier(problem, history, posterior, decide)
    if found is None:
        return posterior
    # spreads of few outcomes are not known well: then nearly any outcome may be as far off
    free = len(posterior.x) - problem.space.dimension - LEARNED
    return found[1] if found[2] > widths(free) else posterior


def doubts(problem: Problem, history: History, posterior: Posterior, decide: Decide) -> Iterator[Doubt]:
    """Yield a doubt of every trial that is left out, and of one without which the answer of `decide` is another."""
    chosen, space = decide(posterior), problem.space

    def doubt(row: int, others: Posterior, way: tuple[int, tuple[float, ...]] | None, *, counted: bool) -> Doubt:
        trial = history.complete[row]
        expected = sign(problem) * float(others.mean(np.array([trial.x]))[0])
        instead = (None, None) if way is None else (space.control_sets[way[0]].names, space.setpoints(*way))
        return Doubt(trial.trial, float(trial.y or 0.0), expected, counted, *instead)

    better = promising(problem, history, posterior, chosen.mean + half_width(chosen.sd))
    for row in posterior.left_out:
        way = (better[row][0].control_set, better[row][1]) if row in better else None
        yield doubt(row, posterior, way, counted=False)
    found = _carrier(problem, history, posterior, decide)
    if found is not None:
        row, rest, _ = found
        other = decide(rest)
        yield doubt(row, rest, (other.control_set, other.setting), counted=True)


def _carrier(
    problem: Problem, history: History, posterior: Posterior, decide: Decide
) -> tuple[int, Posterior, float] | None:
    """Return the trial that makes the answer better by more than its interval, if without it the answer is another.

    Beside it the posterior without it, and how many spreads of its prediction by all others it is better than that.
    Without outcome j the mean of w is lower by (K^-1 w)_j alpha_j / (K^-1)_jj, as in `core.gp.doubting`.
    """
    kept = np.delete(np.arange(len(history.complete)), list(posterior.left_out))
    if len(posterior.x) != len(kept):
        return None  # there are so many that none carries anything alone
    chosen, K_inv, alpha = decide(posterior), posterior.K_inv, posterior.alpha
    e = Expectations.of(posterior, problem.space, [chosen.control_set])
    point = problem.space.rows(chosen.control_set, np.array([chosen.setting], dtype=float))
    w = e.inner(point, np.zeros(1, dtype=np.int64))[0] * e.outside[0]
    lifts = posterior.hyperparameters.y_scale * (K_inv @ w) * alpha / K_inv.diagonal()
    most = int(lifts.argmax())
    if lifts[most] <= half_width(chosen.sd):
        return None
    rest = given_without(problem, history, posterior, (*posterior.left_out, int(kept[most])))
    other, off = decide(rest), float(alpha[most] / np.sqrt(K_inv[most, most]))
    same = (other.control_set, other.setting) == (chosen.control_set, chosen.setting)
    return None if same else (int(kept[most]), rest, off)
