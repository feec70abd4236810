"""The one answer to "what do I run from now on": which way, why, how sure that is, and what to try next.

Numbers are rounded once, to what is shown, and differences are those of rounded numbers: who checks a reason against
the table finds them. Outcomes are in their own units, money in currency units a trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

from rigctl.core.advice.recommend import Option, Recommendation
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.worth import FixedSetting, Reference
from rigctl.core.bounds.limits import KeptLimit
from rigctl.text import decimals_for, set_label

CENTS = 2
"""Decimals of money at least."""


@dataclass(frozen=True, slots=True)
class WayToRun:
    """One row of the table."""

    kind: Literal["setting", "rule", "nothing", "today"]
    control_set: tuple[str, ...]
    """Empty for the rule, and where nothing is controlled."""
    setpoints: Mapping[str, float]
    """Engineering units; empty for the rule."""
    expected: float
    """Mean outcome of a trial."""
    low: float
    """Lower end of the 95 % interval of that mean."""
    high: float
    cost: float | None
    """Mean cost of a trial; None: nothing says."""
    cost_is: Literal["known", "assumed", "at least", "unknown"]
    net: float | None
    """What the outcome is worth less what the trial costs; None: one of them is not known."""
    trials: int | None = None
    """That controlled just these variables; None for the rule, which has several control sets."""
    at_setting: bool = True
    """Whether a trial was at this setting, whatever it controlled."""
    cost_low: float | None = None
    """Lower end of the 95 % interval of the mean cost; None: no trial told."""
    cost_high: float | None = None
    pays_at: float | None = None
    """What one unit of outcome is worth where this way earns as much as the one to run, currency units: one that costs
    more pays above that, one that costs less below. None: whatever it is worth, or a cost is not known in full."""
    kept: tuple[KeptLimit, ...] = ()
    """How likely single trials keep the limits of further outcomes."""

    @property
    def within(self) -> bool:
        """Tell whether all limits are likely enough to be kept."""
        return all(k.enough for k in self.kept)


@dataclass(frozen=True, slots=True)
class Difference:
    """One way against another, by the numbers that are shown."""

    other: WayToRun
    gain: float
    """How much better the outcome is; negative: worse."""
    saving: float | None
    """How much cheaper a trial is; negative: more expensive. None: one of the costs is not known."""
    net: float | None
    """How much more it earns."""

    @property
    def promises_more(self) -> bool:
        """Tell whether the first way promises more: in money, else as good an outcome at no higher cost, or better."""
        if self.net is not None or self.saving is None:
            return (self.net or 0.0) > 0
        return min(self.gain, self.saving) >= 0 and max(self.gain, self.saving) > 0


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure the answer is, and what would settle it."""

    kind: Literal["clear", "may be as good", "one trial", "never at this setting", "try next", "over a limit"]
    rival: WayToRun | None = None
    """The way that may be as good: the better end of its interval is beyond what the answer promises."""
    trial: int | None = None
    """The trial that alone carries the answer."""
    others_dearer: bool = False
    """Whether there are ways that may give more, but at a higher cost."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to run from now on."""

    ways: tuple[WayToRun, ...]
    """First the one to run, then all others, those first that promise most."""
    why: Difference | None
    """The first way against the best of the others that were tried; None: there is no other."""
    certainty: Certainty
    try_next: Difference | None
    """A way that promises more, but is not known well enough, against the first one."""
    today: Difference | None
    """The first way against today's practice; None: it is not known."""
    price: float | None
    """Of one unit of outcome, currency units; None: it was not said."""
    maximise: bool
    decimals: int
    """Of outcomes, as shown."""
    cents: int
    """Of money, as shown."""

    @property
    def run(self) -> WayToRun:
        return self.ways[0]

    def named(self, most: int) -> tuple[WayToRun, ...]:
        """Return the ways that sentences name, and others up to so many, in their order."""
        named = [d.other for d in (self.why, self.try_next, self.today) if d is not None]
        named += [] if self.certainty.rival is None else [self.certainty.rival]
        kept: list[WayToRun] = []
        for way in (self.run, *named, *(w for w in self.ways if w.kind != "setting"), *self.ways):
            kept += [way] if way not in kept and (len(kept) < most or way in named) else []
        return tuple(way for way in self.ways if way in kept)


