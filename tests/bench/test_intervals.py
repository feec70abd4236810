"""Intervals that are told, held against the truth of the bench."""

from __future__ import annotations

import pytest

from rigctl.bench.asking.options import predefined
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem, rule_truth
from rigctl.core.advice.rule import Between, RuleLine, Setting
from tests.bench.measure_intervals import always, followed


class Lines:
    """A rule of two lines: low readings of the first variable one way, all others the other."""

    def __init__(self, *lines: RuleLine) -> None:
        self.lines = lines

    def line_for(self, readings):
        return next(line for line in self.lines if line.holds(readings))


def line(space, at, *when):
    names = space.control_sets[0].names
    settings = tuple(Setting(name, at, (), 0.0, 1.0, None) for name in names)
    return RuleLine(when, names, settings, 1.0, 0.0, 0.0, 0.0, None, 1)


def test_a_rule_is_worth_on_each_day_what_its_line_sets():
    """Of two lines it is the mix of two fixed settings, by the days on which each holds."""
    cell = Cell("hartmann3", "moderate", 0.04, predefined()["default"], 0, 5.0, None, 1.0)
    space, truth = bench_problem(cell).space, rule_truth(cell)
    assert truth is not None
    names = space.control_sets[0].names
    one, other = (dict.fromkeys(names, at) for at in (0.2, 0.7))
    same = truth.value(followed(space, Lines(line(space, 0.2)), truth))
    assert same == pytest.approx(always(space, names, one, truth), rel=1e-12)
    mixed = followed(space, Lines(line(space, 0.2, Between(space.names[0], None, 0.5)), line(space, 0.7)), truth)
    low = truth.readings[:, 0] < 0.5
    assert 0 < low.sum() < len(low)
    column = space.control_sets[0].indices[0]
    assert mixed.points[low, column] == pytest.approx(0.2)
    assert mixed.points[~low, column] == pytest.approx(0.7)
    assert truth.value(mixed) not in (same, always(space, names, other, truth))
