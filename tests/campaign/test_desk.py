"""What the desk tells of a line that fails."""

import io

import pytest
import structlog

from rigctl.campaign.desk import Desk
from rigctl.logs import configure_logs, logger
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm

LINE = "modbus_tcp://10.0.0.7"


class Untold:
    """A journal that keeps nothing."""

    def submit(self, work):
        return self

    def add_done_callback(self, told):
        pass


@pytest.fixture
def heard():
    """What people are told, and how to raise something."""
    told = []
    desk = Desk(Untold(), lambda event: told.append((event.kind, event.state, event.message)), [LINE])

    def alarm(kind, state, source=LINE, severity=Severity.MAJOR):
        desk.alarm(Alarm(severity, source, kind, kind=kind, state=state))

    return told, alarm


def test_what_stands_of_a_line_is_one_alarm_until_all_of_it_is_over(heard):
    """What follows is not told; when what was told is over, the alarm says what is still wrong."""
    told, alarm = heard
    for kind in ("line", "stale sensor", "unconfirmed"):
        alarm(kind, "stands")
    alarm("unconfirmed", "over")
    alarm("line", "over")
    alarm("stale sensor", "over")
    assert told == [("line", "stands", "line"), ("line", "stands", "stale sensor"), ("line", "over", "stale sensor")]


def test_another_fault_of_a_device_stands_beside_that_of_its_line(heard):
    """Only what has the line as its source belongs to it; what happens once is told each time."""
    told, alarm = heard
    alarm("line", "stands")
    alarm("frozen sensor", "stands", "probe")
    alarm("watch blind", "once")
    alarm("line", "over")
    assert [(kind, state) for kind, state, _ in told] == [
        ("line", "stands"),
        ("frozen sensor", "stands"),
        ("watch blind", "once"),
        ("line", "over"),
    ]


def test_a_line_that_fails_again_is_told_again(heard):
    """Whatever fails first then."""
    told, alarm = heard
    alarm("line", "stands")
    alarm("line", "over")
    alarm("bus", "stands")
    alarm("bus", "stands")
    alarm("bus", "over")
    assert [state for _, state, _ in told] == ["stands", "over", "stands", "stands", "over"]
    assert {kind for kind, _, _ in told} == {"line"}


def test_what_is_worse_than_what_was_told_of_a_line_is_told_at_once(heard):
    """A note of a line that stumbles keeps nobody from hearing that it is lost."""
    told, alarm = heard
    alarm("slow", "stands", severity=Severity.MINOR)
    alarm("stale sensor", "stands", severity=Severity.MINOR)
    alarm("line", "stands")
    alarm("line", "over")
    alarm("slow", "over")
    alarm("stale sensor", "over")
    assert [(state, message) for _, state, message in told] == [
        ("stands", "slow"),
        ("stands", "line"),
        ("stands", "slow"),
        ("stands", "stale sensor"),
        ("over", "stale sensor"),
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_on_a_terminal_an_alarm_is_told_in_words_alone(terminal, monkeypatch, heard):
    """Who looks on there has the display; elsewhere the log has it, too."""
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    before = structlog.get_config()
    try:
        configure_logs()
        told, alarm = heard
        alarm("line", "stands")
        logger("rigctl.campaign").error("not kept")
    finally:
        structlog.configure(**before)
    assert [kind for kind, _, _ in told] == ["line"]
    assert [word in stream.getvalue() for word in (LINE, "not kept")] == [not terminal, True]
