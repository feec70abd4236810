"""What to run from now on: the cheapest control set that is good enough, at the setting that the data support best.

Early in a campaign the model knows more than any single trial has shown, so that its own best settings run beside those
where trials were: whose variables had these values, all of them, whether they were set or occurred. All are compared by
what is expected of them less one standard deviation, and a setting that no trial was at is named so; policies end a
campaign by playing what they would recommend.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from rigctl.core.advice.doubts import Decide, Doubt, Supported, advisable, doubts
from rigctl.core.advice.flips import Counterfactuals
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.rules.full import DOUBT
from rigctl.core.advice.rules.planner import Planner
from rigctl.core.advice.rules.stating import stated
from rigctl.core.advice.worth import LEVEL, Appraisal, FixedSetting, Worth, interval
from rigctl.core.bounds.ascent import snapped
from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.limits import UNTRIED, Limits, bounded
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.problem import JsonState, Problem, sign, value_floor
from rigctl.core.experiment.space import Space
from rigctl.core.gp.model import Fitted, fit_known, with_plausible
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.multi_objective.trade_off import Front, front_of
from rigctl.errors import PolicyError, counted
from rigctl.threads import one_thread

JUDGED = 64
"""Settings of a control set whose spread is computed: those with the highest means."""
BEYOND = 0.25
"""Where no trial was, a setting must promise so many of its standard deviations more than where one was."""
SURPRISE = 1.9
"""Standard deviations by which outcomes that are awaited may come off what is expected: still within their interval."""


@dataclass(frozen=True, slots=True)
class Option(FixedSetting):
    """One control set at its best setting."""

    trials: int
    cost_low: float | None = None
    """Lower end of the interval for its mean cost; None: never tried."""
    cost_high: float | None = None
    tried: bool = True
    """Whether a trial was at this setting, whatever it controlled; else it is the model's word only."""
    cost_assumed: float | None = None
    """Of a set that was never tried: the sum of what its variables cost elsewhere; None: nothing says, or it was."""


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Says what outcomes could change that are still to come."""

    count: int
    sets: tuple[str, ...] = ()
    """Control sets that could be recommended instead."""
    setting: bool = False
    """Whether the same set could be recommended at other values."""

    def told(self) -> str:
        """Say so, in a sentence or two."""
        awaited = "1 outcome is" if self.count == 1 else f"{self.count} outcomes are"
        each = "It" if self.count == 1 else "They"
        if self.sets:
            could = f"{each} could change what to control, to {' or '.join(self.sets)}."
        elif self.setting:
            could = f"{each} could change the values, but not what to control."
        else:
            could = f"{each} would have to come more than {SURPRISE:g} standard deviations off to change this."
        return f"{awaited} awaited. {could}"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to run from now on, and what else there is."""

    choice: Option
    alternatives: tuple[Option, ...]
    """All other control sets, best expected outcome first."""
    tolerance: float
    threshold: float
    """What an expected outcome must reach to be good enough."""
    worth: Worth
    """Against leaving everything alone, controlling everything and today's practice; and what each variable does."""
    technical: str = ""
    """How settings and sets were compared, in the model's terms."""
    front: Front | None = None
    """What several outcomes can be had together; None where there is one."""
    changes: Counterfactuals | None = None
    """What would change it; None: not looked for."""
    awaited: Outstanding | None = None
    """What outcomes that are still to come could make of it; None: none is, or it was not looked for."""
    rule: Rule | None = None
    """What to control at which readings, where they are read before a trial; what stands here is for days they are not.
    None: nothing is read first, or it was not asked for."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Control sets that cannot be played now because of an instrument, and why."""
    doubts: tuple[Doubt, ...] = ()
    """Trials that other trials speak against, and one that alone carries the choice."""
    now: Option | None = None
    """What is best at what was read just now; the choice where that tells nothing. None: it was not asked for."""
    promising: Option | None = None
    """What would be recommended if control sets counted that were never tried; None: the same."""
    allowed: float = 0.0
    """How much worse than the best is good enough, outcome units."""
    price: float | None = None
    """Of one unit of outcome, currency units; None: it was not said."""
    maximise: bool = True


@dataclass(frozen=True, slots=True)
class GivenAdvice:
    """Keep a recommendation for whoever asks for the same one again."""

    of: str
    """A digest of all that it was asked of."""
    found: Recommendation


