"""A small problem of three variables, and campaigns of every installed policy on it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rigctl import FurtherOutcome, History, Observation, Problem, Proposal, Space, Variable, play
from rigctl.core.experiment.marginals.conditional import natural_marginal
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.natural import present
from rigctl.policies import Policy, policy_class

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "ca-mobo": {"order": ("a", "b")},
    "ts-psq": {"features": 64},
    "ei-psq": {"fantasies": 8},
}
POLICIES = (
    "arm-per-scope", "ca-mobo", "ei", "ei-psq", "eipc", "explore-then-commit", "likely-maximisers", "mo-ucb", "pbgi",
    "pbgi-d", "random", "sadcbo", "ts-psq", "ucb-cvs", "ucb-cvs-etc", "ucb-psq", "value-per-cost",
)  # fmt: skip
USUAL_FIRST = sorted(POLICIES, key=lambda name: name not in ("likely-maximisers", "explore-then-commit", "ca-mobo"))
SEVERAL = ("ca-mobo", "mo-ucb")
SETPOINTS, TAP = (5.5, 6.5), (7.2, 8.4)
WATER = natural_marginal("truncated_normal", {"mean": 7.8, "sd": 0.2}, SETPOINTS, TAP)
SETS = (("a",), ("b", "c"), ("a", "b", "c"))


def policy_of(name: str) -> Policy:
    made: Policy = policy_class(name)(**OPTIONS.get(name, {}))
    return made


def problem_of(variables: tuple[Variable, ...], name: str, budget: float = 40.0) -> Problem:
    further = (FurtherOutcome("yield"),) if name in SEVERAL else ()
    return Problem(Space.of(variables, SETS), to_micros(budget), further=further)


def trial_of(problem: Problem, proposal: Proposal, nature: np.random.Generator) -> Observation:
    """Play it: what is controlled is where it was sent, all else is where nature puts it."""
    space = problem.space
    concrete = present(problem, History())[0].space
    x = np.array([float(v.marginal.quantile(nature.random(1))[0]) for v in concrete.variables])
    indices = space.control_sets[proposal.control_set].indices
    x[list(indices)] = proposal.setting
    tops = np.linspace(0.35, 0.8, 1 + len(problem.further))
    first, *rest = (float(np.exp(-0.5 * np.square(x - top).sum())) for top in tops)
    cost = to_micros(len(indices))
    return Observation(proposal.trial, proposal.control_set, tuple(map(float, x)), first, cost, further=tuple(rest))


def campaign(name: str, problem: Problem, trials: int, seed: int = 3) -> tuple[list[Proposal], History]:
    nature = np.random.default_rng(seed)
    played = play(policy_of(name), problem, lambda proposal: trial_of(problem, proposal, nature), seed, most=trials)
    return [decided.proposal for decided in played.decisions], played.history


def controlled(problem: Problem, proposal: Proposal) -> Mapping[str, float]:
    return problem.space.setpoints(proposal.control_set, proposal.setting)


def left_alone(problem: Problem) -> Problem:
    return replace(problem, budget=to_micros(10_000))
