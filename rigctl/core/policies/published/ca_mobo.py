"""Several outcomes at once, with an order of what is dear to use (algorithms, section 4.5).

Abdolshah, Shilton, Rana, Gupta, Venkatesh: Cost-aware Multi-objective Bayesian Optimisation, AAAI 2020 (CA-MOBO,
Algorithm 1 and eq. 9); without the order: Paria, Kandasamy, Poczos: A Flexible Multi-Objective Bayesian Optimization
Approach using Random Scalarizations, UAI 2019 (MO-UCB, eq. 7). Every trial draws weights of the outcomes, and looks for
the setting whose worst weighted upper bound is best; so the trials spread along the Pareto front.

Control sets are compared by the largest acquisition of each, among those that fit the remaining budget. The order of
costs says nothing of money: metered costs decide only whether a trial fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, pi, sqrt
from typing import Literal

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, outlook_of, sobol_seed_of
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import Fitted, fit_further
from rigctl.core.multi_objective.scalarise import CostPreference, Scalarised, Sorting, TradeOff, best_trade_offs
from rigctl.core.multi_objective.trade_off import outcome_values, reference_of, signs
from rigctl.errors import PolicyError
from rigctl.flaws import Flaw, require
from rigctl.text import plus_minus, shown_unit

PER_VARIABLE = 10
"""Values told apart of each variable where the number of settings is not given: a continuous domain has no |X|."""

Units = Literal["range", "own"]
"""What an outcome's distance from the reference is counted in before it is weighed: the range of that outcome so far,
so that units do not matter; or its own units, where the outcome with the smaller numbers is nearly always the worst."""


@dataclass(frozen=True, slots=True)
class Width:
    """Say how optimistic the upper bounds are: mu + sqrt(beta_t) s."""

    beta: float | None = None
    """A constant beta_t; None: 2 ln(t^2 |X| / sqrt(2 pi)) (Theorem 1), which grows with the number t of the trial."""
    settings: float | None = None
    """|X|, how many settings can be told apart; None: 10 to the power of the number of variables."""

    def __post_init__(self) -> None:
        beta, settings = self.beta, self.settings
        require(beta is None or 0 < beta < inf, beta, "must be finite and > 0", where="width.beta")
        allowed = "must be finite and >= 3, or beta_1 is negative"
        require(settings is None or 3 <= settings < inf, settings, allowed, where="width.settings")

    def at(self, t: int, dimension: int) -> float:
        """Return sqrt(beta_t) in trial t >= 1 of a problem of so many variables."""
        if self.beta is not None:
            return sqrt(self.beta)
        count = float(PER_VARIABLE**dimension) if self.settings is None else self.settings
        return sqrt(2 * log(t**2 * count / sqrt(2 * pi)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MoUcb(Policy):
    """Play the policy `mo-ucb` (eq. 7); its fields are its options."""

    name = "mo-ucb"

    width: Width = Width()
    units: Units = "range"
    """An outcome is weighed in units of its `range` so far, or in its `own`."""

    def mistakes(self, problem: Problem) -> Sequence[tuple[str, Flaw | str]]:
        """Return what of the problem does not fit, by configuration key."""
        if problem.stop_worth is not None:
            lead = f", which is of the first outcome, but policy {self.name} weighs several"
            return [("stop.worth", Flaw(lead, remedy="remove it, or use another policy"))]
        if problem.further:
            return []
        lead = f", but policy {self.name} weighs several"
        return [("further_outcomes", Flaw(lead, remedy="add them, or use another policy", got="none"))]

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Propose the next trial, and say what went wrong in any outcome's fit.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
            PolicyError: the problem has one outcome only, or something else that does not fit (`mistakes`).
        """
        mistakes = self.mistakes(problem)
        if mistakes:
            raise PolicyError(f"{self.name}: " + "; ".join(f"{key}: {what}" for key, what in mistakes))
        preference = self._preference(problem, history, rng)
        outlook = outlook_of(problem, history, state, rng)
        fits = fit_further(problem, history, state.get("further", ()))
        sobol_seed = sobol_seed_of(state, rng)
        choice = _Turn(self, outlook, fits, preference).choice(rng)
        proposal = outlook.proposal(self.name, choice, sobol_seed)
        named = [(outcome.name, fitted) for outcome, fitted in zip(problem.further, fits, strict=True)]
        notes = [f"{name}: {note}" for name, fitted in named for note in fitted.posterior.notes]
        further = [{"name": name, **fitted.to_state()} for name, fitted in named]
        kept = {**outlook.to_state(), "further": further, "sobol_seed": sobol_seed}
        return replace(proposal, notes=(*proposal.notes, *notes)), kept

    def _preference(
        self,
        problem: Problem,  # noqa: ARG002 - `CaMobo` has one
        history: History,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> CostPreference | None:
        return None


@dataclass(frozen=True, slots=True)
class CaMobo(MoUcb):
    """Play the policy `ca-mobo` (Algorithm 1, eq. 9); its fields are its options."""

    name = "ca-mobo"

    order: tuple[str, ...]
    """Variables that are dear to use, dearest first; those not named cost nothing. Large values are taken to be the
    dear ones; `-name` means the small ones (acid, where the variable is pH)."""
    sorted: Sorting = "ours"
    """Whether the dearest variable gets the smallest weight (`ours`) or the largest, as printed (`paper`)."""

    def __post_init__(self) -> None:
        names = [_variable(entry) for entry in self.order]
        known = names and len(set(names)) == len(names)
        require(known, list(self.order), "must name variables, dearest first, each once", where="order")

    def mistakes(self, problem: Problem) -> Sequence[tuple[str, Flaw | str]]:
        """Return what of the problem does not fit, by configuration key."""
        known = problem.space.names
        unknown = [entry for entry in self.order if _variable(entry) not in known]
        flaw = Flaw("", f"must be among {', '.join(known)}", got=", ".join(unknown))
        wrong = [("policy.order", flaw)] if unknown else []
        # super() would look for the class that slots=True has replaced
        return [*MoUcb.mistakes(self, problem), *wrong]

    def _preference(self, problem: Problem, history: History, rng: np.random.Generator) -> CostPreference:
        columns = [problem.space.names.index(_variable(entry)) for entry in self.order]
        falling = [entry.startswith("-") for entry in self.order]
        return CostPreference.drawn(columns, falling, _number(history), self.sorted, rng)


def _variable(entry: str) -> str:
    return entry.removeprefix("-")


def _number(history: History) -> int:
    """Return t: which trial this is, not counting points known beforehand."""
    return 1 + sum(o.control_set >= 0 for o in history.observations)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Turn once through Algorithm 1's loop; without a preference that of MO-UCB."""

    policy: MoUcb
    outlook: Outlook
    further: Sequence[Fitted]
    preference: CostPreference | None

    def choice(self, rng: np.random.Generator) -> Choice:
        """Choose the best acquisition among the sets that fit; Sobol points while models lack data.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        fitting, history = self.outlook.fitting(), self.outlook.history
        if self.outlook.too_few_outcomes:
            chosen = min(fitting, key=lambda i: (history.trials_of(i), i))
            return Choice(chosen, "explore", f"{self.outlook.label(chosen)} has had the fewest trials", fitting)
        weights = rng.dirichlet(np.ones(len(self.further) + 1))
        acquisition = self._acquisition(weights)
        best = best_trade_offs(acquisition, rng)
        compared = {i: best[i].setting for i in fitting}
        affordable = self.outlook.affordable(compared).items()
        each = (best[i] if at == best[i].setting else acquisition.at(i, at) for i, at in affordable)
        found = max(each, key=lambda f: f.score)
        label = self.outlook.label(found.control_set)
        return Choice(
            found.control_set,
            "trade-off",
            f"outcomes count {_shares(weights)} in this trial, and {label} then has the best prospects",
            fitting,
            setting=found.setting,
            technical=self._reason(found, weights),
            compared=compared,
        )

    def _acquisition(self, weights: FloatArray) -> Scalarised:
        """Weigh outcomes from a reference below the worst seen, else Q would be negative somewhere."""
        problem, history = self.outlook.problem, self.outlook.history
        reference, seen = reference_of(problem, history), outcome_values(problem, history)
        ranged = self.policy.units == "range" and len(seen) > 0
        return Scalarised(
            problem.space,
            tuple(Expectations.of(f.posterior, problem.space) for f in (self.outlook.fitted, *self.further)),
            weights=weights,
            reference=reference,
            scale=_ranges(seen, reference) if ranged else np.ones_like(reference),
            width=self.policy.width.at(_number(history), problem.space.dimension),
            preference=self.preference,
        )

    def _reason(self, found: TradeOff, weights: FloatArray) -> str:
        problem = self.outlook.problem
        names = ("the outcome", *(f.name for f in problem.further))
        units = ("", *(shown_unit(f.unit) for f in problem.further))
        parts = [
            f"{name} (weight {weight:.2f}, expected {plus_minus(mean, sd)} {unit}".rstrip() + ")"
            for name, weight, mean, sd, unit in zip(
                names, weights, signs(problem) * np.array(found.means), found.sds, units, strict=True
            )
        ]
        label = self.outlook.label(found.control_set)
        reason = f"trading {' against '.join(parts)}; {label} has the best prospects"
        return reason if self.preference is None else f"{reason}, of which the order of costs leaves {found.kept:.0%}"


def _shares(weights: FloatArray) -> str:
    """Return `60 : 40`, per cent."""
    return " : ".join(f"{100 * w:.0f}" for w in weights)


def _ranges(seen: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the ranges from the reference to the best of the values seen (n, K), (K,).

    Where nothing better than a declared floor was seen there is none yet: then the floor's size, or 1.
    """
    ranges, size = seen.max(axis=0) - reference, np.abs(seen).max(axis=0)
    return np.where(ranges > 0, ranges, np.where(size > 0, size, 1.0))
