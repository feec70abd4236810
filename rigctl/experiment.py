"""An experiment in one's own hands: tell what came of trials, ask for the next one and for what to run from now on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rigctl import experiment_file
from rigctl.codec import fields_of
from rigctl.core.advice import recommend as advice
from rigctl.core.advice.explain import explain
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.advice.rule import AmongLevels, Between, LevelSetting, Rule, RuleLine, Setting
from rigctl.core.advice.worth import FixedSetting
from rigctl.core.asking import Played, next_proposal, play, trial_rng
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.marginals.conditional import natural_marginal, share_of, stretched
from rigctl.core.experiment.marginals.families import Discrete, Uniform
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.natural import Learned, present
from rigctl.core.experiment.policy import Policy, Proposal, mistakes_of
from rigctl.core.experiment.problem import FurtherOutcome, JsonState, ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.policies.registry import USUAL_POLICY, usual
from rigctl.errors import UsageError
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.text import set_label, set_members

W = TypeVar("W", bound=FixedSetting | None)

TOLERANCE = 0.05
"""How much worse than the best is good enough where the policy has no tolerance of its own."""

Readings = Mapping[str, float | str | tuple[float, float]]
"""What variables read, by name, engineering units: a value, or (value, standard deviation of its error); of a category
the word of its level."""


def variable(
    name: str,
    low: float,
    high: float,
    unit: str = "",
    *,
    natural: tuple[float, float] | Sequence[float] | None = None,
    natural_range: tuple[float, float] | None = None,
    step: float | None = None,
) -> Variable:
    """Describe a variable in engineering units.

    Args:
        name: as it is called in control sets and tables.
        low: lowest setpoint.
        high: highest setpoint.
        unit: for people.
        natural: how it varies when left alone: (mean, sd) of a normal distribution truncated to the natural range, or
            three or more readings; None: learned from the trials that leave it alone.
        natural_range: lowest and highest value when left alone; None: those of the setpoints.
        step: between two setpoints, the first of which is `low`; 1 for whole numbers; None: every value can be set.

    Raises:
        ValueError: a range is empty or no whole number of steps, or no such distribution exists on it.
    """
    setpoints = (low, high)
    whole = Variable(name, unit, low, high, Uniform(), step)  # refuses an empty range before anything is divided by it
    if natural is None:
        ends = [share_of(v, setpoints) for v in natural_range or setpoints]
        return replace(whole, marginal=Learned(stretched(Uniform(), *ends), low=ends[0], high=ends[1]))
    if len(natural) == 2:
        moments = {"mean": natural[0], "sd": natural[1]}
        return replace(whole, marginal=natural_marginal("truncated_normal", moments, setpoints, natural_range, unit))
    return replace(whole, marginal=natural_marginal("empirical", natural, setpoints))


def category(
    name: str, levels: Sequence[str], *, natural: Mapping[str, float] | Sequence[str] | None = None
) -> Variable:
    """Describe a choice among levels without an order, such as nozzles or suppliers; one that has an order is a number.

    Args:
        name: as it is called in control sets and tables.
        levels: two or more words.
        natural: how it varies when left alone: the share of each level by its word (a level without one does not
            occur), or the words that were read; None: learned from the trials that leave it alone.

    Raises:
        ValueError: two levels are alike, a word is none of them, or the shares are none.
    """
    chosen = Variable.category(name, levels, Uniform())
    if natural is None:
        return replace(chosen, marginal=Learned(Discrete.levels([1.0] * len(levels))))
    shares = np.zeros(len(levels))
    for word in natural:
        shares[int(chosen.number(word))] += natural[word] if isinstance(natural, Mapping) else 1.0
    return replace(chosen, marginal=Discrete.levels(shares.tolist()))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The next trial, in engineering units."""

    trial: int
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float | str]
    """Of a category the word of its level."""
    reason: str
    proposal: Proposal
    """With all that was believed of every control set."""
    state: JsonState
    """What the policy remembers once the trial is told."""
    look: Look | None = None
    """What it was decided by, on the unit cube; None: nothing was read."""


