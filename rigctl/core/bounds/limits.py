"""Where further outcomes keep their limits, and the best that each control set can do there.

A limit holds for single trials: its probability at a setting averages over what the uncontrolled variables may do, and
counts the model's doubt and the noise of a measurement. Each limited outcome has a model of its own (Gardner, Kusner,
Xu, Weinberger and Cunningham 2014, "Bayesian optimization with inequality constraints"). A setting may be recommended
where every limit holds with the probability that is asked for; where no trial was, also if outcomes are a standard
deviation worse than expected. Upper bounds are sought where it would, were each outcome `beta` standard deviations on
the better side of what is expected: who explores hopes for the limits as for the outcome (Xu, Jiang, Svetozarevic and
Jones 2023, "Constrained efficient global optimization").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.ascent import neighbours, snapped
from rigctl.core.bounds.best import SetBounds, best_bounds
from rigctl.core.bounds.expectations import Expectations, natural_nodes
from rigctl.core.bounds.grid import lattice
from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import FurtherOutcome, JsonState, Problem
from rigctl.core.gp.model import Fitted, fit_further
from rigctl.core.gp.surrogate import Posterior
from rigctl.text import percent, shown_name

NODES = 16
"""Quasi-Monte-Carlo nodes of the uncontrolled variables."""
DOUBTED = 4
"""Of them, at which the model's doubt is computed."""
FREEDOM = 4
"""Degrees of freedom of the Student t by which a limit holds: the response may be none of the model's."""
UNTRIED = -1.0
"""Where no trial was, limits must be likely enough to be kept if outcomes are so many standard deviations better than
expected: of all settings that a model takes for good ones, those it is wrong about are the best."""
EVERYWHERE = 256
"""Settings examined first, over the whole range of a control set..."""
TRIALS = 64
"""... besides those of so many trials, the ones that are expected to be the best."""
REACHES = (0.3, 0.1, 0.03, 0.01)
"""How far from the best ones so far others are looked at, shares of the range, one after the other."""
LEADERS, NEAR = 6, 12
"""So many of the best ones by each measure, and so many settings near each of them."""


