"""Lines that are sought by what they are worth together."""

from __future__ import annotations

import numpy as np
import pytest

from rigctl.core.advice.rules.short import CONDITIONS, LINES, Arranging, Leaf

LEVELS = 12
BOXES = ((0, (3, 8), 1, (2, 9)), (2, (0, 5), 1, (4, 12)), (0, (5, 12), 2, (6, 12)))
"""Of three lines, the first that holds counts: reading, limits, another reading, its limits."""


@pytest.fixture(scope="module")
def arranging():
    """Each of four formulas is worth 1 where a planted line of it counts; else less, by chance."""
    rng = np.random.default_rng(1)
    levels = rng.integers(0, LEVELS, (800, 3))
    levels[:LEVELS] = np.arange(LEVELS)[:, None]
    planted = np.full(len(levels), 3)
    for formula, (one, (a, b), other, (c, d)) in reversed(list(enumerate(BOXES))):
        inside = (levels[:, one] >= a) & (levels[:, one] < b) & (levels[:, other] >= c) & (levels[:, other] < d)
        planted[inside] = formula
    worth = rng.uniform(0.0, 0.6, (len(levels), 4))
    worth[np.arange(len(levels)), planted] = 1.0
    return Arranging(worth, levels, (0, 1, 2))


def test_planted_lines_are_found(arranging):
    """Three boxes that cover each other take three lines and one for all else, and nothing is lost."""
    lines = arranging.pruned(arranging.arranged(), 8.0, 2.0)
    assert arranging.total(lines) == pytest.approx(len(arranging.levels))
    assert len(lines) == len(BOXES) + 1


def test_a_person_can_follow_them(arranging):
    """There are few, of few conditions; the last one always holds, and the others are there for some days."""
    noise = np.random.default_rng(2).uniform(size=(len(arranging.levels), 20))
    found = Arranging(noise, arranging.levels, (0, 1, 2))
    lines = found.arranged()
    assert len(lines) == LINES
    assert lines[-1].holds(found.levels).all()
    for line in lines:
        assert ((line.low > 0) | (line.high < found.sizes)).sum() <= CONDITIONS
    assert found.total(lines) > found.total([found.whole(int(noise.sum(axis=0).argmax()))])
    assert len(np.unique(found.routed(lines))) == LINES


def test_what_is_worth_little_is_left_out(arranging):
    """Lines, and limits, where less is lost than they must be worth."""
    lines = arranging.arranged()
    assert len(arranging.pruned(lines, np.inf, 0.0)) == 1
    loose = Leaf(np.array([3, 2, 1]), np.array([8, 9, 12]), 0)  # a third reading that hardly matters
    (kept, _) = arranging.pruned([loose, lines[-1]], 0.0, 30.0)
    assert (kept.low[2], kept.high[2]) == (0, LEVELS)


def test_a_reading_alone_makes_lines(arranging):
    """Where one tells something, boxes are its limits; where none does, there is one line."""
    alone = Arranging(arranging.worth, arranging.levels, (1,))
    assert 1 < len(alone.arranged()) <= LINES
    assert all((line.low[[0, 2]] == 0).all() for line in alone.arranged())
    assert len(Arranging(arranging.worth, arranging.levels, ()).arranged()) == 1
