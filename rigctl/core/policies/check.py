"""What every policy must do, tried on small made-up campaigns: `check_policy`."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from rigctl.core.asking import trial_rng, validate
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import Finished, Policy, Proposal
from rigctl.core.experiment.problem import FurtherOutcome, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.errors import PolicyError

SEED = 5
MOST_TRIALS = 60
"""A campaign of the check that goes on longer than this does not heed its budget: it pays for about 30."""


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """Say what was tried, and held."""

    policy: str
    trials: int
    """Decisions made over all campaigns."""
    ended: tuple[str, ...]
    """How each campaign ended, in the policy's own words."""


def check_policy(policy: Policy, *, outcomes: int = 1) -> PolicyReport:
    """Run short campaigns, to maximise and to minimise, with failed trials among them, and check every decision.

    The policy must be a frozen dataclass with a `name`. Of each decision it is checked that it may be played, that it
    names its trial and gives a reason, that a copy, made by value as for another process, decides the same (for a given
    generator), that neither state nor problem is changed, and that the state survives JSON. A campaign must end by
    `Finished` before it has spent more than its budget.

    Raises:
        PolicyError: a promise is broken; says which, and where.
    """
    params = getattr(type(policy), "__dataclass_params__", None)
    if not is_dataclass(policy) or params is None or not params.frozen:
        raise PolicyError(
            f"{type(policy).__name__}: a policy is a frozen dataclass, so that its options are its fields"
        )
    trials, ended = 0, []
    for maximise in (True, False):
        played, how = _campaign(policy, _problem(maximise=maximise, outcomes=outcomes))
        trials += played
        ended.append(how)
    return PolicyReport(policy.name, trials, tuple(ended))


def _campaign(policy: Policy, problem: Problem) -> tuple[int, str]:
    history, state = History(), _kept(policy.initial_state(problem), policy, "initial_state")
    nature = np.random.default_rng(SEED)
    for trial in range(1, MOST_TRIALS + 1):
        try:
            proposal, state = _decision(policy, state, problem, history, trial)
        except Finished as end:
            return trial - 1, str(end)
        observation = _played(problem, proposal, nature, failed=trial % 9 == 8)
        if history.spent + observation.cost > problem.budget:
            raise PolicyError(f"{policy.name}: trial {trial} costs more than is left of the budget")
        history = history.append(observation)
    raise PolicyError(f"{policy.name}: {MOST_TRIALS} trials on a budget for 30; raise BudgetSpent when nothing fits")


def _copy(policy: Policy) -> Policy:
    """Copy by value, as a campaign hands it to the process that decides."""
    try:
        copy: Policy = pickle.loads(pickle.dumps(policy))  # noqa: S301 - what was just made of it
    except Exception as error:
        raise PolicyError(
            f"{policy.name}: cannot be handed to another process by value ({type(error).__name__}: {error}); "
            "its class must stand in a module, and its fields be plain values"
        ) from error
    return copy


def _decision(
    policy: Policy, state: Mapping[str, Any], problem: Problem, history: History, trial: int
) -> tuple[Proposal, Mapping[str, Any]]:
    where = f"{policy.name}: trial {trial}"
    before = json.dumps(state)
    proposal, after = policy.propose(state, problem, history, trial_rng(SEED, trial))
    again, after_again = _copy(policy).propose(json.loads(before), problem, history, trial_rng(SEED, trial))
    if json.dumps(state) != before:
        raise PolicyError(f"{where}: the state it was given has changed; return a new one")
    if proposal != again or json.dumps(_kept(after, policy, where)) != json.dumps(_kept(after_again, policy, where)):
        raise PolicyError(f"{where}: asked twice, it answers differently; use the generator it is given, and only that")
    wrong = list(validate(proposal, problem))
    if proposal.trial != trial:
        wrong.append(f"it is called trial {proposal.trial}")
    if proposal.policy != policy.name:
        wrong.append(f"it is said to come from {proposal.policy!r}")
    wrong += [f"it has no {field}" for field in ("phase", "reason") if not getattr(proposal, field)]
    if wrong:
        raise PolicyError(f"{where}: {'; '.join(wrong)}")
    return proposal, _kept(after, policy, where)


def _kept(state: Mapping[str, Any], policy: Policy, where: str) -> Mapping[str, Any]:
    """Return the state as the journal will give it back."""
    try:
        kept: Mapping[str, Any] = json.loads(json.dumps(dict(state), allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise PolicyError(f"{policy.name}: {where}: the state is not JSON: {problem}") from problem
    return kept


def _problem(*, maximise: bool, outcomes: int) -> Problem:
    """Make up two variables and three control sets; whole units of cost, so that nothing rounds."""
    variables = [Variable(name, "", 0.0, 10.0, Uniform()) for name in ("a", "b")]
    space = Space.of(variables, [["a"], ["b"], ["a", "b"]])
    further = tuple(FurtherOutcome(f"outcome {k}", maximise=maximise) for k in range(2, outcomes + 1))
    return replace(Problem(space, to_micros(40), maximise=maximise), further=further)


def _played(problem: Problem, proposal: Proposal, nature: np.random.Generator, *, failed: bool) -> Observation:
    """Return what a rig would record: chosen values where controlled, any where not."""
    indices = problem.space.control_sets[proposal.control_set].indices
    x = nature.random(problem.space.dimension)
    x[list(indices)] = proposal.setting
    cost = to_micros(len(indices))
    if failed:
        return Observation(proposal.trial, proposal.control_set, None, None, cost)
    hills = [np.exp(-4 * np.square(x - top).sum()) for top in np.linspace(0.3, 0.8, 1 + len(problem.further))]
    first, *rest = (float(hill) if problem.maximise else -float(hill) for hill in hills)
    return Observation(proposal.trial, proposal.control_set, tuple(map(float, x)), first, cost, further=tuple(rest))
