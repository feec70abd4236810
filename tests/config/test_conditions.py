"""What stands in `when` and `until` becomes a condition, or is refused with its place; nothing is ever evaluated."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.config.conditions import can_hold, parse
from rigctl.config.units import Units
from rigctl.flaws import flaw_of
from rigctl.rig.conditions import Compare, Condition, Joined, Not
from tests.profiles import share

UNITS = {"ph": "pH", "tank-level": "L", "growth": "cm2/day", "loss": "W/(m2*K)", "share": "1", "temp": "degC"}
REFUSED = {
    "": 1,
    "ph": 3,
    "ph <": 5,
    "ph < and": 6,
    "ph < 4.5 pH)": 12,
    "(ph < 4.5": 10,
    "5 > 3": 5,
    "ph < share": 6,
    "ph < 5 mM": 6,
    "phh < 5": 1,
    "ph = 4": 4,
    "ph < 4 pH ph < 5": 11,
    "1 < ph < 2 < 3": 12,
    "ph < 4.5.6": 6,
    "__import__('os').system('id')": 1,
    "ph.__class__ < 4": 3,
    "(" * 5000 + "ph < 1": 32,
    "not " * 5000 + "ph < 1": 125,
}
"""The column at which each stops being a condition, counted by hand."""


def unit_of(name: str) -> str:
    if name not in UNITS:
        raise ValueError(f'got "{name}", must be one of {", ".join(UNITS)}')
    return UNITS[name]


def parsed(text: str) -> Condition:
    return parse(text, unit_of, Units("EUR"))


def compare(name: str, sign: str, limit: float) -> Compare:
    return Compare(name, sign, limit, UNITS[name])


LIMITS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e90, max_value=1e90)
COMPARES = st.builds(compare, st.sampled_from(sorted(UNITS)), st.sampled_from(["<", "<=", ">", ">="]), LIMITS)
CONDITIONS = st.recursive(
    COMPARES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(Joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@given(CONDITIONS)
def test_a_condition_is_read_as_it_is_printed(condition):
    """What is shown of a condition, parsed again, is the same condition, to the last digit."""
    assert parsed(str(condition)) == condition


@pytest.mark.slow
@share(0.3)
@given(
    st.one_of(
        st.text(max_size=30),
        st.lists(
            st.sampled_from([*UNITS, "<", ">=", "(", ")", "and", "or", "not", "5 pH", "1e3", "-2 L", " "]), max_size=12
        ).map(" ".join),
    )
)
def test_any_text_is_a_condition_or_refused(text):
    """Nothing but a ValueError comes of a text that is no condition."""
    with suppress(ValueError):
        assert parsed(text).names <= set(UNITS)


@pytest.mark.parametrize(("text", "column"), REFUSED.items(), ids=lambda t: str(t)[:20])
def test_what_is_no_condition_is_refused_with_its_place(text, column):
    """The message says at which column."""
    with pytest.raises(ValueError, match=rf"column {column}\b"):
        parsed(text)


LEVELS = {1.0: "fine", 2.0: "flat fan", 3.0: "cone"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("share is cone", [3.0]),
        ('not share is "flat fan"', [1.0, 3.0]),
        ('share is not "flat fan" and ph < 5', [1.0, 3.0]),
    ],
)
def test_a_category_is_at_a_level(text, holds):
    """At the nearest to what is read; written down as a person would, and read again as the same."""
    condition = parse(text, unit_of, Units("EUR"), {"share": LEVELS}.get)
    for at in LEVELS:
        for off in (-0.4, 0.0, 0.4):
            assert condition.holds({"share": at + off, "ph": 4.0}) is (at in holds)
    assert condition.holds({"share": None, "ph": 4.0}) is None
    assert parse(str(condition), unit_of, Units("EUR"), {"share": LEVELS}.get) == condition


@pytest.mark.parametrize(
    ("text", "column", "allowed"),
    [
        ("share is flat", 10, "one of fine, flat fan, cone"),
        ("share is", 9, "one of"),
        ("ph is cone", 4, "only a category"),
    ],
)
def test_what_is_no_level_is_refused_with_its_place(text, column, allowed):
    """With the levels that there are; what is no category has none."""
    with pytest.raises(ValueError, match=f"at column {column} ") as caught:
        parse(text, unit_of, Units("EUR"), lambda name: LEVELS if name == "share" else {})
    assert allowed in flaw_of(caught.value).allowed


def test_a_limit_without_end_is_refused():
    """No reading could reach it."""
    with pytest.raises(ValueError, match="1e999"):
        parsed("ph < 1e999")


def test_units_are_converted_to_the_readings():
    """A limit may stand in any unit of the same dimension; a bare number is in the reading's own."""
    assert parsed("tank-level < 500 mL") == compare("tank-level", "<", 0.5)
    assert parsed("tank-level<5") == compare("tank-level", "<", 5.0)
    assert parsed("growth > 1 cm2/h") == compare("growth", ">", 24.0)
    assert parsed("loss>=3W/(m2*K)") == compare("loss", ">=", 3.0)
    assert parsed("temp > -5 degC") == compare("temp", ">", -5.0)


def test_a_chain_is_two_comparisons():
    """`4.5 < ph < 6` is both, and a quantity may stand first."""
    both = Joined("and", (compare("ph", ">", 4.5), compare("ph", "<=", 6.0)))
    assert parsed("4.5 pH < ph <= 6") == both
    assert parsed("4.5 > ph") == compare("ph", "<", 4.5)


def test_not_binds_more_than_and_and_and_more_than_or():
    """As everybody expects; brackets say otherwise."""
    a, b, c = compare("ph", "<", 4.0), compare("share", ">", 1.0), compare("temp", ">", 30.0)
    assert parsed("not ph < 4 and share > 1 or temp > 30") == Joined("or", (Joined("and", (Not(a), b)), c))
    assert parsed("not (ph < 4 and (share > 1 or temp > 30))") == Not(Joined("and", (a, Joined("or", (b, c)))))


@given(CONDITIONS.filter(lambda c: len(c.names) <= 2), st.lists(LIMITS, min_size=6, max_size=6))
def test_what_holds_somewhere_can_hold(condition, values):
    """No readings are found that make a condition true which is said never to hold."""
    holds = condition.holds(dict(zip(UNITS, values, strict=True)))
    assert can_hold(condition) or not holds


def test_conditions_that_exclude_each_other_cannot_hold_at_once():
    """Hysteresis is told from its opposite, limits themselves included."""
    assert not can_hold(parsed("tank-level < 5"), parsed("tank-level > 8"))
    assert not can_hold(parsed("tank-level < 5"), parsed("tank-level >= 5"))
    assert can_hold(parsed("tank-level <= 5"), parsed("tank-level >= 5"))
    assert can_hold(parsed("ph < 5"), parsed("tank-level > 8"))
    assert not can_hold(parsed("ph < 5"), within={"ph": (5.0, 7.0)})
    assert can_hold(parsed("ph <= 5"), within={"ph": (5.0, 7.0)})
    assert can_hold(parsed("6 < ph < 6.5"), within={"ph": (5.0, 7.0)})
    assert [c.limit for c in parsed("not ph < 5 or ph > 7").comparisons] == [5.0, 7.0]
