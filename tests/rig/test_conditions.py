"""Conditions over readings, in three-valued logic."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rigctl.rig.conditions import Compare, Joined, Not

SIGNS = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__}
LIMITS = st.sampled_from([-1.0, 0.0, 1.0])
COMPARES = st.builds(Compare, st.sampled_from("abc"), st.sampled_from(sorted(SIGNS)), LIMITS)
CONDITIONS = st.recursive(
    COMPARES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=10,
)
READINGS = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.none(), st.just(math.nan), st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 9.0]))
)


def truth(condition, values):
    """Kleene's logic in numbers: true is 1, false 0, unknown a half; `and` is the least, `or` the most."""
    if isinstance(condition, Compare):
        value = values.get(condition.name)
        if value is None or math.isnan(value):
            return 0.5
        return float(SIGNS[condition.sign](value, condition.limit))
    if isinstance(condition, Not):
        return 1.0 - truth(condition.inner, values)
    return (min if condition.word == "and" else max)(truth(part, values) for part in condition.parts)


@given(CONDITIONS, READINGS)
def test_what_is_unknown_stays_unknown_unless_the_rest_decides(condition, values):
    """Three-valued logic, against its definition by minimum and maximum, however conditions are nested."""
    assert condition.holds(values) is {1.0: True, 0.0: False, 0.5: None}[truth(condition, values)]


@given(CONDITIONS, READINGS)
def test_a_condition_looks_at_nothing_but_its_names(condition, values):
    """Other readings change nothing: a sensor that nothing speaks of need not be read."""
    named = {name: value for name, value in values.items() if name in condition.names}
    assert condition.holds(values) is condition.holds(named)


@given(COMPARES, st.floats(allow_nan=False, allow_infinity=False))
def test_a_limit_is_shown_to_the_last_digit(compare, limit):
    """What is printed is what is compared with."""
    shown = str(Compare(compare.name, compare.sign, limit, "pH")).split()
    assert (shown[0], shown[1], float(shown[2]), shown[3]) == (compare.name, compare.sign, limit, "pH")