@dataclass(frozen=True, slots=True)
class KeptLimit:
    """Say how likely single trials keep the limits of an outcome."""

    outcome: str
    unit: str
    at_least: float | None
    at_most: float | None
    probability: float
    needed: float
    """The probability that is asked for."""

    @property
    def enough(self) -> bool:
        return self.probability >= self.needed

    @property
    def share(self) -> str:
        """Write the probability: `97 %`."""
        return percent(self.probability)

    def label(self, names: Mapping[str, str]) -> str:
        """Return outcome and limits; `names` are the outcomes', as shown."""
        read = shown_name(self.outcome, names)
        return FurtherOutcome(read, self.unit, at_most=self.at_most, at_least=self.at_least).label


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Hold the models of the outcomes that have a limit."""

    problem: Problem
    """With concrete marginals."""
    history: History
    outcomes: tuple[FurtherOutcome, ...]
    models: tuple[Fitted, ...]
    nodes: FloatArray
    """(q, d), unit cube: what the uncontrolled variables may be."""

    @classmethod
    def of(
        cls, problem: Problem, history: History, remembered: Sequence[JsonState] = (), *, under_way: bool = False
    ) -> Limits | None:
        """Fit the models, going on from `remembered` ones (`to_state`); None where nothing has a limit."""
        if not problem.limited:
            return None
        fits = zip(problem.further, fit_further(problem, history, remembered, under_way=under_way), strict=True)
        outcomes, models = zip(*((outcome, fitted) for outcome, fitted in fits if outcome.limited), strict=True)
        nodes = natural_nodes(problem.space, NODES, np.random.default_rng(0))
        return cls(problem, history, outcomes, models, nodes)

    def to_state(self) -> list[dict[str, object]]:
        """Return what `of` goes on from; JSON."""
        return [{"name": o.name, **m.to_state()} for o, m in zip(self.outcomes, self.models, strict=True)]

    def probabilities(
        self, columns: Sequence[int], settings: FloatArray, hopes: Sequence[float] = (0.0,)
    ) -> FloatArray:
        """Return how likely each limit is kept in a trial, (hopes, limits, b).

        Args:
            columns: the controlled variables, k of them; maybe none.
            settings: (b, k), unit cube.
            hopes: standard deviations of what is expected by which every outcome is taken to be better than that.
        """
        nodes = self.nodes if len(columns) < self.problem.space.dimension else self.nodes[:1]
        points = np.tile(nodes, (len(settings), 1, 1))
        points[:, :, list(columns)] = settings[:, None, :]
        each = zip(self.outcomes, self.models, strict=True)
        return np.asarray(np.stack([_kept(o, fitted.posterior, points, hopes) for o, fitted in each], axis=1))

    def margins(self, control_set: int, settings: FloatArray, hopes: Sequence[float] = (0.0,)) -> FloatArray:
        """Return by how much the least likely limit is likelier than it must be, (hopes, b); negative: too unlikely."""
        found = self.probabilities(self.problem.space.control_sets[control_set].indices, settings, hopes)
        return np.asarray((found - [[o.probability] for o in self.outcomes]).min(axis=1))

    def keeps(self, control_set: int, setting: Sequence[float]) -> bool:
        """Tell whether the limits are likely enough to be kept at one setting (k,)."""
        return bool(self.margins(control_set, np.array([setting], dtype=float))[0, 0] >= 0)

    def told(self, held: Mapping[int, float]) -> tuple[KeptLimit, ...]:
        """Return how likely each limit is kept by a way of running: values by column, unit cube."""
        columns = sorted(held)
        found = self.probabilities(columns, np.array([[held[c] for c in columns]], dtype=float))[0, :, 0]
        return tuple(
            KeptLimit(o.name, o.unit, o.at_least, o.at_most, float(p), o.probability)
            for o, p in zip(self.outcomes, found, strict=True)
        )

    def possible(self, points: FloatArray, sets: IntArray) -> BoolArray:
        """Tell of settings (b, d) of control sets (b,) whether the limits may turn out to be kept there, (b,)."""
        out = np.zeros(len(points), dtype=bool)
        for i in np.unique(sets):
            mine = sets == i
            columns = list(self.problem.space.control_sets[int(i)].indices)
            out[mine] = self.margins(int(i), points[mine][:, columns], [self.problem.model.beta])[0] >= 0
        return out

    def within(self, b: SetBounds, e: Expectations) -> SetBounds:
        """Return the bounds of one control set with their maximisers where the limits are, or may be, kept."""
        i, space, beta = b.control_set, self.problem.space, self.problem.model.beta
        columns = list(space.control_sets[i].indices)
        steps, rng = space.steps[columns], np.random.default_rng(0)  # the same are looked at in every decision
        tried = np.clip(np.array([o.x for o in self.history.complete]).reshape(-1, space.dimension), 0.0, 1.0)
        tried = tried[np.argsort(-e.means(tried, np.full(len(tried), i)), kind="stable")[:TRIALS]]
        at = [lattice(len(columns), EVERYWHERE, rng), tried[:, columns], [b.upper_at, b.lower_at, b.best_mean_at]]
        seen = self._looked(e, i, snapped(np.concatenate(at), steps))
        for reach in REACHES:
            best = seen.settings[np.unique(np.argsort(-seen.ranks, axis=1, kind="stable")[:, :LEADERS])]
            moved = np.repeat(best, NEAR, axis=0)
            moved = np.clip(moved + reach * rng.standard_normal(moved.shape), 0.0, 1.0)
            near = np.concatenate([snapped(moved, steps), neighbours(best, steps)[0]])
            seen = seen.beside(self._looked(e, i, near))
        rows = seen.ranks.argmax(axis=1)
        at = [tuple(setting) for setting in seen.settings[rows].tolist()]
        (upper, lower, mean), sd = seen.mean[rows].tolist(), seen.sd[rows].tolist()
        return SetBounds(
            control_set=i,
            upper=upper + beta * sd[0],
            upper_at=at[0],
            lower=lower - beta * sd[1],
            lower_at=at[1],
            mean_at_upper=upper,
            sd_at_upper=sd[0],
            best_mean=mean,
            best_mean_at=at[2],
            best_mean_sd=sd[2],
            within=bool(seen.margin[rows[2]] >= 0),
        )

    def _looked(self, e: Expectations, i: int, settings: FloatArray) -> _Looked:
        mean, sd = e.values(self.problem.space.rows(i, settings), np.full(len(settings), i))
        beta = self.problem.model.beta
        margin, hoped = self.margins(i, settings, (UNTRIED, beta))
        return _Looked(beta, settings, mean, sd, margin, hoped)


def bounded(
    limits: Limits | None,
    posterior: Posterior,
    problem: Problem,
    rng: np.random.Generator,
    warm_starts: Mapping[int, FloatArray] | None = None,
) -> tuple[SetBounds, ...]:
    """Return `best_bounds`; with limits, where those are kept or, for the upper bound, may be.

    Where no setting of a control set is likely enough to keep them, it is not `within`, and its maximisers are the
    settings that are likeliest to.
    """
    bounds = best_bounds(posterior, problem.space, problem.model, rng, warm_starts)
    if limits is None:
        return bounds
    expectations = Expectations.of(posterior, problem.space)
    return tuple(limits.within(b, expectations) for b in bounds)


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """Hold settings of one control set that were looked at, (b, k), and what is believed of each, (b,)."""

    beta: float
    settings: FloatArray
    mean: FloatArray
    sd: FloatArray
    margin: FloatArray
    """See `Limits.margins`."""
    hoped: FloatArray
    """The same, hoping for the best."""

    def beside(self, more: _Looked) -> _Looked:
        own, theirs = ((one.settings, one.mean, one.sd, one.margin, one.hoped) for one in (self, more))
        return _Looked(self.beta, *map(np.concatenate, zip(own, theirs, strict=True)))

    @property
    def ranks(self) -> FloatArray:
        """Return what they rank by as upper bound, lower bound and mean, (3, b): first where the limits are kept."""
        wide = self.beta * self.sd
        scores = np.stack([self.mean + wide, self.mean - wide, self.mean])
        margins = np.stack([self.hoped, self.margin, self.margin])
        return np.where(margins >= 0, scores, scores.min() - 1.0 + margins)


def _kept(outcome: FurtherOutcome, model: Posterior, points: FloatArray, hopes: Sequence[float]) -> FloatArray:
    """Return how likely a trial keeps the outcome's limits, (hopes, b), at points (b, q, d), unit cube: on average.

    What is expected differs between the nodes; the doubt of it costs n^2 each, and is taken from the first few.
    """
    from scipy.special import stdtr  # noqa: PLC0415 - heavy: not for commands that decide nothing

    h, (count, nodes, d) = model.hyperparameters, points.shape
    few = points[:, :DOUBTED].reshape(-1, d)
    sd = np.sqrt(np.square(model.sd(few)).reshape(count, -1).mean(axis=1))[:, None]
    mean = model.mean(points.reshape(-1, d)).reshape(count, nodes) * (1.0 if outcome.maximise else -1.0)
    wide = np.maximum(np.hypot(sd, h.y_scale * h.noise_sd), np.finfo(float).tiny)
    low, high = ((limit - mean) / wide for limit in outcome.limits)
    better = np.multiply.outer(hopes, sd / wide)
    return np.asarray((stdtr(FREEDOM, high + better) - stdtr(FREEDOM, low - better)).mean(axis=2))
