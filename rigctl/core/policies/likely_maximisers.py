"""Learn about the likely maximisers where that is cheap, and play the best there is in between (ours).

Exploration plays, of the control sets that cost at most half of the dearest, the setting that takes most off the
variance of whichever setting is the best, per unit of money (`core.acquisition.knowledge`): what is controlled cheaply
steers the rest, which varies by itself, to where the best may be. Where variables are read before a trial a rule is
sought, and its best setting at every reading: variances are averaged over readings to come. Harvest plays the setting
with the best expected outcome while that promises more than what was played so far, else the largest upper bound. Once
a cheaper control set is known to be good enough, most of harvest's money goes to that (U: "exploit the cheapest subset
among these high-quality subsets as frequently as possible"). Exploration gets most of the money at first, harvest most
of it later, and both get some of it at any time: whenever the campaign is stopped, the model is good and the best
setting it knows has been played.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.acquisition.valuing import Valuing, told
from rigctl.core.advice.doubts import Supported, promising
from rigctl.core.advice.recommend import cheapest, good_enough, supported
from rigctl.core.bounds.expectations import value_at
from rigctl.core.bounds.search import Peak
from rigctl.core.costs.beliefs import booked, booked_when_free
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros
from rigctl.core.experiment.problem import JsonState
from rigctl.flaws import require

WIDELY = 16
"""Alternatives everywhere, beside those near the peaks; per control set."""
TRIALS_PER_VARIABLE = 10
"""So many trials, and as many more, are expected to teach what there is to learn."""
CHEAP = 0.5
"""Exploration uses control sets that cost at most this share of the dearest; at more there is little to save."""
EXPLOIT, EXPLOIT_FROM = 0.8, 0.25
"""Of what is spent from this share of the budget on, so much goes to the cheapest control set that is good enough, if
one is; with the rest a better one is looked for."""
UNTRIED = 0.15
"""Share of the budget that is spent before harvest plays a control set whose cost nobody knows, and before control sets
take turns."""
CHEAPEST = 1.5
"""The cheapest control sets cost at most so many times what the cheapest one does."""
A_TURN = 0.1
"""A dear control set has its turn where a trial of it costs at most this share of the budget."""
LATE = 0.3
"""Share of the budget from which on the best control set at the day's reading is played if it never was, whatever
harvest may have: a rule only chooses among control sets that were tried."""
NEARLY = 0.8
"""Harvest takes the cheapest of the control sets that promise at least this share of the most there is to gain."""
CONFIRMATIONS = 3
"""Once the money left pays for fewer trials of what would be recommended, they play it."""
DEARER = "learning is cheaper with others"
LEAST_RISE = 0.1
"""Harvest is worth a play if the best mean exceeds what was achieved by this share of its spread."""


@dataclass(frozen=True, slots=True)
class ExplorationShare:
    """Say how much of the money goes into exploration."""

    first: float = 0.75
    """Of what is spent until `until`."""
    until: float = 0.4
    """Share of the budget."""
    then: float = 0.2
    """Of what is spent after that."""

    def __post_init__(self) -> None:
        for name in ("first", "until", "then"):
            value = getattr(self, name)
            require(0 <= value <= 1, value, "must be between 0 and 1", where=f"explore.{name}")

    def harvest(self, spent: float) -> float:
        """Return what harvest may have had, as a share of the budget, when this share of it is spent."""
        return (1 - self.first) * min(spent, self.until) + (1 - self.then) * max(0.0, spent - self.until)


@dataclass(frozen=True, slots=True)
class LikelyMaximisers(OutlookPolicy):
    """Play the policy `likely-maximisers`; its fields are its options."""

    name = "likely-maximisers"
    keeps_limits = True

    tolerance: float = 0.05
    """alpha: recommended is the cheapest control set whose best value is within this share of the best there is."""
    explore: ExplorationShare = field(default_factory=ExplorationShare)
    spread: int = 2
    """Every so many exploring trials one plays, at its upper-bound maximiser, the control set that has had the least
    money instead: every set is tried, and what a wrong model takes to be settled is looked at all the same.
    0: never."""

    def __post_init__(self) -> None:
        require(0 <= self.tolerance < 1, self.tolerance, "must be at least 0 and below 1", where="tolerance")
        require(self.spread >= 0, self.spread, "must be >= 0", where="spread")

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:
        """Harvest if its share of the money allows for it now, else explore."""
        fitting = outlook.fitting()
        harvested, explored = _harvested(state, outlook), int(state.get("explored", 0))
        if outlook.too_few_outcomes:
            choice = _meter(outlook, fitting)
        else:
            posterior, space = outlook.fitted.posterior, outlook.problem.space
            options = supported(posterior, space, outlook.history, outlook.bounds, outlook.limits)
            choice = (
                self._confirm(outlook, fitting, options, confirming=bool(state.get("confirming")))
                or self._exploit(outlook, fitting, options, int(state.get("exploited", 0)))
                or self._harvest(outlook, fitting, harvested)
                or self._explore(outlook, fitting, explored, rng)
            )
        repeated = list(state.get("repeated", ()))
        choice = choice if choice.phase == "explore" else _repeating(outlook, choice, repeated)
        harvesting = choice.phase == "harvest"
        remembered: dict[str, Any] = {
            "harvested": harvested,
            "harvesting": len(outlook.history) if harvesting else None,
            "explored": explored + (choice.phase == "explore"),
            "confirming": bool(state.get("confirming")) or choice.phase == "confirm",
            "exploited": state.get("exploited", 0),
            **choice.remembered,
        }
        if repeated:
            remembered["repeated"] = repeated
        return replace(choice, remembered=remembered)

    def _confirm(
        self, outlook: Outlook, fitting: Sequence[int], options: Sequence[Supported], *, confirming: bool
    ) -> Choice | None:
        """Play what would be recommended, with the last of the money: it may have been luck.

        The first of these trials goes to the best expected setting: where no trial was it is the model's word only.
        """
        problem, history = outlook.problem, outlook.history
        played = [s for s in options if s.played and s.within]
        if not played:
            return None
        good, _ = good_enough(played, outlook.floor, self.tolerance)
        charged = [outlook.cost_at(s.control_set, s.setting) for s in options]
        chosen = cheapest(good, charged)
        price = charged[chosen.control_set] * MICROS_PER_UNIT
        trials = CONFIRMATIONS * (1.0 - told(problem))
        within = outlook.within(fitting) or fitting
        best = outlook.bounds[max(within, key=lambda i: (outlook.bounds[i].best_mean, -i))]
        better = not confirming and best.best_mean > chosen.mean
        dearer = better and best.control_set != chosen.control_set
        once = outlook.predicted(best.control_set, best.best_mean_at) if dearer else 0
        if history.spent + trials * price + once <= problem.budget or not outlook.fits(
            chosen.control_set, chosen.setting
        ):
            return None
        play = chosen.control_set, chosen.setting
        compared: Mapping[int, tuple[float, ...]] = {s.control_set: s.setting for s in options}
        why = "this setting of {} would be recommended now, and is tried again to be sure"
        technical = "confirming: this setting of {} would be recommended now"
        if better and outlook.fits(best.control_set, best.best_mean_at):
            play, compared = (best.control_set, best.best_mean_at), _best_means(outlook)
            why = "{} has the best expected outcome, at a setting that no trial has tried yet"
            technical = "confirming: more is expected of {} here than of what was played"
        return _play(outlook, play, "confirm", why, technical, among=fitting, compared=compared)

    def _exploit(
        self, outlook: Outlook, fitting: Sequence[int], options: Sequence[Supported], exploited: Micros
    ) -> Choice | None:
        """Play the cheapest set that is good enough, if its share of the money allows for it now."""
        spent = sum(booked(outlook.history, outlook.costs))
        money, good = _horizon(outlook, spent), _good_enough(outlook, options, self.tolerance)
        if good is None:
            return None
        cost = outlook.cost_at(good.control_set, good.setting) * MICROS_PER_UNIT
        progress = (spent + cost) / money
        share = (1.0 - told(outlook.problem)) * EXPLOIT * max(0.0, progress - EXPLOIT_FROM)
        if exploited + cost > share * money:
            return None
        play, compared = (good.control_set, good.setting), _best_means(outlook)
        why = "{} is the cheapest control set that is good enough"
        technical = "exploiting: {} costs least of those within the tolerance"
        kept = {"exploited": exploited + round(cost)}
        return _play(outlook, play, "harvest", why, technical, among=fitting, compared=compared, remembered=kept)

    def _harvest(self, outlook: Outlook, fitting: Sequence[int], harvested: Micros) -> Choice | None:
        """Take the best there is, if harvest's share of the money allows for it now.

        What is read before a trial makes that share smaller. Without it a trial shows whether the best is as good as
        it is expected to be; a rule plays what no trial has played, and all that counts is to know it, and that its
        control set was tried once.
        """
        problem, spent = outlook.problem, sum(booked(outlook.history, outlook.costs))
        money = _horizon(outlook, spent)
        best, why, technical, compared = _best_known(outlook, fitting)
        best = _nearly_as_good(outlook, best)
        if not outlook.fits(best.control_set, best.setting):
            return None  # where costs depend on the setting: its set fits elsewhere
        untried = best.control_set in outlook.never_tried
        if untried and spent < UNTRIED * money and len(fitting) > 1:
            return None
        cost = _price(outlook, best.control_set, best.setting)
        share = (1.0 - told(problem)) * self.explore.harvest((spent + cost) / money)
        due = problem.looks and not outlook.history.trials_of(best.control_set) and spent > LATE * money
        if harvested + cost > share * money + 1 and not due:
            return None
        play = best.control_set, best.setting
        return _play(outlook, play, "harvest", why, "harvesting: {} " + technical, among=fitting, compared=compared)

    def _explore(self, outlook: Outlook, fitting: Sequence[int], explored: int, rng: np.random.Generator) -> Choice:
        """Take what teaches most about the likely maximisers for its money, at this reading and at those to come."""
        sets = _cheap(outlook, fitting)
        if self.spread and explored % self.spread == self.spread - 1:
            return _in_turn(outlook, fitting, sets)
        best = Valuing.of(outlook, rng, widely=WIDELY).reduction_per_cost(sets, rng)
        why = "this setting of {} should tell most, for its money, about where the best is"
        technical = "exploring: this setting of {} tells most for its money about the settings that may be the best"
        play = best.control_set, best.setting
        return _play(outlook, play, "explore", why, technical, among=sets, left_out=DEARER)


def _play(
    outlook: Outlook,
    play: tuple[int, tuple[float, ...]],
    phase: str,
    why: str,
    technical: str,
    *,
    among: Sequence[int],
    **more: Any,
) -> Choice:
    """Choose a control set at a setting (k,), unit cube; `{}` in the reasons stands for the set's name."""
    control_set, setting = play
    label = outlook.label(control_set)
    reason = why.format(label)
    return Choice(control_set, phase, reason, among, setting=setting, technical=technical.format(label), **more)


