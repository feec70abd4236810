from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.alarms import AlarmMinded, Alarms, Begun, pressing, shelved_words, worst
from rigctl.campaign.journal.rows import AlarmRow
from rigctl.errors import UsageError
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.records import SetClock, begun

MAJOR, MINOR = Severity.MAJOR, Severity.MINOR
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def utc(at_s: float) -> str:
    return (MIDNIGHT + timedelta(seconds=at_s)).isoformat()


def raised(at_s, source, kind, severity=MAJOR, *, state="once", message="", action=""):
    said = {"kind": kind, "state": state, "action": action}
    return AlarmRow(None, severity, source, message, utc(at_s), at_s, alarm=round(at_s), **said)


def begins(at_s, source, kind, severity=MAJOR, **more):
    return raised(at_s, source, kind, severity, state="stands", **more)


def ends(at_s, source, kind, **more):
    return raised(at_s, source, kind, MINOR, state="over", **more)


def minded(at_s, verb, first, seconds=0.0):
    return AlarmMinded(verb, *first.key, seconds, "Ada", "seen", utc(at_s), at_s, first.alarm)


def seen(*events, at_s=1e6):
    return Alarms().taken(events).shown(at_s, utc(at_s))


def told(*events, at_s=1e6):
    return [(a.alarm, a.condition, a.count) for a in seen(*events, at_s=at_s)]


def test_a_thousand_times_the_same_is_one_alarm_with_a_count():
    """Kind and source say what is the same, whatever the words; the last words and the worst severity are shown."""
    failures = [raised(n, "pump1", "trial failed", message=f"gave {n / 7} mL") for n in range(1, 1001)]
    others = [raised(2000, "pump2", "trial failed"), raised(2001, "pump1", "dose unknown")]
    assert told(*failures, *others) == [(2001, "active", 1), (2000, "active", 1), (1, "active", 1000)]
    assert seen(*failures)[0].message == failures[-1].message
    assert seen(failures[0], raised(2, "pump1", "trial failed", MINOR))[0].severity is MAJOR


def test_what_is_over_stands_no_more_but_waits_to_be_seen():
    """The states of ISA-18.2: stands, over and not seen, settled; or stands and seen, then settled by its end."""
    first, end, again = begins(1, "ph", "acid"), ends(3, "ph", "acid", message="other words"), begins(7, "ph", "acid")
    assert told(first) == [(1, "active", 1)]
    assert told(first, end) == [(1, "over", 1)]
    assert told(first, end, again) == [(1, "active", 2)]
    assert told(first, minded(2, "ack", first)) == [(1, "acknowledged", 1)]
    assert told(first, minded(2, "ack", first), end) == [(1, "settled", 1)]
    assert told(first, minded(2, "ack", first), end, again) == [(7, "active", 1)]
    assert told(first, end, Begun(utc(4), 4.0), minded(5, "ack", first), again) == [(7, "active", 1)]


@pytest.mark.parametrize("words", ["", "confirmed in its safe state (over)", "low (stands)", "has 0 mL left (hold)"])
def test_fault_91_of_two_alarms_of_one_device_the_end_of_one_leaves_the_other(words):
    """An empty bottle goes on standing when its pump is confirmed safe, whatever any message says."""
    empty, unsafe = begins(1, "pump", "empty", message=words), begins(2, "pump", "unconfirmed")
    assert told(empty, unsafe, ends(3, "pump", "unconfirmed", message=words)) == [(1, "active", 1), (2, "over", 1)]
    assert told(empty, unsafe, ends(3, "other", "empty", message=words)) == [(2, "active", 1), (1, "active", 1)]


def test_a_process_that_begins_looks_anew():
    """What an earlier process saw is over, what it raises itself stands; a failed trial waits for a person."""
    events = [begins(1, "ph", "low"), raised(2, "trial", "trial failed"), Begun(utc(3), 3.0)]
    assert told(*events) == [(2, "active", 1), (1, "over", 1)]
    assert told(*events, begins(4, "ph", "low")) == [(1, "active", 2), (2, "active", 1)]


def test_a_note_need_not_be_acknowledged():
    """MINOR without an end is over at once, however often; MINOR with one stands until then."""
    notes = [raised(n, "pump", "restarted", MINOR) for n in (1, 2)]
    disk = begins(3, "disk", "disk", MINOR)
    assert told(*notes, disk) == [(3, "active", 1), (1, "settled", 2)]
    assert [a.alarm for a in pressing(seen(*notes, disk))] == [3]


def test_the_worst_that_stands_comes_first():
    """Then what was seen, then what is over; the worst of them by name."""
    small, large = begins(1, "disk", "low", MINOR), begins(2, "ph", "low")
    past, known = begins(3, "old", "gone"), begins(5, "tank", "empty", Severity.INVALID)
    events = (small, large, past, ends(4, "old", "gone"), known, minded(6, "ack", known))
    assert [a.alarm for a in seen(*events)] == [2, 1, 5, 3]
    assert worst(seen(*events)).alarm == 5
    assert worst(seen(past, ends(4, "old", "gone"))) is None


