"""When has a supply changed? A change-point test on the ranks of its readings.

After every reading, each split of the recent readings into before and after is scored twice: by the sum of ranks
(Mann-Whitney: has the level moved?) and by the sum of squared centred ranks (Mood: has the spread?), standardised with
their exact permutation moments. The largest score beyond its threshold is an alarm; the split it belongs to is
where the change began (Hawkins and Deng 2010, "A nonparametric change-point control chart"; Ross, Tasoulis and Adams
2011, "Nonparametric monitoring of data streams for changes in location and scale").

Ranks do not depend on how the readings are distributed or scaled, so one pair of thresholds holds for every supply that
varies independently from trial to trial; `docs/decisions/0007-drift.md` has the measured rates and delays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rigctl.core.experiment.arrays import FloatArray

WINDOW = 400
"""How many readings are compared at most: bounds the work per reading; a longer past tells hardly more."""
SIDE = 5
"""Fewest readings on either side of a split: so one or two outliers are no change."""
LEVEL_THRESHOLD = 4.56
SPREAD_THRESHOLD = 4.73
"""Each is passed by chance in about 1 of 100 campaigns of 1000 readings."""
_BLOCK = 32
"""Readings looked at together: numpy's overhead is then paid once for all of them."""
_DENSE = 40
"""The last splits are all tried, earlier ones ever more sparsely: what has gone unnoticed for long is vague anyway."""
_SPARSENESS = 1.05


@dataclass(frozen=True, slots=True)
class Change:
    """Tell of one change of a supply or of the response. Positions count readings, or outcomes, from 0."""

    begins: int
    """The first one after the change, as estimated."""
    noticed: int
    """The one at which the evidence sufficed; of a supply not before `begins + SIDE - 1`."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Hold what has been found in readings so far, and where to go on when there are more."""

    changes: tuple[Change, ...] = ()
    """In order; later readings never alter them."""
    done: int = 0
    """Readings that need not be looked at again."""


def scan(readings: FloatArray, before: Scan | None = None) -> Scan:
    """Find the changes in readings (n,), going on from the scan of as many of them as there were before.

    The result is the same whether it goes on or begins anew. After a change only the readings since it began count.
    """
    readings = np.asarray(readings, dtype=float)
    so_far = Scan() if before is None else before
    found, done = list(so_far.changes), so_far.done
    while done < len(readings):
        stop = min(done + _BLOCK, len(readings))
        # the same for a block that is not full yet, so that more readings change nothing
        first = max(found[-1].begins if found else 0, done + _BLOCK - WINDOW)
        change = _first_change(readings[first:stop], done - first)
        if change is not None:
            found.append(Change(first + change.begins, first + change.noticed))
            done = found[-1].noticed + 1
        elif stop - done == _BLOCK:
            done = stop
        else:
            break
    return Scan(tuple(found), done)


def _first_change(readings: FloatArray, old: int) -> Change | None:
    """Find the first alarm after the `old` readings; positions are within these readings.

    With s_i twice the centred rank of reading i, a split after m of N readings scores, squared,
    (N-1) (sum_m s)^2 / (m (N-m) mean(s^2)), and the same with s^2 - mean(s^2) in place of s.
    """
    signs = _sign_sums(readings, old)
    squares = np.square(signs)
    sizes = np.arange(old + 1, len(readings) + 1)[:, None]
    total = squares.sum(axis=1, keepdims=True)
    # a difference of whole numbers: exactly 0 where all readings are equal
    spread_variance = sizes * np.square(squares).sum(axis=1, keepdims=True) - np.square(total)
    before = sizes - _after(len(readings))
    valid = before >= SIDE
    before = np.where(valid, before, SIDE)
    shares = np.where(valid, (sizes - 1.0) / np.maximum(before * (sizes - before), 1), 0.0)
    level = np.take_along_axis(np.cumsum(signs, axis=1), before - 1, axis=1)
    spread = np.take_along_axis(np.cumsum(squares, axis=1), before - 1, axis=1) * sizes - before * total
    scores = shares * np.stack(
        [
            np.square(level) * sizes / np.maximum(total, 1.0) / LEVEL_THRESHOLD**2,
            np.square(spread) / np.maximum(spread_variance, 1.0) / SPREAD_THRESHOLD**2,
        ]
    )
    crossed = np.flatnonzero((scores > 1.0).any(axis=(0, 2)))
    if not crossed.size:
        return None
    row = int(crossed[0])
    split = int(scores[:, row].max(axis=0).argmax())
    return Change(int(before[row, split]), old + row)


def _sign_sums(readings: FloatArray, old: int) -> FloatArray:
    """Count how many of the first old + r + 1 readings are below reading i, minus how many above (row r, column i).

    That is twice the centred (mid)rank of the reading among them, a whole number, so sums of it are exact. 0 where the
    reading comes later.
    """
    past, new = np.sort(readings[:old]), readings[old:]
    base = np.searchsorted(past, readings, "left") + np.searchsorted(past, readings, "right") - old
    one_by_one = np.subtract(readings > new[:, None], readings < new[:, None], dtype=np.int8)
    sums = base + np.cumsum(one_by_one, axis=0, dtype=float)
    sums[:, old:] *= np.tri(len(new))
    return np.asarray(sums)


def _after(most: int) -> NDArray[np.int64]:
    """Return how many readings come after the splits tried, rising from SIDE; both sides fit into `most` readings."""
    count = int(np.log(WINDOW / _DENSE) / np.log(_SPARSENESS)) + 1
    sparse = np.rint(_DENSE * _SPARSENESS ** np.arange(1, count)).astype(np.int64)
    tried = np.concatenate([np.arange(SIDE, _DENSE + 1), sparse])
    return np.asarray(tried[tried <= most - SIDE])
