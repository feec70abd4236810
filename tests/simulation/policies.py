"""A policy that costs nothing, for runs in which what is decided does not matter."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.decider import Decider
from rigctl.campaign.trial import Decision
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import BudgetSpent, NotWorthIt, Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.errors import NoAnswer

CHOOSY: Final = 0.2
LONGEST_S: Final = 60.0
"""Production waits longer for a decision than most lives last here."""


@dataclass(frozen=True)
class Wander:
    """Any control set, anywhere in its range, as long as there is money."""

    choosy: bool = False
    """Whether it now and then proposes nothing while some cannot be played."""
    name: str = "wander"

    def initial_state(self, _problem: Problem) -> JsonState:
        return {"asked": 0}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        if problem.budget <= history.spent:
            raise BudgetSpent("nothing is left")
        playable = [i for i in range(len(problem.space.control_sets)) if i not in problem.unavailable]
        if not playable:
            raise NotWorthIt("nothing can be played")
        if self.choosy and problem.unavailable and rng.random() < CHOOSY:
            raise NotWorthIt("what is left is not worth it")
        chosen = playable[int(rng.integers(len(playable)))]
        dimension = len(problem.space.control_sets[chosen].indices)
        setting = problem.space.evenly(chosen, [float(u) for u in rng.random(dimension)])
        asked: Any = state["asked"]
        return Proposal(len(history) + 1, self.name, "wander", chosen, setting, "why not"), {"asked": asked + 1}


class HereDecider(Decider):
    """Decides in this process; a real one is a process of its own, which has no place in virtual time.

    Args:
        silent: tells, for each question, whether no answer comes.
    """

    def __init__(self, silent: Callable[[], bool]) -> None:
        self._silent = silent

    async def start(self, policy: Policy, problem: Problem) -> None:
        """Nothing has to be got ready."""

    async def decide(self, question: Question, limit_s: float) -> Decision:
        if self._silent():
            waits_s = min(limit_s, LONGEST_S)
            await asyncio.sleep(waits_s)
            raise NoAnswer(f"no decision within {waits_s:g} s")
        return decide(question)

    async def close(self) -> None:
        """Nothing has to be ended."""