def answer_of(found: Recommendation) -> Answer:
    """Make the answer of what was found.

    The choice is among the recommended fixed setting and the rule: the one that earns more, where the outcome has a
    price; else the cheaper of those that are within the tolerance of the better one. Every other way that promises
    more is one to try next.
    """
    return _Making.of(found).answer()


@dataclass(frozen=True, slots=True)
class _Making:
    found: Recommendation
    decimals: int
    cents: int

    @classmethod
    def of(cls, found: Recommendation) -> _Making:
        settings: list[FixedSetting | Rule] = [found.choice, *found.alternatives, *found.worth.references]
        settings += [] if found.rule is None else [found.rule]
        widths = [0.25 * (s.high - s.low) for s in settings]
        costs = [0.05 * s.cost_per_trial for s in settings if s.cost_per_trial]
        seen = [w for w in widths if w > 1e-9 * abs(found.choice.expected)]
        return cls(found, decimals_for(seen), max(CENTS, decimals_for(costs)))

    @property
    def sign(self) -> float:
        return 1.0 if self.found.maximise else -1.0

    def answer(self) -> Answer:
        run, *others = self._chosen()
        others = [replace(way, pays_at=self._pays_at(way, run)) for way in others]
        others.sort(key=lambda w: (self.found.price is None or w.net is not None, self._promise(w, w.expected)))
        others.reverse()
        better = self._better(run, others)
        return Answer(
            ways=(run, *others),
            why=self._why(run, others),
            certainty=self._certainty(run, others, better),
            try_next=better,
            today=next((self._against(run, w) for w in others if w.kind == "today"), None),
            price=self.found.price,
            maximise=self.found.maximise,
            decimals=self.decimals,
            cents=self.cents,
        )

    def _why(self, run: WayToRun, others: list[WayToRun]) -> Difference | None:
        """Return the way to run against the best of the others that were tried and do not promise more."""
        tried = [w for w in others if _evident(w) and w.within and not self._against(w, run).promises_more]
        own = [w for w in tried if w.kind in ("rule", "setting")] or tried
        if run.kind == "rule" and self.found.price is None:  # what it is chosen instead of
            own = [w for w in own if w.control_set == self.found.choice.control_set] or own
        against = [self._against(run, w) for w in own]
        near = [d for d in against if d.net is not None or d.gain >= -self.found.allowed]
        return next(iter(near or against), None)

    def _better(self, run: WayToRun, others: list[WayToRun]) -> Difference | None:
        """Return what to try next: what promises more than the way to run, else what is promising but not known."""
        bold, held = self.found.promising, self.found.held
        free = [
            replace(self._against(w, run), other=w) for w in others if w.within and set_label(w.control_set) not in held
        ]
        more = [d for d in free if d.promises_more]
        named = [d for d in free if bold is not None and d.other.control_set == bold.control_set]
        return next(iter(more or named), None)

    def _chosen(self) -> list[WayToRun]:
        """Return all ways, the one to run first."""
        found = self.found
        ways = [self._setting(o) for o in (found.choice, *found.alternatives)]
        choice = self._playable(ways)
        ways.remove(choice)
        ways += [self._reference(r) for r in found.worth.references if r.what != "everything"]
        if found.rule is None or not found.rule.follows:
            return [choice, *ways]
        rule = self._rule(found.rule)
        played = not any(set_label(line.control_set) in found.held for line in found.rule.lines)
        return [rule, choice, *ways] if played and self._preferred(rule, choice) else [choice, rule, *ways]

    def _playable(self, ways: Sequence[WayToRun]) -> WayToRun:
        """Return the recommended setting; while an instrument keeps it from being played, the best that can be."""
        best = ways[0]
        if not self._held(best):
            return best
        others = [w for w in ways if w.trials and w.within and not self._held(w)]
        return reduce(lambda one, other: other if self._preferred(other, one) else one, others) if others else best

    def _held(self, way: WayToRun) -> bool:
        return set_label(way.control_set) in self.found.held

    def _preferred(self, one: WayToRun, other: WayToRun) -> bool:
        """Tell whether one way is to be run rather than another: it earns more, or is the cheaper of good enough."""
        beside, allowed = self._against(one, other), self.found.allowed
        if beside.net is not None:
            return beside.net > 0
        if beside.saving is None:
            return beside.gain > 0
        return beside.gain >= -allowed if beside.saving >= 0 else beside.gain > allowed

    def _certainty(self, run: WayToRun, others: list[WayToRun], better: Difference | None) -> Certainty:
        if not run.within:
            return Certainty("over a limit")
        alone = next((d for d in self.found.doubts if d.counted and d.control_set is not None), None)
        if alone is not None and run.kind == "setting" and run.control_set == self.found.choice.control_set:
            return Certainty("one trial", trial=alone.trial)
        if better is not None:
            return Certainty("try next")
        if run.kind == "setting" and not (run.at_setting and run.trials):
            return Certainty("never at this setting")
        hopeful = [w for w in others if w.within and self._hope(w) > self._promise(run, run.expected)]
        rival = max((w for w in hopeful if not self._only_dearer(w, run)), key=self._hope, default=None)
        if rival is None:
            return Certainty("clear", others_dearer=bool(hopeful))
        return Certainty("may be as good", rival)

    def _only_dearer(self, way: WayToRun, run: WayToRun) -> bool:
        """Tell whether a way gives more for more, within the tolerance, where no price says what that is worth."""
        beside = self._against(way, run)
        dearer = beside.net is None and beside.saving is not None and beside.saving < 0
        return dearer and 0 < beside.gain <= self.found.allowed

    def _hope(self, way: WayToRun) -> float:
        return self._promise(way, way.high if self.found.maximise else way.low)

    def _promise(self, way: WayToRun, outcome: float) -> float:
        """Return what ways are ordered by: what an outcome earns, where that is known of them; larger is better."""
        price = self.found.price
        if price is None:
            return self.sign * outcome
        return self.sign * price * outcome - (way.cost or 0.0)

    def _pays_at(self, way: WayToRun, run: WayToRun) -> float | None:
        beside = self._against(way, run)
        if not beside.saving or beside.gain * beside.saving >= 0:
            return None
        return -beside.saving / beside.gain

    def _against(self, one: WayToRun, other: WayToRun) -> Difference:
        gain = round(self.sign * (one.expected - other.expected), self.decimals)
        saving = net = None
        partly = {w.kind for w in (one, other) if w.cost_is == "at least"}
        if one.cost is not None and other.cost is not None and "today" not in partly:
            saving = round(other.cost - one.cost, self.cents) + 0.0
            net = None if one.net is None or other.net is None else round(one.net - other.net, self.cents) + 0.0
        return Difference(other, gain + 0.0, saving, net)

    def _setting(self, option: Option) -> WayToRun:
        cost = option.cost_assumed if option.cost_per_trial is None else option.cost_per_trial
        made = self._way("setting", option, cost, "assumed")
        low, high = (None if v is None else round(v, self.cents) for v in (option.cost_low, option.cost_high))
        return replace(made, trials=option.trials, at_setting=option.tried, cost_low=low, cost_high=high)

    def _reference(self, found: Reference) -> WayToRun:
        kind: Literal["nothing", "today"] = "today" if found.what == "today" else "nothing"
        cost = found.cost_at_least if found.cost_per_trial is None else found.cost_per_trial
        made = self._way(kind, found, cost, "at least")
        return replace(made, trials=found.trials, at_setting=found.trials > 0)

    def _rule(self, rule: Rule) -> WayToRun:
        paid = rule.cost_per_trial
        return self._way("rule", FixedSetting((), {}, rule.expected, rule.low, rule.high, paid), paid, "known")

    def _way(
        self,
        kind: Literal["setting", "rule", "nothing", "today"],
        of: FixedSetting,
        cost: float | None,
        otherwise: Literal["known", "assumed", "at least"],
    ) -> WayToRun:
        """Return a row; `otherwise` is how a cost is known that is not the way's own."""
        expected, low, high = (round(float(v), self.decimals) for v in (of.expected, of.low, of.high))
        known, net = "known" if of.cost_per_trial is not None else otherwise, None
        paid, price = None if cost is None else round(cost, self.cents), self.found.price
        if price is not None and paid is not None and (kind, known) != ("today", "at least"):
            net = round(self.sign * price * expected - paid, self.cents)
        cost_is = "unknown" if paid is None else known
        return WayToRun(kind, of.control_set, of.setpoints, expected, low, high, paid, cost_is, net, kept=of.kept)


def _evident(way: WayToRun) -> bool:
    """Tell whether trials speak for a way: others are no measure of the one that is run."""
    return way.trials is None or way.trials > 0 or way.kind in ("nothing", "today")
