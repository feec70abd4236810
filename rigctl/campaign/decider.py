"""Who is asked for decisions."""

from __future__ import annotations

from typing import Protocol

from rigctl.campaign.decide import Question
from rigctl.campaign.decision import Decision
from rigctl.core.experiment.problem import Problem
from rigctl.core.policy import Policy


class Decider(Protocol):
    """Answers one question at a time."""

    async def start(self, policy: Policy, problem: Problem) -> None:
        """Begin to get ready for questions about these; does not wait until that is so.

        Raises:
            PolicyError: they cannot be handed on.
        """
        ...

    async def decide(self, question: Question, limit_s: float) -> Decision:
        """See `decide.decide`.

        Raises:
            NoAnswer: it took longer than the limit, or whoever was to answer has ended.
            PolicyError: the policy cannot be asked at all.
            BudgetSpent: nothing fits the remaining budget.
            Finished: the policy's own stopping rule fired.
        """
        ...

    async def close(self) -> None:
        """End what decides, whatever it is at."""
        ...
