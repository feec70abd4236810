"""What the policy remembers of trials that a person did: as if it had been asked before each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rigctl.campaign.decide import Question, decide
from rigctl.config.load import LoadedConfig
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import JsonState
from rigctl.core.policy import Finished

MOST_ROWS = 200
"""Longer lists leave the memory as it was: every row costs a decision, some 10 to 50 ms."""


def memories(
    loaded: LoadedConfig, known: History, state: JsonState | None, rows: Sequence[Observation]
) -> Iterator[JsonState | None]:
    """Per row, what the policy remembers after it; None: what it did before.

    A row moves the memory on if its control set is what the policy proposes for that trial. Otherwise a person has
    decided, and the policy took no part.

    Args:
        loaded: policy, problem and seed.
        known: the trials before the rows.
        state: the policy's memory after them; None: it has none.
        rows: trials in order.
    """
    long = len(rows) > MOST_ROWS
    for row in rows:
        after = None if long else _after(loaded, known, state, row.control_set)
        yield after
        state = after or state
        known = known.append(row)


def memory(loaded: LoadedConfig, history: History) -> JsonState | None:
    """What the policy remembers of a history that somebody else kept; None: nothing."""
    states = [s for s in memories(loaded, History(), None, history.observations) if s is not None]
    return states[-1] if states else None


def _after(loaded: LoadedConfig, known: History, state: JsonState | None, control_set: int) -> JsonState | None:
    try:
        decision = decide(Question(loaded.policy, loaded.problem, loaded.seed, known, state))
    except Finished:  # a person may go on all the same
        return None
    proposed = decision.control_set == loaded.problem.space.control_sets[control_set].names
    return decision.policy_state if proposed else None
