"""A history is what it was made of, however it was made."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.experiment.history import MOST_ENTRIES, History, Memo, Observation, end_of

unit = st.floats(0, 1)
observations = st.builds(
    Observation,
    trial=st.integers(1, 99),
    control_set=st.integers(-1, 3),
    x=st.none() | st.tuples(unit, unit),
    y=st.none() | st.floats(-5, 5),
    cost=st.integers(0, 10**9),
    cost_known=st.booleans(),
    further=st.lists(unit, max_size=2).map(tuple),
)


def seen(history):
    arrays = [history.x, history.y, history.outcomes, *(history.costs(i) for i in range(-1, 5))]
    counts = [len(history), history.spent, *(history.trials_of(i) for i in range(-1, 5))]
    return [a.tolist() for a in arrays], counts, history.complete


@given(st.lists(observations, max_size=8), st.integers(0, 8))
def test_appending_and_building_at_once_give_the_same(rows, split):
    """Every array, count and sum is the same, bit for bit, whether a history grew or was read in one go."""
    grown = History.of(rows[:split])
    for row in rows[split:]:
        grown = grown.append(row)
    whole = History.of(rows)
    assert grown == whole
    assert hash(grown) == hash(whole)
    assert repr(seen(grown)) == repr(seen(whole))


@given(st.lists(observations, max_size=8))
def test_tables_are_those_of_the_definitions(rows):
    """Inputs and outcomes of the complete observations; costs and counts of every set, known beforehand (-1) apart."""
    history = History.of(rows)
    complete = [o for o in rows if o.x is not None and o.y is not None]
    assert history.x.tolist() == [list(o.x) for o in complete]
    assert history.y.tolist() == [o.y for o in complete]
    for i in range(-1, 4):
        assert history.trials_of(i) == len([o for o in rows if o.control_set == i])
        mine = [o.cost / 1e6 for o in rows if o.control_set == i and o.cost_known]
        assert history.costs(i).tolist() == pytest.approx(mine)
    assert history.spent == sum(o.cost for o in rows)


@given(st.lists(observations, max_size=8), st.integers(1, 4), st.lists(observations, max_size=3))
def test_an_end_has_the_sums_of_all_and_no_tables(rows, count, more):
    """It grows as the whole does; a policy that were asked about it would not be answered by a part."""
    whole, end = History.of(rows, corrections=3), end_of(History.of(rows, corrections=3), count)
    for row in more:
        whole, end = whole.append(row), end.append(row)
    assert (len(end), end.spent, end.uncharged, end.corrections) == (len(whole), whole.spent, whole.uncharged, 3)
    assert len(end.observations) == min(len(rows), count) + len(more)
    assert end.observations == whole.observations[end.before :]
    assert end_of(end, 1).observations == whole.observations[-1:]
    if len(rows) > count:
        assert end != whole
        with pytest.raises(AssertionError, match="sums"):
            _ = end.x
    else:
        assert repr(seen(end)) == repr(seen(whole))


def test_further_outcomes_stand_beside_the_first():
    """One column per outcome; where an observation lacks some, NaN; none of them in the empty history."""
    assert History().outcomes.shape == (0, 1)
    assert History().x.shape == (0, 0)
    history = (
        History().append(Observation(1, 0, (0.5,), 1.0, 0)).append(Observation(2, 0, (0.6,), 2.0, 0, True, (3.0, 4.0)))
    )
    np.testing.assert_array_equal(history.outcomes, [[1.0, np.nan, np.nan], [2.0, 3.0, 4.0]])
    np.testing.assert_array_equal(history.y, [1.0, 2.0])


def test_a_longer_history_leaves_the_shorter_one_as_it_was():
    """Two continuations of one history know nothing of each other, and nobody can write into shared arrays."""
    base = History.of([Observation(1, 0, (0.5,), 1.0, 7)])
    one, other = base.append(Observation(2, 0, (0.1,), 2.0, 1)), base.append(Observation(2, 1, (0.2,), 3.0, 2))
    assert (len(base), base.spent, base.y.tolist()) == (1, 7, [1.0])
    assert (one.y.tolist(), other.y.tolist()) == ([1.0, 2.0], [1.0, 3.0])
    for array in (one.x, one.y, one.outcomes, one.costs(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0


def test_the_memo_goes_with_the_history_but_is_no_part_of_it():
    """Handed on by `append`; never compared, shown, copied or pickled; of so many entries the oldest is forgotten."""
    history = History()
    history.memo.keep("a", 1)
    longer = history.append(Observation(1, 0, (0.5,), 1.0, 7))
    assert longer.memo is history.memo
    assert longer == History.of(longer.observations)
    assert "memo" not in repr(longer)
    assert pickle.loads(pickle.dumps(longer)).memo.get("a") is None  # noqa: S301 - what this test has pickled itself
    assert copy.deepcopy(longer).memo.get("a") is None
    memo = Memo()
    for i in range(MOST_ENTRIES):
        memo.keep(i, i)
    memo.keep(0, "again")
    memo.keep("new", "new")
    assert [memo.get(k) for k in (0, 1, 2, "new")] == ["again", None, 2, "new"]
