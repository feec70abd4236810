"""The change-point test: what it finds, when, and that nothing but ranks and order matter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, mood

from rigctl.core.experiment.marginals.drift import scan
from tests.profiles import share, slow_beyond

SHIFTS = {
    "1 sd": (lambda r: r + 1, 110, 25),
    "2 sd": (lambda r: r + 2, 20, 12),
    "3 sd": (lambda r: r + 3, 12, 7),
    "spread doubled": (lambda r: 2 * r, 150, 40),
    "spread halved": (lambda r: r / 2, 250, 40),
}
"""How a normal supply changes after 100 readings, when it must have been noticed, how far off it may be put."""


def series(before, after, change, seed):
    """Standard normal readings, of which the last `after` are changed."""
    readings = np.random.default_rng(seed).standard_normal(before + after)
    readings[before:] = change(readings[before:])
    return readings


@pytest.mark.parametrize("kind", SHIFTS)
def test_a_change_is_noticed_in_time_and_put_where_it_was(kind):
    """Level and spread, up and down; of ten campaigns none misses it, and none sees anything before."""
    change, delay, apart = SHIFTS[kind]
    for seed in range(10):
        first, *_ = scan(series(100, delay, change, seed)).changes
        assert 100 <= first.noticed < 100 + delay
        assert abs(first.begins - 100) <= apart
        assert first.noticed >= first.begins + 5 - 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_beyond(1, ["two tanks", "uniform", "heavy tails", "coarse"]))
def test_a_supply_that_varies_as_ever_raises_no_alarm(kind):
    """Whatever its distribution, ties included: at most one in fifteen campaigns of 1000 readings."""
    rng = np.random.default_rng(6)
    draw = {
        "uniform": lambda: rng.random(1000),
        "heavy tails": lambda: rng.standard_t(1.5, 1000),
        "two tanks": lambda: np.where(rng.random(1000) < 0.3, 0.2, 0.8) + 0.01 * rng.standard_normal(1000),
        "coarse": lambda: np.round(3 * rng.random(1000)),
    }[kind]
    assert sum(bool(scan(draw()).changes) for _ in range(15)) <= 1


@pytest.mark.slow
def test_the_scores_are_scipys():
    """The alarm comes with the first reading at which scipy's own Mann-Whitney or Mood test passes a threshold."""
    for change in (lambda r: r + 1.8, lambda r: 6 * r):
        readings = series(24, 21, change, 1)
        noticed = scan(readings).changes[0].noticed

        def passed(count, readings=readings):
            splits = range(5, count - 5 + 1)
            parts = [(readings[:m], readings[m:count]) for m in splits]
            return max(max(level(*p) / 4.56, abs(mood(*p).statistic) / 4.73) for p in parts)

        assert passed(noticed + 1) > 1
        assert all(passed(count) <= 1 for count in range(10, noticed + 1))


def level(before, after):
    """|z| of the Mann-Whitney test, from its asymptotic p-value: scipy corrects its variance for ties."""
    from scipy.stats import norm

    p = mannwhitneyu(before, after, method="asymptotic", use_continuity=False).pvalue
    return float(norm.isf(p / 2))


def test_after_a_change_only_what_came_since_is_compared():
    """There and back is two changes; a long past hides none, a slow drift is noticed, four wild readings are none."""
    readings = np.concatenate([series(80, 60, lambda r: r + 4, 3), series(60, 0, lambda r: r, 4)])
    found = scan(readings).changes
    assert [abs(c.begins - at) <= 2 for c, at in zip(found, (80, 140), strict=True)] == [True, True]
    readings = series(1207, 25, lambda r: r + 2, 11)
    found = [c for c in scan(readings).changes if c.noticed >= 1200]
    assert len(found) == 1
    assert abs(found[0].begins - 1207) <= 5
    readings = np.random.default_rng(2).standard_normal(400) + np.linspace(0, 2, 400)
    assert scan(readings).changes
    readings = np.random.default_rng(1).random(200)
    readings[120:124] = 1e9
    assert scan(readings).changes == ()


@pytest.mark.parametrize("readings", [[], [0.3], [0.5] * 500, [0.0, 1.0] * 150, list(range(9))])
def test_nothing_to_tell_is_no_change(readings):
    """No readings, too few, all equal, alternating: no change, no warning."""
    assert scan(np.array(readings)).changes == ()


READINGS = st.lists(st.integers(0, 12), min_size=0, max_size=90).map(lambda v: np.array(v, dtype=float))
STEPPED = st.tuples(READINGS, READINGS, st.sampled_from([0.0, 9.0, 30.0])).map(lambda v: np.append(v[0], v[1] + v[2]))


@given(STEPPED, st.integers(0, 180))
def test_later_readings_alter_nothing(readings, count):
    """What was found in the first readings is found in all of them, and going on is the same as beginning anew."""
    found = scan(readings).changes
    earlier = scan(readings[:count])
    assert earlier.changes == tuple(c for c in found if c.noticed < count)
    assert scan(readings, earlier) == scan(readings)


@share(0.4)
@given(STEPPED, st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_only_ranks_matter(readings, scale, shift):
    """Other units, a curved scale or a scale turned round: the same changes."""
    found = scan(readings).changes
    assert scan(scale * readings + shift).changes == found
    assert scan(np.exp(readings / 10)).changes == found
    assert scan(-readings).changes == found


@share(0.3)
@given(st.permutations(range(12)))
def test_the_order_after_a_change_does_not_move_it(after):
    """Between readings that have nothing in common it is put exactly, however the later ones are ordered."""
    evenly_mixed = 0.618034 * np.arange(40) % 1
    assert scan(np.append(evenly_mixed, 100.0 + np.array(after))).changes[-1].begins == 40