GIVEN: Final = "advice"
"""The key of a history's memo under which the last `GivenAdvice` of it is."""


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """Hold what is believed of every set, from which a choice is made whatever trials cost and the tolerance is."""

    options: tuple[Supported, ...]
    running: tuple[Supported, ...]
    """Those that may be recommended."""
    floor: float

    price: float | None = None
    """Of one unit of outcome, currency units; None: nobody said."""
    limits: Limits | None = None

    @property
    def played(self) -> Sequence[Supported]:
        """Those of them that gave an outcome; where none did, all."""
        return tuple(s for s in self.running if s.played) or self.running

    def chosen(self, problem: Problem, history: History, tolerance: float) -> int:
        """Return which control set is recommended at these costs: what earns most, else the cheapest good enough."""
        prices = Prices.of(problem, history).assumed([s.setting for s in self.options])
        return self.pick(self.played, prices, tolerance).control_set

    def pick(self, among: Sequence[Supported], priced: Sequence[float | None], tolerance: float) -> Supported:
        """Return which of some settings to run; `priced` is by control set, None where a cost is not known."""
        known = [(s, cost) for s in among for cost in [priced[s.control_set]] if cost is not None]
        if self.price is None or not known:
            return cheapest(good_enough(among, self.floor, tolerance)[0], priced)
        price = self.price
        return max(known, key=lambda one: price * one[0].support - one[1])[0]


def supported(
    posterior: Posterior, space: Space, history: History, bounds: Sequence[SetBounds], limits: Limits | None
) -> tuple[Supported, ...]:
    """Find the best supported setting of every control set, in their order; with limits, one that keeps them.

    It is one that the set's variables had, all of them, as measured in a complete trial, or one where its mean or lower
    bound is largest. Where no setting is likely enough to keep the limits, it is the one likeliest to. The posterior is
    of the value given `history`, with concrete marginals; `bounds` are by `best_bounds`.
    """
    rows = [o for row, o in enumerate(history.complete) if row not in posterior.left_out]
    expectations = Expectations.of(posterior, space)
    played = {o.control_set for o in rows}
    points = np.clip(np.array([o.x for o in rows], dtype=float).reshape(len(rows), space.dimension), 0.0, 1.0)
    points = snapped(points, space.steps)
    found = []
    for b in bounds:
        means = expectations.means(points, np.full(len(points), b.control_set))
        if limits is not None:
            means[_margins(limits, b.control_set, points) < 0] = -np.inf
        own = points[np.argsort(-means, kind="stable")[:JUDGED]]
        trials = len(own)
        own = np.concatenate([own, space.rows(b.control_set, np.array([b.best_mean_at, b.lower_at]))])
        mean, sd = expectations.values(own, np.full(len(own), b.control_set))
        score = mean - DOUBT * sd
        score[trials:] -= BEYOND * sd[trials:] if trials else 0.0
        margins = np.zeros(len(own))
        if limits is not None:
            margins[:trials] = _margins(limits, b.control_set, own[:trials])
            margins[trials:] = _margins(limits, b.control_set, own[trials:], UNTRIED)
        best = int((np.where(margins >= 0, score, -np.inf) if (margins >= 0).any() else margins).argmax())
        setting = space.setting(b.control_set, own[best])
        at, mine = (float(mean[best]), float(sd[best])), b.control_set in played
        found.append(Supported(b.control_set, setting, *at, mine, best < trials, float(margins[best])))
    return tuple(found)


def _margins(limits: Limits, control_set: int, points: FloatArray, hope: float = 0.0) -> FloatArray:
    columns = list(limits.problem.space.control_sets[control_set].indices)
    return np.asarray(limits.margins(control_set, points[:, columns], (hope,))[0])


def good_enough(options: Sequence[Supported], floor: float, tolerance: float) -> tuple[list[Supported], float]:
    """Return the options within `tolerance` of the best supported one, and the mean that takes.

    Both what is expected of an option and what supports it must be within that share, counted from the floor.
    """
    best = max(options, key=lambda s: s.support)
    threshold, supporting = (min(v, floor + (1 - tolerance) * (v - floor)) for v in (best.mean, best.support))
    return [s for s in options if s.mean >= threshold and s.support >= supporting], threshold


def cheapest(options: Sequence[Supported], charged: Sequence[float | None]) -> Supported:
    """Return the option whose trials cost least, by control set; of equals the best supported."""
    return min(options, key=lambda s: (charged[s.control_set] or 0.0, -s.support))