@dataclass(slots=True)
class Experiment(experiment_file.Saved):
    """What is to be found out, with what money, and what has been observed so far.

    It lives in memory until `save`; a state directory (`rigctl suggest` and `rigctl ingest`) keeps every trial itself.
    """

    @classmethod
    def of(
        cls,
        variables: Sequence[Variable],
        control_sets: Sequence[Sequence[str]],
        budget: float,
        *,
        maximise: bool = True,
        policy: Policy | str = USUAL_POLICY,
        model: ModelOptions | None = None,
        seed: int = 0,
        further: Sequence[FurtherOutcome] = (),
        changeovers: Sequence[str] = (),
    ) -> Experiment:
        """Set up an experiment in memory.

        Args:
            variables: all that matters and can be measured, by `variable` and `category`.
            control_sets: names of the variables that can be controlled together.
            budget: currency units, for all trials.
            maximise: whether more of the outcome is better.
            policy: who decides: an object, or the name of an installed policy with its usual options.
            model: of the outcome; None: learned from the trials.
            changeovers: variables that it costs to bring to another value than in the trial before, such as an oven.
            seed: of all decisions.
            further: outcomes measured besides, such as `FurtherOutcome("nitrate", "mg/L", at_most=12)`: what is tried,
                and what is recommended, must be likely to keep the limit.

        Raises:
            UnknownPlugin: no installed policy has that name.
            UsageError: the budget is no amount that could be spent, or the policy needs what it was not given.
            ValueError: the space does not hold.
        """
        if not 0 < float(_numbers("budget", budget)) < np.inf:
            raise UsageError(got(budget, "must be more than nothing, and finite", where="budget"))
        chosen = usual(policy) if isinstance(policy, str) else policy
        options = ModelOptions() if model is None else model
        space, names = Space.of(variables, control_sets), [v.name for v in variables]
        for name in changeovers:
            if name not in names:
                raise UsageError(got(name, f"must be one of {', '.join(names)}", where="changeovers"))
        changed = tuple(sorted(names.index(name) for name in set(changeovers)))
        problem = Problem(
            space, to_micros(budget), maximise=maximise, model=options, changeovers=changed, further=tuple(further)
        )
        wrong = mistakes_of(chosen, problem)
        if wrong:
            raise UsageError(f'policy "{chosen.name}": ' + "; ".join(f"{key}: {what}" for key, what in wrong))
        return cls(problem, chosen, seed)

    @classmethod
    def load(cls, path: Path | str, policy: Policy | None = None) -> Experiment:
        """Load an experiment that `save` has written; its next suggestion is the one it would have made.

        Args:
            path: the file.
            policy: replaces the saved policy; needed where that one is not installed.

        Raises:
            ExperimentFileError: the file is missing, damaged, or of another version.
            UnknownPlugin: the saved policy is not installed.
        """
        return cls(**fields_of(experiment_file.read(Path(path), policy)))

    def save(self, path: Path | str) -> None:
        """Save problem, policy, trials and what the policy remembers, as JSON: the whole file, or none.

        Raises:
            ExperimentFileError: the problem holds code (a cost field, a marginal of your own), or the file cannot be
                written; what stood there before still does.
        """
        experiment_file.write(Path(path), self)

    @property
    def space(self) -> Space:
        """Variables and control sets."""
        return self.problem.space

    @property
    def spent(self) -> float:
        """What all trials have cost, currency units."""
        return to_units(self.history.spent)

    def suggest(self, look: Readings | None = None) -> Suggestion:
        """Ask for the next trial; asked again, the answer is the same until something is told.

        Args:
            look: what variables read now, before the trial, by name: a value, or (value, sd of its error); engineering
                units. It counts as far as such readings have turned out to persist; None: nothing was read.

        Raises:
            UsageError: there is no such variable, or a number is not finite.
            Finished: nothing fits the remaining budget, or no trial is worth its cost.
            PolicyError: the policy cannot decide.
        """
        trial = len(self.history) + 1
        rng = trial_rng(self.seed, trial)
        read = self._look(look)
        problem = self.problem if read is None else replace(self.problem, looks=True, look=read)
        proposal, after = next_proposal(self.policy, self.state, problem, self.history, rng)
        return Suggestion(
            trial,
            self.space.control_sets[proposal.control_set].names,
            self.space.worded(self.space.setpoints(proposal.control_set, proposal.setting)),
            proposal.reason,
            proposal,
            after,
            read,
        )

    def explain(self, suggestion: Suggestion) -> tuple[str, ...]:
        """Say why, in sentences."""
        return explain(suggestion.proposal, self.problem, outcome=self.outcome, unit=self.unit, currency=self.currency)

    def tell(
        self,
        control_set: str | Sequence[str] | Sequence[Sequence[str]],
        x: Any,
        y: Any,
        cost: Any,
        *,
        also: Mapping[str, Any] | None = None,
        suggestion: Suggestion | None = None,
        look: Readings | Sequence[Readings] | None = None,
    ) -> None:
        """Add trials: one, or as many as the arrays have rows.

        Args:
            control_set: what was controlled: `a+b` or the names of a suggestion, `("a", "b")`; or one of these for each
                trial.
            x: what was measured of every variable, engineering units, in the order of `variables`: (d,) or (n, d); of
                a category the word of its level.
            y: outcomes, (n,) or a number; NaN where a trial failed.
            cost: of the trials, currency units, (n,) or a number.
            also: further outcomes by name, (n,) or a number each; all of them where a trial has an outcome.
            suggestion: the one that was followed, so that the policy remembers it, and what was read before it.
            look: what was read before the trial, as for `suggest`; of several trials one for each.

        Raises:
            UsageError: shapes do not fit, a control set or variable is unknown, or a number is not finite.
        """
        x, y = _measured(self.space, x), np.atleast_1d(_numbers("tell: y", y))
        cost = np.atleast_1d(_numbers("tell: cost", cost))
        labels = _labels(control_set, len(x))
        n, d = len(labels), self.space.dimension
        if x.shape != (n, d) or y.shape != (n,) or cost.shape != (n,):
            raise UsageError(
                f"tell: got {n} control sets, x {x.shape}, y {y.shape} and cost {cost.shape}; "
                f"x must be (n, {d}), all others (n,)"
            )
        if not np.isfinite(x).all() or not np.isfinite(cost).all() or (cost < 0).any() or np.isinf(y).any():
            raise UsageError("tell: x and cost must be finite, no cost negative; y is NaN where a trial failed")
        try:
            sets = [self.space.index_of(set_members(label)) for label in labels]
        except ValueError as error:
            raise UsageError(f"tell: {error}") from error
        looks, more = self._looks(look, n, suggestion), self._further(also or {}, y)
        rows = zip(sets, self.space.to_unit(x).tolist(), y.tolist(), cost.tolist(), looks, more, strict=True)
        for chosen, at, outcome, paid, read, further in rows:
            given = None if np.isnan(outcome) else outcome
            trial = Observation(
                len(self.history) + 1, chosen, tuple(at), given, to_micros(paid), further=further, look=read
            )
            self.history = self.history.append(trial)
        if suggestion is not None:
            self.state = suggestion.state

    def _further(self, also: Mapping[str, Any], y: FloatArray) -> list[tuple[float, ...]]:
        """Return the further outcomes of each trial, in their order; none where a trial has no outcome."""
        names = [f.name for f in self.problem.further]
        if set(also) != set(names):
            raise UsageError(got(sorted(also), f"must be a value of each of {names}", where="tell: also"))
        columns = [np.broadcast_to(_numbers(f"tell: also: {name}", also[name]), y.shape) for name in names]
        rows = np.stack(columns, axis=1) if columns else np.empty((len(y), 0))
        if not np.isfinite(rows[np.isfinite(y)]).all():
            raise UsageError("tell: also: all must be finite where y is")
        return [() if np.isnan(first) else tuple(row.tolist()) for first, row in zip(y, rows, strict=True)]

    def _looks(
        self, look: Readings | Sequence[Readings] | None, count: int, suggestion: Suggestion | None
    ) -> list[Look | None]:
        """Return what was read before each trial; that of a suggestion where nothing else is said."""
        if look is None:
            return [None if suggestion is None else suggestion.look] * count
        given = [look] if isinstance(look, Mapping) else list(look)
        if len(given) != count:
            raise UsageError(f"tell: got {len(given)} looks for {count} trials; give one for each, {{}} where none was")
        return [self._look(readings) for readings in given]

    def _look(self, readings: Readings | None) -> Look | None:
        """Return readings as decisions take them."""
        if not readings:
            return None
        unknown = sorted(set(readings) - set(self.space.names))
        if unknown:
            raise UsageError(f"look: unknown variables {unknown}; known: {list(self.space.names)}")
        x, errors = [], []
        for v in self.space.variables:
            read = readings.get(v.name, np.nan)
            given = _numbers(f"look: {v.name}", _number(v, read) if v.levels and v.name in readings else read)
            value, error = np.append(given, 0.0)[:2].tolist()
            if v.name in readings and not (np.isfinite(value) and np.isfinite(error) and error >= 0):
                raise UsageError(f"look: {v.name}: got {value:g} with an sd of {error:g}; need finite, sd >= 0")
            x.append(v.share(value) if v.name in readings else None)
            errors.append(error / (v.high - v.low))
        return Look(tuple(x), tuple(errors))

    def recommend(self, tolerance: float | None = None, look: Readings | None = None) -> Recommendation:
        """Say what to run from now on, and, in `now`, what is best at what variables read now.

        Args:
            tolerance: how much worse than the best is good enough, as a share; None: the policy's own.
            look: what variables read now, as for `suggest`; how exact readings are is known from those before trials.

        Raises:
            PolicyError: no trial has given an outcome yet.
            UsageError: a reading cannot be one, or the tolerance no share.
        """
        read = self._look(look)
        share = getattr(self.policy, "tolerance", TOLERANCE) if tolerance is None else tolerance
        if not 0 <= float(_numbers("recommend: tolerance", share)) < 1:
            flaw = got(share, "must be at least 0 and below 1, such as 0.05 for 5 %", where="recommend: tolerance")
            raise UsageError(flaw)
        looked = any(o.look is not None for o in self.history.observations)
        problem = replace(self.problem, looks=True) if looked else self.problem
        rng, now = trial_rng(self.seed, len(self.history) + 1), None if read is None else read.x
        return recommend(problem, self.history, rng, share, now=now)

    def play(
        self,
        function: Callable[[Mapping[str, Any]], float | Sequence[float]],
        costs: Mapping[str, float] | Callable[[Mapping[str, Any]], float],
        *,
        noise_sd: float = 0.0,
        most: int | None = None,
    ) -> Played:
        """Let the policy play against a function of one's own, from the beginning; the experiment stays as it is.

        What is not controlled is drawn from its marginal (while that is to be learned: from the prior).

        Args:
            function: the outcome of a trial, from the value of every variable, engineering units; NaN: it failed. With
                further outcomes a list: the outcome, then each of them.
            costs: of a trial, currency units: by control set (`a+b`), or from the setpoints.
            noise_sd: standard deviation of the noise on each outcome.
            most: trials at most.

        Raises:
            PolicyError: the policy proposed what cannot be played.
            UsageError: a control set has no cost.
        """
        space = present(self.problem, History())[0].space
        lacking = [] if callable(costs) else [c.label for c in space.control_sets if c.label not in costs]
        if lacking:
            must = "must have one of each control set"
            raise UsageError(Flaw("", must, got=f"none of {', '.join(lacking)}", where="play: costs"))
        nature = np.random.default_rng([self.seed, 1])

        def observe(proposal: Proposal) -> Observation:
            quantiles = nature.random(space.dimension)
            x = np.array([v.marginal.quantile(q) for v, q in zip(space.variables, quantiles, strict=True)], dtype=float)
            chosen = space.control_sets[proposal.control_set]
            x[list(chosen.indices)] = proposal.setting
            values = space.worded(dict(zip(space.names, space.to_engineering(x).tolist(), strict=True)))
            setpoints = space.worded(space.setpoints(proposal.control_set, proposal.setting))
            paid = costs(setpoints) if callable(costs) else costs[chosen.label]
            exact = np.atleast_1d(_numbers("play: function", function(values)))
            if exact.shape != (1 + len(self.problem.further),):
                raise UsageError(
                    got(exact.tolist(), "must be the outcome and each further one", where="play: function")
                )
            y, *further = (exact + noise_sd * nature.standard_normal(exact.shape)).tolist()
            given, more = (None, ()) if np.isnan(y) else (y, tuple(further))
            return Observation(
                proposal.trial, proposal.control_set, tuple(x.tolist()), given, to_micros(paid), further=more
            )

        return play(self.policy, self.problem, observe, self.seed, most=most)

    def table(self) -> dict[str, list[Any]]:
        """All trials as columns, engineering and currency units: `pandas.DataFrame(experiment.table())`."""
        table = columns(self.space, self.history, self.outcome)
        rows = [o for o in self.history.observations if o.control_set >= 0]
        return table | {
            f.name: [o.further[k] if o.further else np.nan for o in rows] for k, f in enumerate(self.problem.further)
        }


