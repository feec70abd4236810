"""Hours and tariffs, held against a clock that is read minute by minute."""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl.rig.calendar import Hours, Rate, Tariff, gaps, hours_of_week, instant, told

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
MIDNIGHT = {
    "autumn": instant("2026-10-25T00:00+02:00"),
    "spring": instant("2026-03-29T00:00+01:00"),
    "plain": instant("2026-06-10T00:00+02:00"),
}


def hours(*texts, zone=BERLIN):
    return Hours(zone, tuple(map(hours_of_week, texts)), ", ".join(texts))


def shown(at_s, zone):
    """What a clock on the wall shows: day of the week, and minutes after midnight."""
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)).astimezone(ZoneInfo(zone))
    return local.weekday(), 60 * local.hour + local.minute


@pytest.mark.parametrize(
    ("text", "days", "begin", "end"),
    [
        ("08:00-18:00", range(7), 480, 1080),
        ("Mon-Fri 8:00-18:00", range(5), 480, 1080),
        ("Fri-Mon 22:00-06:00", (4, 5, 6, 0), 1320, 1800),
        ("sat, Sunday", (5, 6), 0, 1440),
        ("00:00-24:00", range(7), 0, 1440),
    ],
)
def test_hours_are_read(text, days, begin, end):
    """Days, hours and nights past midnight are written as people write them."""
    daily = hours_of_week(text)
    assert (daily.days, daily.begin_min, daily.end_min) == (frozenset(days), begin, end)


@pytest.mark.parametrize("text", ["", "8-18", "Mo 08:00-18:00", "08:00-08:00", "08:60-09:00", "Monkey"])
def test_what_is_no_hours_is_refused(text):
    """Every text that means nothing is refused with what was got and what is allowed."""
    got = f'"{text}"' if text else "nothing"
    with pytest.raises(ValueError, match=f"got {got}, must"):
        hours_of_week(text)


daily_texts = st.builds(
    lambda first, last, begin, length: (
        f"{first}-{last} {begin // 60:02}:{begin % 60:02}-{(begin + length) % 1440 // 60:02}:{(begin + length) % 60:02}"
    ),
    st.sampled_from(("Mon", "Wed", "Sun")),
    st.sampled_from(("Tue", "Sat", "Sun")),
    st.integers(0, 95).map(lambda n: 15 * n),
    st.integers(1, 95).map(lambda n: 15 * n),
)


@pytest.mark.slow
@given(
    texts=st.lists(daily_texts, min_size=1, max_size=3),
    begin_s=st.sampled_from(
        [MIDNIGHT["autumn"] - 90_000, MIDNIGHT["spring"] - 90_000, instant("2026-04-04T00:00+11:00"), MIDNIGHT["plain"]]
    ),
    zone=st.sampled_from((BERLIN, NEW_YORK, LORD_HOWE)),
)
@settings(max_examples=15)
def test_hours_are_what_a_clock_on_the_wall_shows(texts, begin_s, zone):
    """Open and opening agree with a clock that is read every minute, over the changes of three zones."""
    it = hours(*texts, zone=zone)
    minutes = [begin_s + 60 * i for i in range(3 * 1440)]
    truth = [any(d.holds(*shown(at_s, zone)) for d in it.daily) for at_s in minutes]
    assert [it.is_open(at_s) for at_s in minutes] == truth
    for i in range(0, 2000, 397):
        opens = next((at_s for at_s, is_open in zip(minutes[i:], truth[i:], strict=True) if is_open), None)
        if opens is not None:
            assert it.opens_s(minutes[i]) == opens


def test_an_opening_is_long_enough_or_there_is_none():
    """A trial of nine hours is not begun in a window of eight, and the next one that is long enough is found."""
    it = hours("Mon-Fri 08:00-16:00", "Sat 08:00-20:00")
    wednesday = MIDNIGHT["plain"]
    assert told(BERLIN, it.opens_s(wednesday, 8 * 3600.0)) == "Wed 2026-06-10 08:00 CEST"
    assert told(BERLIN, it.opens_s(wednesday + 9 * 3600, 8 * 3600.0)) == "Thu 2026-06-11 08:00 CEST"
    assert told(BERLIN, it.opens_s(wednesday, 9 * 3600.0)) == "Sat 2026-06-13 08:00 CEST"
    assert it.opens_s(wednesday, 13 * 3600.0) == math.inf


@pytest.mark.parametrize(("day", "night_h"), [("autumn", 9), ("spring", 7), ("plain", 8)])
def test_a_night_has_as_many_hours_as_it_has(day, night_h):
    """The night of a change of the clock is an hour longer or shorter, and its parts meet without a gap."""
    night, rest = (
        Rate("night", Decimal("0.1"), (hours_of_week("22:00-06:00"),)),
        Rate("day", Decimal("0.3"), (hours_of_week("06:00-22:00"),)),
    )
    tariff, begin_s = Tariff(BERLIN, (night, rest)), MIDNIGHT[day] - 3 * 3600
    parts = tariff.divided(begin_s, begin_s + 26 * 3600)
    assert [rate.name for _, _, rate in parts] == ["day", "night", "day", "night"][: len(parts)]
    assert parts[1][1] - parts[1][0] == night_h * 3600
    assert [a[1] for a in parts[:-1]] == [b[0] for b in parts[1:]]
    assert tariff.changes_s(begin_s) == parts[1][0]
    assert tariff.at(parts[1][0]) == night
    assert tariff.mean() == (8 * Decimal("0.1") + 16 * Decimal("0.3")) / 24


def test_gaps_and_overlaps_of_a_tariff_are_found():
    """A tariff without a price at some hour, or with two, says when; one price for all else fills every gap."""
    night, early = hours_of_week("22:00-06:00"), hours_of_week("Mon-Fri 05:00-22:00")
    assert gaps([Rate("night", Decimal(1), (night,)), Rate("early", Decimal(2), (early,))]) == (
        "Sat 06:00",
        "Mon 05:00",
    )
    assert gaps([Rate("night", Decimal(1), (night,)), Rate("else", Decimal(2))]) == ("", "")


@pytest.mark.parametrize("text", ["2026-10-10", "2026-10-10T00:00", "tomorrow"])
def test_an_instant_needs_its_offset(text):
    """A date without the offset of its clock could be several instants."""
    with pytest.raises(ValueError, match="offset"):
        instant(text)