def weigh(
    problem: Problem, history: History, posterior: Posterior, rng: np.random.Generator, price: float | None = None
) -> Weighing:
    """Find what is believed of every set; the problem's marginals are concrete."""
    limits = Limits.of(problem, history)
    return _weighed(problem, history, posterior, (bounded(limits, posterior, problem, rng), limits), price)


def _weighed(
    problem: Problem,
    history: History,
    posterior: Posterior,
    bounds: tuple[Sequence[SetBounds], Limits | None],
    price: float | None = None,
) -> Weighing:
    """Weigh every set; those run that gave an outcome, or were never tried and have a price by their variables.

    Where none is likely enough to keep the limits, it is the one that is likeliest to.
    """
    options = supported(posterior, problem.space, history, *bounds)
    priced = Prices.of(problem, history).assumed([s.setting for s in options])
    running = [s for s in options if s.played or priced[s.control_set]]
    if problem.looks or len(history.complete) <= problem.space.dimension:
        running = [s for s in running if s.played]  # a rule chooses among those; and few outcomes tell of no others
    # trials that all failed speak against a set, whatever the model says of it
    failed = {o.control_set for o in history.observations}
    running = [s for s in running if s.played or s.control_set not in failed]
    if not all(s.within for s in options):
        running = [s for s in running if s.within] or [max(running or options, key=lambda s: s.margin)]
    return Weighing(
        options, tuple(running) or options, value_floor(problem, history, posterior.left_out), price, bounds[1]
    )


@one_thread()
def recommend(
    problem: Problem,
    history: History,
    rng: np.random.Generator,
    tolerance: float,
    state: JsonState | None = None,
    *,
    today: Mapping[str, float] | None = None,
    floor_cost: float | None = None,
    price: float | None = None,
    rule: bool = True,
    now: Sequence[float | None] | None = None,
) -> Recommendation:
    """Recommend, of the sets that were tried, what earns most; without a price the cheapest within the tolerance.

    i* of Tay et al. (2023), by lower ends of what is expected instead of upper bounds: nothing is left to explore. Of
    several outcomes the first counts, where limits of others are kept; the Pareto front stands beside.

    Args:
        problem: what is to be recommended for.
        history: all trials.
        rng: starts of the search.
        tolerance: how much worse than the best is good enough, as a share.
        state: the policy's memory, if it has any: models go on from what it has of them (`Fitted.to_state`).
        today: setpoints of today's practice, engineering units, if there is one to compare with.
        floor_cost: what a trial costs whatever is controlled, currency units, if known.
        price: what one unit of outcome is worth, currency units, if it is known.
        rule: whether to work out a rule as well, where the problem looks first, and doubts about single trials.
        now: what the variables read just now, (d,), unit cube, if it is asked what is best at that.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    problem, _ = present(replace(problem, look=None), history)
    fitted, weighing, decide = _advised(problem, history, state, (tolerance, price), rng)
    prices, settings = Prices.of(problem, history), [s.setting for s in weighing.options]
    priced = prices.assumed(settings)
    chosen, bold = (weighing.pick(among, priced, tolerance) for among in (weighing.played, weighing.running))
    _, threshold = good_enough(weighing.played, weighing.floor, tolerance)
    posteriors = with_plausible(problem, history, fitted.posterior)
    known = problem, history, posteriors, settings, prices.each(settings)
    appraisal = Appraisal(*known, chosen.control_set, today, floor_cost, weighing.limits)
    choice, *others = _options(appraisal, weighing, prices, priced)
    planner = _planner(problem, history, fitted.posterior, weighing, tolerance) if rule and problem.looks else None
    return Recommendation(
        choice,
        tuple(others),
        tolerance,
        sign(problem) * threshold,
        worth=appraisal.worth(),
        technical=_technical(tolerance, sign(problem) * weighing.floor, sign(problem) * threshold),
        front=front_of(problem, history, fitted, (state or {}).get("further", ())),
        rule=None if planner is None else stated(planner, weighing.options[chosen.control_set], posteriors),
        doubts=tuple(doubts(problem, history, fitted.posterior, decide)) if rule else (),
        now=None if now is None else choice if planner is None else _at(planner, now, choice),
        promising=next((o for o in others if problem.space.index_of(o.control_set) == bold.control_set), None),
        allowed=max(weighing.played, key=lambda s: s.support).mean - threshold,
        price=price,
        maximise=problem.maximise,
    )


def recommend_again(problem: Problem, history: History, rng: np.random.Generator, **asked: Any) -> Recommendation:
    """Recommend as `recommend` does, unless it was asked the same of this history last time: then it is that again."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # every number in full
        text = repr((problem, history.observations, rng.bit_generator.state, sorted(asked.items())))
    of = hashlib.sha256(text.encode()).hexdigest()
    given: GivenAdvice | None = history.memo.get(GIVEN)
    if given is None or given.of != of:
        given = GivenAdvice(of, recommend(problem, history, rng, **asked))
        history.memo.keep(GIVEN, given)
    return given.found


