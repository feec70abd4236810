"""What has been observed so far: frozen, appended to by returning a new one.

With it goes a memo: work left over from one decision that can save time in the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class History:
    """Hold all charged trials, in order. Arrays are read-only: they are computed once and shared."""

    observations: tuple[Observation, ...] = ()
    memo: Memo = field(default_factory=Memo, repr=False, compare=False)
    """Handed on by `append`; saves time, decides nothing."""
    corrections: int = field(default=0, repr=False, compare=False)
    """The last correction of a trial that this takes into account, by its number in the journal; 0: none."""
    before: int = field(default=0, repr=False)
    """Trials before the first of these, known by their sums alone: more than 0 in an `end_of` another."""

    def append(self, observation: Observation) -> History:
        """Return a longer history; this one stays as it is. Nothing known is computed again, only copied."""
        longer = History((*self.observations, observation), self.memo, self.corrections, self.before)
        # where a cached_property keeps its value; a frozen dataclass without slots allows it
        vars(longer)["_sums"] = self._sums.extended((observation,))
        if "_tables" in vars(self):  # whoever asks for sums alone, as a campaign's loop does, need not keep tables
            vars(longer)["_tables"] = self._tables.extended((observation,))
        return longer

    @classmethod
    def of(cls, observations: Iterable[Observation], memo: Memo | None = None, corrections: int = 0) -> History:
        """Make a history of these observations, with the memo of one it was made from, if there is one."""
        return cls(tuple(observations), memo or Memo(), corrections)

    def __len__(self) -> int:
        return self.before + len(self.observations)

    @cached_property
    def _sums(self) -> _Sums:
        return _Sums().extended(self.observations)

    @cached_property
    def _tables(self) -> _Tables:
        if self.before:
            raise AssertionError(f"unreachable: {self.before} of {len(self)} trials are known by their sums alone")
        return _Tables().extended(self.observations)

    @property
    def complete(self) -> tuple[Observation, ...]:
        """Return the observations a model can learn from: measured inputs and an outcome."""
        return self._tables.complete

    @property
    def awaited(self) -> FloatArray:
        """Return the inputs of the observations whose outcome is still to come, (k, d), unit cube; (0, 0): none is."""
        rows = [o.x for o in under_way(self)]
        return np.array(rows, dtype=float) if rows else np.empty((0, 0))

    @property
    def x(self) -> FloatArray:
        """Return the inputs of the complete observations, (n, d), unit cube."""
        return self._tables.x

    @property
    def y(self) -> FloatArray:
        """Return the outcomes of the complete observations, (n,), own units."""
        return self._tables.y

    @property
    def outcomes(self) -> FloatArray:
        """Return first and further outcomes of the complete observations, (n, K), own units.

        NaN where an observation has fewer of them than another.
        """
        return self._tables.outcomes

    @property
    def spent(self) -> Micros:
        """Return the sum of all costs that were charged, exact; failed and lost trials count."""
        return self._sums.spent

    @property
    def uncharged(self) -> int:
        """Return how many trials are from before the campaign, or of production."""
        return self._sums.uncharged

    @property
    def noise(self) -> FloatArray | None:
        """Return the noise of the complete observations' outcomes, (n, 2); None where all are alike.

        Its sd in own units, NaN where it is not known, and then its factor over what the model believes.
        """
        return self._tables.noise

    def costs(self, control_set: int) -> FloatArray:
        """Return every known cost this control set has had, (T_i,), currency units."""
        return self._tables.costs.get(control_set, np.empty(0))

    def trials_of(self, control_set: int) -> int:
        """Return how many charged trials this control set has had, T_i."""
        return self._tables.trials.get(control_set, 0)


def under_way(history: History) -> tuple[Observation, ...]:
    """Return the observations whose inputs are known, and whose outcome is still to come."""
    return tuple(o for o in history.observations if o.awaited and o.y is None and o.x is not None)


def end_of(history: History, count: int) -> History:
    """Return its last `count` observations with the length and sums of all: for a loop that keeps no more.

    No policy can be asked about it. Whoever needs the others reads them where they are written.
    """
    last = history.observations[-count:]
    shorter = History(last, Memo(), history.corrections, len(history) - len(last))
    vars(shorter)["_sums"] = history._sums  # noqa: SLF001 - its own
    return shorter


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True)
class _Sums:
    """Hold what of a history is a number, however long it is."""

    spent: Micros = 0
    uncharged: int = 0

    def extended(self, observations: tuple[Observation, ...]) -> _Sums:
        spent = sum(o.cost for o in observations if o.charged)
        return _Sums(self.spent + spent, self.uncharged + sum(not o.charged for o in observations))


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Hold what a history is asked for again and again; see its properties of the same names."""

    complete: tuple[Observation, ...] = ()
    x: FloatArray = field(default_factory=lambda: _read_only(np.empty((0, 0))))
    outcomes: FloatArray = field(default_factory=lambda: _read_only(np.empty((0, 1))))
    costs: Mapping[int, FloatArray] = field(default_factory=dict)
    trials: Mapping[int, int] = field(default_factory=dict)
    noise: FloatArray | None = None

    @property
    def y(self) -> FloatArray:
        """Return a view, read-only as what it is a view of."""
        return self.outcomes[:, 0]

    def extended(self, observations: tuple[Observation, ...]) -> _Tables:
        fresh = tuple(o for o in observations if o.x is not None and o.y is not None)
        trials = dict(self.trials)
        known: dict[int, list[float]] = {}
        for o in observations:
            trials[o.control_set] = trials.get(o.control_set, 0) + 1
            if o.cost_known:
                known.setdefault(o.control_set, []).append(to_units(o.cost))
        added = {i: _read_only(np.append(self.costs.get(i, np.empty(0)), new)) for i, new in known.items()}
        return _Tables(
            complete=self.complete + fresh,
            x=_below(self.x, [o.x for o in fresh if o.x is not None]),
            outcomes=_below(self.outcomes, [(o.y, *o.further) for o in fresh if o.y is not None]),
            costs={**self.costs, **added},
            trials=trials,
            noise=self._noise(fresh),
        )

    def _noise(self, fresh: tuple[Observation, ...]) -> FloatArray | None:
        alike = all(o.noise_sd is None and o.noise_factor == 1.0 for o in fresh)
        if self.noise is None and alike:
            return None
        before = np.tile([np.nan, 1.0], (len(self.complete), 1)) if self.noise is None else self.noise
        rows = [(np.nan if o.noise_sd is None else o.noise_sd, o.noise_factor) for o in fresh]
        return _read_only(np.concatenate([before, np.reshape(rows, (len(rows), 2))]))


def _below(table: FloatArray, rows: list[tuple[float, ...]]) -> FloatArray:
    """Add rows to the table; NaN fills what is missing of the widest."""
    if not rows:
        return table
    width = max(table.shape[1] if len(table) else 0, *(len(row) for row in rows))
    out = np.full((len(table) + len(rows), width), np.nan)
    out[: len(table), : table.shape[1]] = table if len(table) else 0.0
    for i, row in enumerate(rows, start=len(table)):
        out[i, : len(row)] = row
    return _read_only(out)