def _in_turn(outlook: Outlook, fitting: Sequence[int], cheap: Sequence[int]) -> Choice:
    """Choose, while little is spent, the most promising of the cheapest sets, then the one that has had least money.

    A dear one has its turn where a trial of it is a small part of all money. So every set is tried early, and what a
    wrong model takes to be settled is looked at all the same.
    """
    had = booked(outlook.history, outlook.costs)
    spent = sum(had)
    money = _horizon(outlook, spent)
    if spent < UNTRIED * money:
        costs = {i: outlook.cost_at(i, outlook.bounds[i].upper_at) for i in cheap}
        among = [i for i in cheap if costs[i] <= CHEAPEST * min(costs.values())]
        chosen = outlook.most_promising(among)
        why = "{} could turn out best of the cheapest control sets"
        technical = "exploring widely: {} is the most promising of the cheapest control sets"
    else:
        prices = {i: _price(outlook, i, outlook.bounds[i].upper_at) for i in fitting}
        among = [i for i in fitting if i in cheap or prices[i] <= A_TURN * money]
        chosen = min(among, key=lambda i: (had[i], prices[i], -outlook.upper[i], i))
        least = "has had the least money" if outlook.has_had_least_money(chosen, among) else "is next"
        why = f"control sets take turns, and {{}} {least}"
        technical = "exploring widely: least was spent on {}; at its upper-bound maximiser"
    play = chosen, outlook.kept(chosen, outlook.bounds[chosen].upper_at)
    return _play(outlook, play, "explore", why, technical, among=among, left_out=DEARER)


