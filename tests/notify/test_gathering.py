from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.campaign.journal.rows import AlarmRow
from rigctl.notify.gathering import BURST, EVERY_S, GROUP_S, REPEAT_S, Gathering, SignOfLife, SummaryClock
from rigctl.notify.texts import Words
from rigctl.rig.protocols import Severity

MAJOR, MINOR = Severity.MAJOR, Severity.MINOR
BERLIN = ZoneInfo("Europe/Berlin")
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Day:
    """A gathering, and the clock that it goes by."""

    def __init__(self, at_least=MAJOR):
        self.gathering = Gathering(Words("tank", BERLIN), at_least)
        self.now_s = 1000.0
        self.told = []
        """(time since the beginning, title, body)"""

    def utc(self):
        return (BEGIN + timedelta(seconds=self.now_s - 1000.0)).isoformat()

    def alarm(self, source, kind, severity=MAJOR, *, state="once", action="", message=""):
        said = {"kind": kind, "state": state, "action": action}
        what = AlarmRow(None, severity, source, message or kind, self.utc(), self.now_s, **said)
        self.gathering.raised(what, self.now_s)

    def begins(self, source, kind, severity=MAJOR, **more):
        self.alarm(source, kind, severity, state="stands", action="hold", **more)

    def ends(self, source, kind):
        self.alarm(source, kind, MINOR, state="over")

    def minded(self, verb, source, kind, seconds=0.0):
        what = AlarmMinded(verb, kind, source, seconds, "Ada", "", self.utc(), self.now_s)
        self.gathering.minded(what, self.now_s)

    def wait(self, seconds, step_s=1.0):
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + step_s)
            self.gathering.passed(self.now_s, self.utc(), self.now_s)
            message = self.gathering.due(self.now_s)
            if message is not None:
                self.told.append((self.now_s - 1000.0, message.title, message.body))

    @property
    def titles(self):
        return [title for _, title, _ in self.told]


def test_alarms_of_one_moment_are_one_message(golden):
    """Each is named with what, since when, what the rig does and what to do; the worst first."""
    day = Day()
    day.gathering.phase = "the campaign holds"
    day.begins("ph_probe", "acid", message="acid: ph < 4.5 pH: ph reads 4.2 pH")
    day.wait(3)
    day.alarm("ec_probe", "trial failed")
    day.alarm("tank", "empty", Severity.INVALID, state="stands", action="trip")
    day.wait(60)
    ((at_s, title, body),) = day.told
    assert at_s == GROUP_S
    golden(title)
    golden(body)


def test_the_same_alarm_is_told_once_and_after_an_hour_with_a_count(golden):
    """However often it is raised meanwhile."""
    day = Day()
    for _ in range(400):
        day.alarm("ec_probe", "trial failed", message=f"after {day.now_s} s")
        day.wait(10)
    assert [at_s for at_s, *_ in day.told] == [GROUP_S, pytest.approx(GROUP_S + REPEAT_S + GROUP_S, abs=11)]
    golden(day.told[1][2])


def test_its_end_is_told_once(golden):
    """Of an alarm that people know of; what came and went before they were told is one line that says both."""
    day = Day()
    day.begins("ph", "low")
    day.wait(60)
    day.ends("ph", "low")
    day.wait(60)
    golden(day.titles)
    assert "2026-03-01 13:01:00 CET" in day.told[1][2]
    day.begins("ec", "high")
    day.ends("ec", "high")
    day.wait(60)
    assert [title.endswith(", ec") for title in day.titles] == [False, False, True]
    golden(day.told[2][2])


def test_what_comes_and_goes_is_told_three_times_and_then_once_an_hour(golden):
    """The last of them says so; an alarm that stands is never left as one that is over."""
    day = Day()
    for _ in range(60):
        day.begins("ph", "low")
        day.wait(60)
        day.ends("ph", "low")
        day.wait(60)
    within = [(at_s, title) for at_s, title, _ in day.told if at_s < REPEAT_S]
    assert sum("warning" in title for _, title in within) == 3
    assert len(within) <= 6
    golden([body for _, title, body in day.told if "warning" in title][2])
    assert len(day.told) <= 12


