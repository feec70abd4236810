"""The one answer to "what do I run from now on": which way, why, how sure that is, and what to try next.

Numbers are rounded once, to what is shown, and differences are those of rounded numbers: who checks a reason against
the table finds them. Outcomes are in their own units, money in currency units a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rigctl.core.advice.recommend import Option, Recommendation
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.worth import FixedSetting, Reference
from rigctl.text import decimals_for

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
    cost_low: float | None
    """Lower end of the 95 % interval of the mean cost; None: no trial told."""
    cost_high: float | None
    net: float | None
    """What the outcome is worth less what the trial costs; None: one of them is not known."""
    trials: int | None
    """That controlled just these variables; None for the rule, which has several control sets."""
    at_setting: bool
    """Whether a trial was at this setting, whatever it controlled."""


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

    kind: Literal["clear", "may be as good", "one trial", "never at this setting", "try next"]
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
        named = [d.other for d in (self.why, self.try_next) if d is not None]
        named += [] if self.certainty.rival is None else [self.certainty.rival]
        kept = [self.run, *named, *(w for w in self.ways if w.kind != "setting"), *self.ways][: max(most, 1)]
        return tuple(w for w in self.ways if w in kept or w in named)


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
        others.sort(key=lambda w: self._promise(w, w.expected), reverse=True)
        against = [self._against(run, w) for w in others]
        more = [self._against(w, run) for w in others]
        tried = [d for d, m in zip(against, more, strict=True) if not m.promises_more and _evident(d.other)]
        own = [d for d in tried if d.other.kind in ("rule", "setting")] or tried
        if run.kind == "rule" and self.found.price is None:  # what it is chosen instead of
            own = [d for d in own if d.other.control_set == self.found.choice.control_set] or own
        own = [d for d in own if d.net is not None or d.gain >= -self.found.allowed] or own
        bold = None if self.found.promising is None else self.found.promising.control_set
        promising = [replace(m, other=w) for m, w in zip(more, others, strict=True) if m.promises_more]
        promising += [replace(m, other=w) for m, w in zip(more, others, strict=True) if w.control_set == bold]
        better = next(iter(promising), None)
        return Answer(
            ways=(run, *others),
            why=own[0] if own else None,
            certainty=self._certainty(run, others, better),
            try_next=better,
            price=self.found.price,
            maximise=self.found.maximise,
            decimals=self.decimals,
            cents=self.cents,
        )

    def _chosen(self) -> list[WayToRun]:
        """Return all ways, the one to run first."""
        found = self.found
        choice, *rest = (self._setting(o) for o in (found.choice, *found.alternatives))
        rest += [self._reference(r) for r in found.worth.references if r.what != "everything"]
        if found.rule is None or not found.rule.follows:
            return [choice, *rest]
        rule = self._rule(found.rule)
        beside = self._against(rule, choice)
        if beside.net is not None:
            better = beside.net > 0
        elif beside.saving is None:
            better = beside.gain > 0
        else:  # the cheaper one, if it is good enough
            better = beside.gain >= -found.allowed if beside.saving >= 0 else beside.gain > found.allowed
        return [rule, choice, *rest] if better else [choice, rule, *rest]

    def _certainty(self, run: WayToRun, others: list[WayToRun], better: Difference | None) -> Certainty:
        alone = next((d for d in self.found.doubts if d.counted and d.control_set is not None), None)
        if run.kind == "setting" and alone is not None:
            return Certainty("one trial", trial=alone.trial)
        if better is not None:
            return Certainty("try next")
        if run.kind == "setting" and not (run.at_setting and run.trials):
            return Certainty("never at this setting")
        hopeful = [w for w in others if self._hope(w) > self._promise(run, run.expected)]
        may = [w for w in hopeful if not self._only_dearer(w, run)]
        rival = max(may, key=self._hope, default=None)
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

    def _against(self, one: WayToRun, other: WayToRun) -> Difference:
        gain = round(self.sign * (one.expected - other.expected), self.decimals)
        saving = net = None
        if one.cost is not None and other.cost is not None and "today" not in _partly_known(one, other):
            saving = round(other.cost - one.cost, self.cents) + 0.0
            net = None if one.net is None or other.net is None else round(one.net - other.net, self.cents) + 0.0
        return Difference(other, gain + 0.0, saving, net)

    def _setting(self, option: Option) -> WayToRun:
        known = option.cost_per_trial is not None
        cost = option.cost_per_trial if known else option.cost_assumed
        made = self._way("setting", option, cost, "known" if known else "assumed")
        ends = (None if v is None else round(v, self.cents) for v in (option.cost_low, option.cost_high))
        low, high = ends
        return replace(made, cost_low=low, cost_high=high, trials=option.trials, at_setting=option.tried)

    def _reference(self, found: Reference) -> WayToRun:
        known = found.cost_per_trial is not None
        cost = found.cost_per_trial if known else found.cost_at_least
        kind: Literal["nothing", "today"] = "today" if found.what == "today" else "nothing"
        made = self._way(kind, found, cost, "known" if known else "at least")
        return replace(made, trials=found.trials, at_setting=found.trials > 0)

    def _rule(self, rule: Rule) -> WayToRun:
        none = FixedSetting((), {}, rule.expected, rule.low, rule.high, rule.cost_per_trial)
        return self._way("rule", none, rule.cost_per_trial, "known")

    def _way(
        self,
        kind: Literal["setting", "rule", "nothing", "today"],
        of: FixedSetting,
        cost: float | None,
        cost_is: Literal["known", "assumed", "at least"],
    ) -> WayToRun:
        expected, low, high = (round(v, self.decimals) for v in (of.expected, of.low, of.high))
        paid = None if cost is None else round(cost, self.cents)
        price = self.found.price
        net = None if price is None or paid is None else round(self.sign * price * expected - paid, self.cents)
        return WayToRun(
            kind,
            of.control_set,
            of.setpoints,
            expected,
            low,
            high,
            paid,
            "unknown" if paid is None else cost_is,
            None,
            None,
            net,
            None,
            at_setting=True,
        )


def _partly_known(*ways: WayToRun) -> set[str]:
    """Return the kinds of ways whose cost is known in part; that of controlling nothing is no more than any other."""
    return {w.kind for w in ways if w.cost_is == "at least"}


def _evident(way: WayToRun) -> bool:
    """Tell whether trials speak for a way: others are no measure of the one that is run."""
    return way.trials is None or way.trials > 0 or way.kind in ("nothing", "today")
