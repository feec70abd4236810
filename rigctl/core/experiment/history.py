"""What has been observed so far: frozen, appended to by returning a new one.

With it goes a memo: work left over from one decision that can save time in the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.money import Micros, to_units

MOST_ENTRIES = 5
"""Older ones are forgotten: a factor of 1000 trials takes 8 MB."""


class Memo:
    """Hand a few intermediate results on from a history to the longer ones made from it.

    Not part of what is known: an entry is a value that would come out the same, bit for bit, if it were computed anew,
    and whoever reads one checks that it belongs to the data at hand. So decisions stay pure functions, and `replay`
    in another process agrees. Never compared, never written down: a copy or a pickle is empty.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any | None:
        return self._entries.get(key)

    def keep(self, key: Hashable, value: Any) -> None:
        """Remember this, in place of what had the same key; the oldest entries make room.

        One dictionary operation at a time, so a late decision in a thread left behind does no harm.
        """
        self._entries.pop(key, None)
        self._entries[key] = value
        for oldest in list(self._entries)[:-MOST_ENTRIES]:
            self._entries.pop(oldest, None)

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()


BEFOREHAND = -1
"""The control set of a point that was known beforehand, chosen in every variable; or of none that there is."""
ALONE = -2
"""The control set of a trial in which nothing was controlled."""