@pytest.mark.slow
def test_there_are_never_many_messages():
    """A thousand different alarms in an hour: a few messages, and nothing is left out of the count."""
    day = Day()
    for number in range(1000):
        day.alarm(f"device-{number}", "is broken")
        day.wait(3.6)
    day.wait(2 * EVERY_S)
    assert len(day.told) <= BURST + (3600 + 2 * EVERY_S) / EVERY_S
    names = sum(body.count("WARNING device-") for _, _, body in day.told)
    others = sum(int(part.split()[0]) for _, _, body in day.told for part in body.split("And ")[1:])
    assert names + others == 1000


def test_notes_are_told_only_if_they_are_wanted():
    """`at_least` is a severity."""
    for least, titles in ((MAJOR, []), (MINOR, ["tank: note, disk"])):
        day = Day(least)
        day.alarm("disk", "disk", MINOR, state="stands", action="warn")
        day.wait(60)
        assert day.titles == titles


def test_a_shelved_alarm_is_told_again_when_it_is_back(golden):
    """Not meanwhile; at the end of its time, if it still stands then, or when somebody ends that."""
    day = Day()
    day.begins("ph", "low")
    day.wait(60)
    day.minded("shelve", "ph", "low", 600.0)
    for _ in range(8):
        day.begins("ph", "low")
        day.wait(60)
    assert len(day.told) == 1
    day.wait(200)
    assert len(day.titles) == 2
    assert day.titles[1] == day.titles[0]
    golden(day.told[1][2])
    day.minded("shelve", "ph", "low", 6000.0)
    day.minded("unshelve", "ph", "low")
    day.wait(60)
    assert len(day.told) == 3


def test_who_has_seen_it_is_not_reminded(golden):
    """An acknowledged alarm that still stands is told no more, until it has gone and come back."""
    day = Day()
    day.begins("ph", "low")
    day.wait(60)
    day.minded("ack", "ph", "low")
    for _ in range(5):
        day.begins("ph", "low")
        day.wait(3000, 10.0)
    assert len(day.told) == 1
    day.ends("ph", "low")
    day.wait(60)
    day.begins("ph", "low")
    day.wait(60)
    golden(day.titles)
    assert len(day.titles) == 3


@pytest.mark.parametrize(
    ("first", "at"),
    [
        (datetime(2026, 3, 28, 0, 30, tzinfo=UTC), time(2, 30)),  # 02:30 is skipped on the 29th
        (datetime(2026, 10, 24, 0, 30, tzinfo=UTC), time(2, 30)),  # and comes twice on October 25th
        (datetime(2026, 10, 24, 0, 30, tzinfo=UTC), time(8, 0)),
        (datetime(2026, 10, 24, 0, 30, tzinfo=UTC), time(0, 0)),
    ],
)
def test_the_summary_comes_once_a_day_also_when_the_clocks_change(first, at):
    """Four days, looked at every ten minutes: once by each day of the calendar after the first."""
    daily, days = SummaryClock(at, BERLIN), []
    for step in range(4 * 144):
        now = first + timedelta(minutes=10 * step)
        if daily.due(now):
            days.append(now.astimezone(BERLIN).date())
    assert len(days) == len(set(days))
    assert set(days) >= {(first + timedelta(days=n)).astimezone(BERLIN).date() for n in (1, 2, 3)}


def test_a_clock_that_is_set_back_brings_no_second_summary():
    """Nor does a start after its time."""
    daily = SummaryClock(time(8, 0), UTC)
    assert not daily.due(datetime(2026, 3, 1, 9, tzinfo=UTC))
    assert daily.due(datetime(2026, 3, 2, 8, 1, tzinfo=UTC))
    assert not daily.due(datetime(2026, 3, 1, 23, tzinfo=UTC))
    assert not daily.due(datetime(2026, 3, 2, 8, 2, tzinfo=UTC))
    assert daily.due(datetime(2026, 3, 3, 8, 0, tzinfo=UTC))


def test_a_watch_that_hangs_gives_no_sign_of_life():
    """One each quarter of an hour while it looks, none from half a minute after it looked last."""
    sign, given = SignOfLife(900.0), []
    for second in range(7200):
        if second < 3600 or second >= 5400:
            sign.looked(float(second))
        if sign.due(float(second)):
            given.append(second)
    assert given == [0, 900, 1800, 2700, 3600, 5400, 6300]
