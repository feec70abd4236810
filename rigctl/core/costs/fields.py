"""What every setting of every control set is believed to cost, whichever way costs are known or learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rigctl.core.costs.beliefs import CostBelief, believe
from rigctl.core.costs.process import LEAST, CostProcess, cost_process
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.memo import Memo
from rigctl.core.experiment.money import Micros, to_micros, to_units
from rigctl.core.experiment.problem import CostField, Problem


@dataclass(frozen=True, slots=True, eq=False)
class BelievedCosts:
    """Believe in a mean per control set or, where the setpoints matter, a process. Settings are (b, k), unit cube."""

    means: tuple[float, ...]
    """(m,), currency units, always positive."""
    uppers: tuple[Micros, ...]
    """(m,), what the next trial is predicted to cost at most; see `CostBelief.upper`."""
    processes: Mapping[int, CostProcess] = field(default_factory=dict)
    """By control set."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return expected cost of a trial of this set at each setting, currency units, (b,)."""
        process = self.processes.get(control_set)
        return np.full(len(settings), self.means[control_set]) if process is None else process.mean(settings)

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return the derivative of `mean` by the setting, (b, k)."""
        process = self.processes.get(control_set)
        return np.zeros(np.shape(settings)) if process is None else process.gradient(settings)

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return what a trial is predicted to cost at most, currency units, (b,)."""
        process = self.processes.get(control_set)
        if process is not None:
            return process.upper(settings)
        return np.full(len(settings), to_units(self.uppers[control_set]))


def cost_field(problem: Problem, history: History, known: Sequence[CostBelief] = ()) -> CostField:
    """Return what is believed of costs now: the known field, else known costs per set, else what the meters say.

    A control set that was never metered is believed to cost what the cheapest one does: one trial corrects that, while
    a set believed too dear might never be tried. Before anything was metered all cost the same: the ceiling if there is
    one, else 1. Affordability does not rely on this: `upper` is what its variables suggest (`parts`).

    With `cost_model: per-setting` a control set has a log-normal process as soon as there are trials enough whose
    settings and costs are both known, and costs vary. `known`: beliefs of this history, if somebody has them.
    """
    if problem.known_cost_field is not None:
        return problem.known_cost_field
    beliefs = known or believe(problem, history, "empirical-bernstein")
    metered = [b.mean for b in beliefs if b.mean is not None]
    untried = min(metered, default=problem.cost_ceiling or 1.0)
    means = tuple(max(LEAST, untried if b.mean is None else b.mean) for b in beliefs)
    learned = problem.cost_model == "per-setting" and problem.known_costs is None
    return BelievedCosts(means, tuple(b.upper for b in beliefs), _processes(problem, history) if learned else {})


def predicted_upper(
    problem: Problem, history: History, control_set: int, setting: Sequence[float], known: CostField | None = None
) -> Micros:
    """Return what a trial of this set at this setting (k,), unit cube, is predicted to cost at most.

    Exact where costs never vary, so that a trial which costs exactly what is left still runs.

    Args:
        problem: with its cost model.
        history: all trials.
        control_set: which.
        setting: where.
        known: the field of this decision, if there is one already.
    """
    believed = cost_field(problem, history) if known is None else known
    return to_micros(float(believed.upper(control_set, np.array([setting], dtype=float))[0]))


def _processes(problem: Problem, history: History) -> dict[int, CostProcess]:
    metered: dict[int, list[Observation]] = {}
    for o in history.observations:
        if o.cost_known and o.x is not None and o.control_set >= 0:
            metered.setdefault(o.control_set, []).append(o)
    memos: Mapping[int, Memo] = history.memo.get("cost processes") or {}
    kept = {number: memos.get(number) or Memo() for number in metered}
    found = {}
    for number, trials in metered.items():
        settings = np.array([o.x for o in trials], dtype=float)[:, list(problem.space.control_sets[number].indices)]
        costs = np.array([to_units(o.cost) for o in trials])
        process = cost_process(settings, costs, kept[number])
        if process is not None:
            found[number] = process
    history.memo.keep("cost processes", kept)
    return found