def _measured(space: Space, x: Any) -> FloatArray:
    """Return what was measured as numbers, (n, d) where that is what was given."""
    if not any(space.levels):
        return np.atleast_2d(_numbers("tell: x", x))
    rows = np.atleast_2d(np.array(x, dtype=object))
    if rows.shape[1] != space.dimension:
        return np.empty(rows.shape)
    return _numbers("tell: x", [[_number(v, at) for v, at in zip(space.variables, row, strict=True)] for row in rows])


def _number(v: Variable, value: Any) -> Any:
    """Return the number of a level; what is no category as it is."""
    try:
        return v.number(value) if v.levels else value
    except ValueError as error:
        raise UsageError(flaw_of(error)) from error


def _numbers(what: str, given: Any) -> FloatArray:
    """Return what was given as numbers; raises UsageError where it is none."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise UsageError(got(given, "must be numbers, without units or names", where=what)) from error


def columns(space: Space, history: History, outcome: str = "outcome") -> dict[str, list[Any]]:
    """Turn a history into columns, one entry per trial: trial, control_set, every variable, outcome, cost."""
    rows = [o for o in history.observations if o.control_set >= 0]
    missing = (np.nan,) * space.dimension
    x = space.to_engineering(np.array([o.x or missing for o in rows]).reshape(len(rows), space.dimension))
    return {
        "trial": [o.trial for o in rows],
        "control_set": [space.control_sets[o.control_set].label for o in rows],
        **{v.name: [v.worded(value) for value in x[:, column].tolist()] for column, v in enumerate(space.variables)},
        outcome: [np.nan if o.y is None else o.y for o in rows],
        "cost": [to_units(o.cost) for o in rows],
    }


def _labels(control_set: Any, trials: int) -> list[str]:
    """Return the label of what was controlled in each trial; for one trial the names of its variables may be given."""
    one = isinstance(control_set, str) or (trials == 1 and all(isinstance(name, str) for name in control_set))
    given: Sequence[Any] = [control_set] if one else control_set
    return [chosen if isinstance(chosen, str) else set_label(chosen) for chosen in given]


def recommend(
    problem: Problem, history: History, rng: np.random.Generator, tolerance: float, **asked: Any
) -> Recommendation:
    """Recommend as `core.advice.recommend.recommend`, which says what may be asked; of categories there are words."""
    space, found = problem.space, advice.recommend(problem, history, rng, tolerance, **asked)

    def own(way: W) -> W:
        return way if way is None else replace(way, setpoints=space.worded(way.setpoints))

    return replace(
        found,
        rule=None if found.rule is None else _worded(found.rule, {v.name: v for v in space.variables if v.levels}),
        choice=own(found.choice),
        alternatives=tuple(map(own, found.alternatives)),
        worth=replace(found.worth, references=tuple(map(own, found.worth.references))),
        now=own(found.now),
        promising=own(found.promising),
    )


def _worded(rule: Rule, categories: Mapping[str, Variable]) -> Rule:
    """Return a rule with the words of categories in its settings and conditions."""

    def condition(one: Between) -> Between:
        if one.reading not in categories:
            return one
        words = (word for at, word in categories[one.reading].words.items() if one.holds(at))
        return AmongLevels(one.reading, one.low, one.high, tuple(words))

    def setting(one: Setting) -> Setting:
        if one.variable not in categories:
            return one
        word = str(categories[one.variable].worded(one.at))
        return LevelSetting(one.variable, one.at, (), one.low, one.high, one.step, word)

    def line(one: RuleLine) -> RuleLine:
        return replace(one, when=tuple(map(condition, one.when)), settings=tuple(map(setting, one.settings)))

    return replace(rule, lines=tuple(map(line, rule.lines)))