def _advised(
    problem: Problem,
    history: History,
    remembered: JsonState | None,
    wish: tuple[float, float | None],
    rng: np.random.Generator,
) -> tuple[Fitted, Weighing, Decide]:
    """Return the model that advice is given by, what it says of every set, and how another would decide.

    `remembered` is the policy's memory; `wish` is the tolerance, and what one unit of outcome is worth. Raises as
    `recommend`.
    """
    if not history.complete:
        waiting = len(history.awaited)
        remedy = f"those of {counted(waiting, 'trial')} are awaited" if waiting else "run some first"
        error = PolicyError(f"recommend: no trial has given an outcome yet; {remedy}")
        error.awaited = waiting
        raise error
    (tolerance, price), fitted = wish, fit_known(problem, history, remembered)
    limits = Limits.of(problem, history, (remembered or {}).get("limits", ()))
    bounds = bounded(limits, fitted.posterior, problem, rng)

    def decide(posterior: Posterior) -> Supported:
        then = _weighed(problem, history, posterior, (bounds, limits), price)
        return then.options[then.chosen(problem, history, tolerance)]

    believed = advisable(problem, history, fitted.posterior, decide)
    if believed is not fitted.posterior:
        fitted, bounds = replace(fitted, posterior=believed), bounded(limits, believed, problem, rng)
    return fitted, _weighed(problem, history, believed, (bounds, limits), price), decide


def _technical(tolerance: float, floor: float, threshold: float) -> str:
    return (
        f"settings of trials by posterior mean - {DOUBT:g} sd of F_i; tolerance {tolerance:g} from floor {floor:.4g}: "
        f"mean must reach {threshold:.4g}; intervals {LEVEL:.0%}"
    )


def _options(
    appraisal: Appraisal, weighing: Weighing, prices: Prices, priced: Sequence[float | None]
) -> Iterator[Option]:
    """Yield the chosen set, then all others, best expected outcome first."""
    problem, history, sds = appraisal.problem, appraisal.history, appraisal.sds()
    told = {
        s: replace(
            _option(problem, history, s, sds[s.control_set], prices), kept=appraisal.kept(appraisal.way(s.control_set))
        )
        for s in weighing.options
    }
    choice = told[weighing.options[appraisal.chosen]]
    yield choice
    for option in sorted(weighing.options, key=lambda s: -s.mean):
        beside = told[option]
        if beside is not choice:
            assumed = priced[option.control_set] if beside.cost_per_trial is None else None
            yield replace(beside, cost_assumed=assumed)


def planner_of(
    problem: Problem, history: History, posterior: Posterior, rng: np.random.Generator, tolerance: float
) -> Planner:
    """Return what plays the full rule at any reading; the problem's marginals are concrete, and not of a reading."""
    return _planner(problem, history, posterior, weigh(problem, history, posterior, rng), tolerance)


def _planner(problem: Problem, history: History, posterior: Posterior, weighing: Weighing, tolerance: float) -> Planner:
    settings = {s.control_set: s.setting for s in weighing.running}
    return Planner.of(problem, history, posterior, settings, worst=weighing.floor, tolerance=tolerance)


def _at(planner: Planner, read: Sequence[float | None], choice: Option) -> Option:
    """Return what is best at what was read, which is the choice where that tells nothing."""
    found, problem, history = planner.on(read), planner.problem, planner.history
    if found is None:
        return choice
    return _option(problem, history, found, found.sd, Prices.of(problem, history))


def _option(problem: Problem, history: History, found: Supported, sd: float, prices: Prices) -> Option:
    index, at = found.control_set, np.array([found.setting])
    cost, ends = prices.at(index, at), prices.interval(index, at, LEVEL) or (None, None)
    return Option(
        problem.space.control_sets[index].names,
        problem.space.setpoints(index, found.setting),
        *interval(sign(problem) * found.mean, sd),
        None if cost is None else float(cost[0]),
        trials=history.trials_of(index),
        cost_low=ends[0],
        cost_high=ends[1],
        tried=found.tried,
    )