def _repeating(outlook: Outlook, choice: Choice, repeated: list[int]) -> Choice:
    """Return a repetition, once each, of a trial that is left out and that would be the best if it were true."""
    best = max(b.best_mean for b in outlook.bounds)
    for trial, setting in promising(outlook.problem, outlook.history, outlook.fitted.posterior, best).values():
        number, index = trial.trial, trial.control_set
        if number not in repeated and outlook.fits(index, setting):
            repeated.append(number)
            why = f"trial {number} had a better outcome than expected anywhere, but the other trials contradict it"
            technical = f"repeating trial {number}, which the model leaves out"
            return Choice(index, choice.phase, why, [index], setting=setting, technical=technical)
    return choice


def _price(outlook: Outlook, control_set: int, setting: Sequence[float]) -> float:
    """Return what a trial is expected to cost, micro-units."""
    return float(outlook.prices(control_set, np.array([setting], dtype=float))[0]) * MICROS_PER_UNIT


def _horizon(outlook: Outlook, spent: Micros) -> Micros:
    """Return the money that shares are counted of: the budget, or what learning is expected to take if that is less.

    A budget that pays for far more trials than that, or is not what ends the campaign, must not put harvest off.
    """
    history = outlook.history
    trials = sum(history.trials_of(i) for i in range(len(outlook.bounds)))
    enough = TRIALS_PER_VARIABLE * (outlook.problem.space.dimension + 1)
    return min(outlook.problem.budget, enough * spent // trials) if trials and spent else outlook.problem.budget


def _harvested(state: Mapping[str, Any], outlook: Outlook) -> Micros:
    """Return all that was booked for harvest, the trial of the last decision included if it was one."""
    total: Micros = int(state.get("harvested", 0))
    place, history = state.get("harvesting"), outlook.history
    if place is None or place >= len(history):
        return total
    return total + (history.observations[place].cost or booked_when_free(outlook.costs))


def _meter(outlook: Outlook, fitting: Sequence[int]) -> Choice:
    """Choose, before there is a model, the cheap set tried least, of these the one with the fewest variables."""
    sets = outlook.problem.space.control_sets
    cheap = _cheap(outlook, fitting)
    chosen = min(cheap, key=lambda i: (outlook.history.trials_of(i), len(sets[i].indices), i))
    label = outlook.label(chosen)
    why = f"of the control sets that may be cheap, {label} has had the fewest trials"
    technical = f"exploring: {label} has been tried least"
    return Choice(chosen, "explore", why, cheap, technical=technical, left_out=DEARER)


def _best_means(outlook: Outlook) -> Mapping[int, tuple[float, ...]]:
    return {b.control_set: b.best_mean_at for b in outlook.bounds}


def _best_known(outlook: Outlook, fitting: Sequence[int]) -> tuple[Peak, str, str, Mapping[int, tuple[float, ...]]]:
    """Take the best mean if it promises more than what was played, else the best bound; of near-equals the cheapest.

    Returns the play, the reason in plain words and in technical ones, and the settings that were compared.
    """
    h = outlook.fitted.hyperparameters
    attained = h.y_shift + h.y_scale * outlook.attained
    within = outlook.within(fitting)
    best = outlook.bounds[max(within or fitting, key=lambda i: (outlook.bounds[i].best_mean, -i))]
    if best.within and best.best_mean - attained > LEAST_RISE * best.best_mean_sd:
        fitting = within
        values, at = tuple(b.best_mean for b in outlook.bounds), _best_means(outlook)
        praise = "has the best expected outcome", "is expected to do nearly"
        why = "has the best expected outcome, better than what was played"
    else:
        values, at = outlook.upper, {i: outlook.bounds[i].upper_at for i in fitting}
        praise = "could turn out best", "could turn out nearly"
        why = "promises most; the best expected setting has been played"
    rises = {i: values[i] - attained for i in fitting}
    chosen = _cheapest_of_the_best(outlook, rises, at)
    return Peak(chosen, at[chosen], values[chosen]), _praise(outlook, chosen, rises, *praise), why, at


def _nearly_as_good(outlook: Outlook, best: Peak) -> Peak:
    """Return the play without its dear changes if it is expected to rise nearly as far there, else as it is."""
    at = outlook.kept(best.control_set, best.setting)
    if not outlook.to_change(best.control_set, best.setting) or at == best.setting:
        return best
    h, space, posterior = outlook.fitted.hyperparameters, outlook.problem.space, outlook.fitted.posterior
    mean, sd = value_at(posterior, space, best.control_set, at)
    attained = h.y_shift + h.y_scale * outlook.attained
    hoped = mean + outlook.problem.model.beta * sd
    rise = best.value - attained
    return Peak(best.control_set, at, hoped) if hoped - attained >= NEARLY * rise else best


def _good_enough(outlook: Outlook, options: Sequence[Supported], tolerance: float) -> Peak | None:
    """Return the cheapest of the sets that are within the tolerance, where they were played; None: it is the best.

    It is played where its upper bound is largest if that is expected to be good enough, too.
    """
    running = [s for s in options if s.within]
    if not running:
        return None
    good, threshold = good_enough(running, outlook.floor, tolerance)
    known = [s for s in good if s.played and outlook.fits(s.control_set, s.setting)]
    if not known or len(good) == 1 or not tolerance:
        return None
    chosen = cheapest(known, [outlook.cost_at(s.control_set, s.setting) for s in options])
    b = outlook.bounds[chosen.control_set]
    kept = outlook.limits is None or outlook.limits.keeps(b.control_set, b.upper_at)
    at = b.upper_at if b.mean_at_upper >= threshold and kept else chosen.setting
    return Peak(chosen.control_set, tuple(map(float, at)), chosen.mean)


def _praise(outlook: Outlook, chosen: int, rises: Mapping[int, float], best: str, nearly: str) -> str:
    """Say that a set is the best, or nearly as good and cheaper."""
    top = max(rises, key=lambda i: (rises[i], i == chosen))
    if top == chosen:
        return f"{outlook.label(chosen)} {best}"
    known = all(outlook.costs[i].mean is not None for i in (chosen, top))
    cheaper = "costs less" if known else "may cost less"
    return f"{outlook.label(chosen)} {nearly} as well as {outlook.label(top)}, and {cheaper}"


def _cheapest_of_the_best(outlook: Outlook, rises: Mapping[int, float], at: Mapping[int, tuple[float, ...]]) -> int:
    """Return the cheapest of the sets that, at these settings, rise nearly as far as the best; of equals the best."""
    top = max(rises.values())
    near = [i for i, rise in rises.items() if rise >= top - (1 - NEARLY) * abs(top)]
    return min(near, key=lambda i: (outlook.cost_at(i, at[i]), -rises[i], i))


def _cheap(outlook: Outlook, fitting: Sequence[int]) -> list[int]:
    """Return the control sets to explore with.

    One that was never tried counts as cheap, unless it controls all that the others do: what it costs is seen when
    harvest plays it.
    """
    sets = outlook.problem.space.control_sets
    everything = set().union(*(sets[i].indices for i in fitting))
    cost = {i: outlook.cost_at(i, outlook.bounds[i].upper_at) for i in fitting}
    untried = outlook.never_tried & set(fitting)
    dearest = max(cost.values())
    whole = {i for i in untried if set(sets[i].indices) == everything}
    others = [i for i in fitting if i not in whole]
    cheap = [i for i in others if i in untried or cost[i] <= CHEAP * dearest]
    # while nobody knows what the dearest costs, it may be dear enough for all others to be cheap
    return (others if whole else cheap) or list(fitting)