@dataclass(frozen=True, slots=True)
class Look:
    """Hold what the variables read before a trial was decided, while nothing was controlled."""

    x: tuple[float | None, ...]
    """(d,), unit cube; None where a variable could not be read."""
    sd: tuple[float, ...]
    """(d,), unit cube: of each reading's error; 0 where it is not known."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Record one charged trial.

    A failed or lost trial has no outcome (`y is None`), and still has cost. `x` is what was measured, also for
    controlled variables (the read-back, not the setpoint); `None` where the trial ended before it was measured.
    """

    trial: int
    control_set: int
    """Index into `Space.control_sets`, or `BEFOREHAND`, or `ALONE`."""
    x: tuple[float, ...] | None
    """(d,), unit cube."""
    y: float | None
    """The outcome in its own units."""
    cost: Micros
    cost_known: bool = True
    """False where the cost was estimated (a meter fell or could not be read)."""
    further: tuple[float, ...] = ()
    """Outcomes besides the first, their own units, in the order of `Problem.further`."""
    charged: bool = True
    """False for a trial from before the campaign, or of production: its cost is evidence, and no part of what was
    spent."""
    noise_sd: float | None = None
    """Of the outcome where it is known, own units; None: `noise_factor` times what the model believes."""
    noise_factor: float = 1.0
    look: Look | None = None
    """What was read before it was decided; None: nothing was."""
    awaited: bool = False
    """Whether its outcome is still to come: `x` and `cost` are known, `y` is None."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """Hold what is known of trials whose observations are not kept."""

    trials: int = 0
    spent: Micros = 0
    uncharged: int = 0


@dataclass(frozen=True)
class History:
    """Hold all charged trials, in order. Arrays are read-only: they are computed once and shared."""

    observations: tuple[Observation, ...] = ()
    memo: Memo = field(default_factory=Memo, repr=False, compare=False)
    """Handed on by `append`; saves time, decides nothing."""
    corrections: int = field(default=0, repr=False, compare=False)
    """The last correction of a trial that this takes into account, by its number in the journal; 0: none."""
    earlier: Earlier = field(default_factory=Earlier, repr=False)
    """Of trials before the first of these; there are some in an `end_of` another."""

    def append(self, observation: Observation) -> History:
        """Return a longer history; this one stays as it is."""
        return replace(self, observations=(*self.observations, observation))

    @classmethod
    def of(cls, observations: Iterable[Observation], memo: Memo | None = None, corrections: int = 0) -> History:
        """Make a history of these observations, with the memo of one it was made from, if there is one."""
        return cls(tuple(observations), memo or Memo(), corrections)

    def __len__(self) -> int:
        return self.before + len(self.observations)

    @property
    def before(self) -> int:
        """Return how many trials are known by their sums alone."""
        return self.earlier.trials

    @property
    def _all(self) -> tuple[Observation, ...]:
        if self.before:
            raise AssertionError(f"unreachable: {self.before} of {len(self)} trials are known by their sums alone")
        return self.observations

    @cached_property
    def complete(self) -> tuple[Observation, ...]:
        """Return the observations a model can learn from: measured inputs and an outcome."""
        return tuple(o for o in self._all if o.x is not None and o.y is not None)

    @property
    def awaited(self) -> FloatArray:
        """Return the inputs of the observations whose outcome is still to come, (k, d), unit cube; (0, 0): none is."""
        return _table([o.x or () for o in under_way(self)], 0)

    @cached_property
    def x(self) -> FloatArray:
        """Return the inputs of the complete observations, (n, d), unit cube."""
        return _table([o.x or () for o in self.complete], 0)

    @property
    def y(self) -> FloatArray:
        """Return the outcomes of the complete observations, (n,), own units."""
        return self.outcomes[:, 0]

    @cached_property
    def outcomes(self) -> FloatArray:
        """Return first and further outcomes of the complete observations, (n, K), own units.

        NaN where an observation has fewer of them than another.
        """
        return _table([(o.y, *o.further) for o in self.complete if o.y is not None], 1)

    @cached_property
    def spent(self) -> Micros:
        """Return the sum of all costs that were charged, exact; failed and lost trials count."""
        return self.earlier.spent + sum(o.cost for o in self.observations if o.charged)

    @cached_property
    def uncharged(self) -> int:
        """Return how many trials are from before the campaign, or of production."""
        return self.earlier.uncharged + sum(not o.charged for o in self.observations)

    @cached_property
    def noise(self) -> FloatArray | None:
        """Return the noise of the complete observations' outcomes, (n, 2); None where all are alike.

        Its sd in own units, NaN where it is not known, and then its factor over what the model believes.
        """
        if all(o.noise_sd is None and o.noise_factor == 1.0 for o in self.complete):
            return None
        return _table([(np.nan if o.noise_sd is None else o.noise_sd, o.noise_factor) for o in self.complete], 2)

    @cached_property
    def _costs(self) -> Mapping[int, FloatArray]:
        known: dict[int, list[float]] = {}
        for o in self._all:
            if o.cost_known:
                known.setdefault(o.control_set, []).append(to_units(o.cost))
        return {control_set: _read_only(np.array(costs)) for control_set, costs in known.items()}

    @cached_property
    def _trials(self) -> Counter[int]:
        return Counter(o.control_set for o in self._all)

    def costs(self, control_set: int) -> FloatArray:
        """Return every known cost this control set has had, (T_i,), currency units."""
        return self._costs.get(control_set, np.empty(0))

    def trials_of(self, control_set: int) -> int:
        """Return how many charged trials this control set has had, T_i."""
        return self._trials[control_set]


def under_way(history: History) -> tuple[Observation, ...]:
    """Return the observations whose inputs are known, and whose outcome is still to come."""
    return tuple(o for o in history.observations if o.awaited and o.y is None and o.x is not None)


def end_of(history: History, count: int) -> History:
    """Return its last `count` observations with the length and sums of all: for a loop that keeps no more.

    No policy can be asked about it. Whoever needs the others reads them where they are written.
    """
    last = history.observations[-count:]
    own = History(last)
    earlier = Earlier(len(history) - len(last), history.spent - own.spent, history.uncharged - own.uncharged)
    return replace(own, corrections=history.corrections, earlier=earlier)


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


def _table(rows: Sequence[tuple[float, ...]], least: int) -> FloatArray:
    """Return the rows as a table, NaN where one is shorter than the widest; without rows it has `least` columns."""
    width = max(map(len, rows), default=least)
    filled = [(*row, *(np.nan,) * (width - len(row))) for row in rows]
    return _read_only(np.array(filled, dtype=float).reshape(len(rows), width))