def test_a_shelved_alarm_comes_back_by_itself():
    """It stands all the while and says so; by campaign time or by the wall clock, whichever is first."""
    first = begins(10, "ph", "low")
    shelved = minded(20, "shelve", first, 600.0)
    alarms = Alarms().taken((first, shelved))
    assert [a.shelf.who for a in alarms.shown(619.9, utc(619.9))] == ["Ada"]
    assert alarms.shown(619.9, utc(619.9))[0].condition == "active"
    for now_s, now_utc in ((620.0, utc(30)), (30.0, utc(620))):  # a clock that was set back; a machine that was off
        assert alarms.shown(now_s, now_utc)[0].shelf is None
    assert not alarms.shelved(("high", "ph"), 30.0, utc(30))
    assert alarms.shelved(("low", "ph"), 30.0, utc(30))
    assert not alarms.taken([minded(40, "unshelve", first)]).shelved(("low", "ph"), 41.0, utc(41))


@pytest.mark.parametrize("seconds", [0.0, -1.0, 24 * 3600.0 + 1, float("nan")])
def test_nobody_shelves_for_good(seconds, golden):
    """At most 24 hours at a time."""
    with golden.raises(UsageError):
        shelved_words(3, seconds)


def test_an_acknowledgement_of_an_earlier_time_settles_no_later_one():
    """Who names an old number has seen the old alarm only."""
    first, end, again = begins(1, "ph", "low"), ends(2, "ph", "low"), begins(4, "ph", "low")
    assert told(first, end, minded(3, "ack", first), again, minded(5, "ack", first)) == [(4, "active", 1)]


WHAT = st.tuples(
    st.sampled_from(["ph", "bus"]),
    st.sampled_from(["low", "line", "trial failed"]),
    st.sampled_from([MAJOR, MINOR]),
    st.sampled_from(["stands", "over", "once"]),
)
HAPPENS = st.lists(st.one_of(WHAT, st.sampled_from(["begun", "ack", "shelve", "unshelve"])), max_size=30)


@given(HAPPENS, st.integers(0, 30))
def test_whenever_it_is_looked_at_it_comes_to_the_same(happens, looks_at):
    """All at once or in two looks; every time something was raised is counted, and what is over does not stand."""
    events, last = [], begins(1, "ph", "low")
    for at_s, what in enumerate(happens, start=2):
        if isinstance(what, tuple):
            events.append(raised(at_s, *what[:3], state=what[3]))
            last = events[-1]
        else:
            events.append(Begun(utc(at_s), float(at_s)) if what == "begun" else minded(at_s, what, last, 5.0))
    whole = Alarms().taken(events)
    assert Alarms().taken(events[:looks_at]).taken(events[looks_at:]) == whole
    shown = whole.shown(100.0, utc(100))
    assert sum(a.count for a in shown) <= sum(isinstance(e, AlarmRow) for e in events)
    assert [a for a in shown if a.active and a.until] == []
    assert [a.condition for a in shown] == sorted(
        (a.condition for a in shown), key=["active", "acknowledged", "over", "settled"].index
    )


def test_what_an_instrument_has_sent_moves_no_terminal(golden):
    """Escapes and line ends are blanks in what people are shown."""
    (state,) = seen(raised(1, "ph", "garbled", message="garbled: \x1b[2J\x07ok\r\n"))
    assert state.message.isprintable()
    golden(state.message)


def test_the_journal_gives_the_same_in_one_look_or_in_many(tmp_path, golden):
    """What is read on from a mark is taken in as if all had been read at once; shelves outlive the process."""
    clock, book, mark = SetClock(), Alarms(), None
    with closing(begun(tmp_path, clock=clock)) as journal:
        for work in (
            lambda: journal.alarms.add(Alarm(MAJOR, "ph", "", kind="low", state="stands")),
            lambda: journal.alarms.acknowledge(1, "Ada", "on my way"),
            lambda: journal.alarms.mind("shelve", 1, "Ada", "known", seconds=3600.0),
            lambda: journal.alarms.add(Alarm(MINOR, "ph", "", kind="low", state="over")),
        ):
            clock.sleep(1.0)
            work()
            rows = journal.read.alarms
            book, mark = book.taken(rows.events(mark)), rows.mark()
        with golden.raises(UsageError):
            journal.alarms.mind("unshelve", 9, "Ada", "")
    with open_reader(tmp_path) as reader:
        rows = reader.alarms
        assert rows.mark() == mark
        found = Alarms().taken(rows.events())
        assert found == book
        state = found.shown(1005.0, found.shelves["low", "ph"].until_utc[:19] + "+00:00")[0]
    assert (state.alarm, state.condition, state.acknowledged, state.why) == (1, "settled", "Ada", "on my way")
    assert state.shelf is not None


def test_an_act_of_shelving_is_kept_in_fields_and_not_read_out_of_its_words(tmp_path):
    """For as long as was asked, to the second's last digit; an act of another verb with such words is none."""
    with closing(begun(tmp_path)) as journal:
        for kind in ("low", "high"):
            journal.alarms.add(Alarm(MAJOR, "ph", "", kind=kind, state="stands"))
        journal.alarms.mind("shelve", 1, "Ada", "known", seconds=12345.0625)
        journal.people.act("shelve", "Ada", "alarm 2 for 600 s")
        found = Alarms().taken(journal.read.alarms.events())
        at_s = journal.read.people.acts()[0].at_s
    assert {key: shelf.until_s - at_s for key, shelf in found.shelves.items()} == {("low", "ph"): 12345.0625}
