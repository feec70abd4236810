"""What a policy is, what it is given, and what it answers.

A policy is a pure function: `propose(state, problem, history, rng) -> (Proposal, state')`. Its state is JSON, is
committed together with the proposal, and is all it remembers; so a decision can be recomputed from the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rigctl.core.experiment.history import History
from rigctl.core.experiment.persistence import ReadBefore
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.flaws import Flaw

PRODUCTION = "operate"
"""The key of a policy's state under which production keeps what it runs. A campaign that goes on drops it."""


@dataclass(frozen=True, slots=True)
class SetReport:
    """Say what a decision believed about one control set, at one setting. Own units of the outcome; currency."""

    control_set: tuple[str, ...]
    at: Mapping[str, float]
    """The setting that all else is about, engineering units: of the chosen set the one proposed, of the others the one
    they were compared at."""
    mean: float | None
    """Posterior mean of the value there. None, as all three below, while no outcome says what their unit is."""
    sd: float | None
    """Posterior spread there: of the value itself (integrated) or E[sigma] (pointwise)."""
    lower: float | None
    """Cautious end, `beta` spreads on the worse side of the mean."""
    upper: float | None
    """Hopeful end, `beta` spreads on the better side: numerically the lower one where less is better."""
    cost_mean: float | None
    """Of a trial: mean of what was metered, of this setting where costs depend on it; None: never metered."""
    cost_lcb: float
    """Lower confidence bound of the mean; 0 while little is known."""
    trials: int
    eligible: bool
    """Whether the set was in the running."""
    ruled_out: str = ""
    """Why it could not be chosen, in words; empty if it could."""
    spent: float = 0.0
    """What all its trials were charged."""
    best_lower: float | None = None
    """The best cautious end that any of its settings has; thresholds come from these. None as `mean`, or not sought."""
    best_lower_at: Mapping[str, float] = field(default_factory=dict)
    """That setting, engineering units."""

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        control_set: int,
        setting: Sequence[float],
        believed: tuple[float, float] | None,
        **more: Any,
    ) -> SetReport:
        """Report a setting (k,), unit cube, of which mean and spread are `believed`, as a value (larger is better)."""
        s, space = sign(problem), problem.space
        mean, sd = believed or (None, None)
        wide = None if sd is None else problem.model.beta * sd
        return cls(
            control_set=space.control_sets[control_set].names,
            at=space.setpoints(control_set, setting),
            mean=None if mean is None else s * mean,
            sd=sd,
            lower=None if mean is None or wide is None else s * (mean - wide),
            upper=None if mean is None or wide is None else s * (mean + wide),
            trials=history.trials_of(control_set),
            **more,
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """Say what to do in the next trial, and why."""

    trial: int
    policy: str
    phase: str
    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube: values of the chosen set's variables."""
    reason: str
    """For whoever runs the rig: plain sentences of at most 20 words, without the last full stop."""
    sets: tuple[SetReport, ...] = ()
    threshold: float | None = None
    """What a set's hopeful end must exceed to stay eligible, outcome units."""
    predicted_cost: float | None = None
    """Upper prediction of this trial's cost, currency units; None before anything is known of costs."""
    cost_known: bool = True
    """Whether its control set has been tried, or costs are told; else `predicted_cost` is an assumption."""
    assumed_cost: float | None = None
    """What the trial is assumed to cost where that is not known, currency units; None: nothing says."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way and was done instead, e.g. a fit that failed (fault 49)."""
    technical: str = ""
    """The reason in the terms of the policy's paper; empty where `reason` is all there is to say."""
    read: tuple[ReadBefore, ...] = ()
    """What the variables read before the decision, and what is expected of them; nothing where nobody looked."""


class Finished(Exception):
    """Says why the policy proposes nothing more. Not an error: the campaign ends and recommends."""


class NotWorthIt(Finished):
    """Says that no trial is expected to be worth its cost: the policy's own stopping rule fired."""


class BudgetSpent(Finished):
    """Says which control set was the cheapest, where none fits the remaining budget any more."""


class Policy(Protocol):
    """Chooses the next control set and setting.

    It is a frozen dataclass whose fields are its options; where one is out of its range, making it raises ValueError.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Return what it is called."""
        ...

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002 - most remember nothing yet
        """Return the state before the first trial; who inherits this has none."""
        return {}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Return the next trial, and the state to commit with it.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
            NotWorthIt: its stopping rule fired.
            PolicyError: the policy cannot decide.
        """
        ...


@runtime_checkable
class Particular(Protocol):
    """Says why a policy does not fit a problem: a configuration is refused with its reasons."""

    def mistakes(self, problem: Problem) -> Sequence[tuple[str, Flaw | str]]:
        """Return what does not fit, as (dotted configuration key, what is wrong with it); empty if it fits."""
        ...


def mistakes_of(policy: Policy, problem: Problem) -> Sequence[tuple[str, Flaw | str]]:
    """Return what of a problem does not fit a policy, as `Particular.mistakes` does; empty if it fits.

    A policy keeps limits of further outcomes if it says so: by an attribute `keeps_limits` that is true.
    """
    wrong = list(policy.mistakes(problem)) if isinstance(policy, Particular) else []
    if not problem.limited:
        return wrong
    limited = next(f.name for f in problem.further if f.limited)
    if not getattr(policy, "keeps_limits", False):
        lead = f", which has a limit, but policy {policy.name} keeps none"
        wrong.append(("further_outcomes", Flaw(lead, remedy="remove the limit, or use another policy", got=limited)))
    others = {"trial.look": problem.looks, "stop.worth": problem.stop_worth is not None}
    for key in (key for key, there in others.items() if there):
        wrong.append((key, Flaw(f"heeds no limit, but {limited} has one", remedy="remove one of them")))
    return wrong


UNCHANGED = "unchanged"
"""The phase of what a steadfast policy keeps to."""


@runtime_checkable
class Steadfast(Protocol):
    """Says itself what is played where it cannot decide: nothing is ever tried in its place."""

    def otherwise(self, state: JsonState | None, problem: Problem, history: History, why: str) -> Proposal:
        """Return what is played, as its state says; asks no model, so that this cannot fail as a decision may.

        Args:
            state: after its last decision; None: there was none.
            problem: with what cannot be played now, and what was read.
            history: all trials, or the end of them.
            why: the reason for which it has not decided.

        Raises:
            NotWorthIt: nothing that it keeps to can be played now.
            PolicyError: it has not decided what to keep to.
        """
        ...
