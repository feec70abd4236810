"""Nothing that an instrument, a file or a journal says commands a terminal, forges a line or turns one round."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing

import pytest
import structlog

from rigctl import logs
from rigctl.campaign.journal import Journal
from rigctl.campaign.status import StatusFold
from rigctl.console import output
from rigctl.console.journals import _cell
from rigctl.console.output import console, print_fields, screen_class
from rigctl.core.advice.rule import Setting
from rigctl.core.advice.rules.saying import _setting
from rigctl.errors import ConfigError, DeviceFault, GarbledReply, Mistake
from rigctl.flaws import Flaw
from rigctl.page import words
from rigctl.page.door import plain_page
from rigctl.page.facts import log_entries
from rigctl.page.render import environment
from rigctl.printable import one_line, printable
from rigctl.rig.protocols import Deadline, Identity, Reading, Severity
from rigctl.rig.testing import ScriptedLine
from rigctl.rig.values import Alarm
from rigctl.text import settings
from rigctl_drivers.scpi_instrument import ScpiDriver
from tests.campaign.fakes import make_spec
from tests.campaign.records import SetClock
from tests.page.conftest import NOON

ATTACKS = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "link": "\x1b]8;;http://evil/\x1b\\here\x1b]8;;\x1b\\",
    "C1": "\x9b31mred\x9d0;owned\x9c",
    "bell and erase": "\x07\b\b\bgone\x7f",
    "overwritten": "alarm\rall is well",
    "turned round": "safe\u202efas ton\u2066\u2069\u200f",
    "hidden": "a\u200bb\ufeffc\u2028d\U000e0041",
}
EVERYTHING = " ".join(ATTACKS.values())


def harmless(text):
    return not set(printable(text)) ^ set(text) and all(c.isprintable() or c in "\n\t" for c in text)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_commands_is_taken_out_and_what_was_hidden_can_be_read(attack):
    """The payload of an escape stays as text; so nobody hides the rest of a line in one."""
    text = f"before {ATTACKS[attack]} after"
    assert harmless(printable(text))
    assert printable(text).startswith("before")
    assert printable(text).endswith("after")
    assert "\n" not in one_line(f"{text}\nforged line")


def test_text_of_people_stays_as_it_is():
    """Letters of any script, blanks of any width, line ends and tabs."""
    text = "Säure 5\u00a0mM\u202fµ 水槽 pH→7,\n\tzweite Zeile"
    assert printable(text) == text
    assert len(one_line("x" * 5000)) == 2000


def answering(text, raw):
    """A SCPI instrument that answers every question with this, byte by byte."""
    line = ScriptedLine(lambda _: (), terminator=b"\n")
    line.read_line = lambda *_: raw
    options = ScpiDriver.options(unit="V", query=text)
    return ScpiDriver.connect(options, line)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("form", ["{}", '-113,"{}"', "Maker,{},1,2"])
def test_an_instrument_cannot_put_it_into_an_error(attack, form):
    """Such an answer is garbled; its bytes are told as Python writes them."""
    device = answering("MEAS?", form.format(ATTACKS[attack]).encode())
    for ask in (device.read, device.identify):
        with pytest.raises(GarbledReply) as refused:
            ask(Deadline.after(1.0))
        assert harmless(str(refused.value))


def test_nor_can_a_driver_of_others():
    """What it raises, reads and recognises is made printable where it comes in."""
    said = [
        str(DeviceFault(EVERYTHING, device="dmm")),
        Reading.invalid("V", 0.0, EVERYTHING).detail,
        Identity(EVERYTHING).model,
        str(ConfigError([Mistake("rig.yaml:1", Flaw(EVERYTHING))])),
        Alarm(Severity.MAJOR, EVERYTHING, EVERYTHING, EVERYTHING, kind="k").detail,
    ]
    assert all(harmless(str(text)) for text in said)
    assert len(str(DeviceFault("x" * 10**6))) == 2000


def test_an_alarm_is_harmless_in_journal_status_and_page(tmp_path):
    """The text of a hostile alarm on its way to every place where it is shown."""
    alarm = Alarm(Severity.MAJOR, "dmm", EVERYTHING, kind="k")
    with closing(Journal(tmp_path, SetClock(), "boot-1", lambda: NOON)) as journal:
        journal.begin(make_spec(), "0.0")
        journal.alarms.add(alarm)
        shown = [entry.text for entry in log_entries(journal.read, 10, None)]
    status = StatusFold.of("tank", "EUR", 1.0)
    status.follow(alarm)
    page = environment().from_string("{{ text }}").render(text=EVERYTHING)
    assert shown
    assert all(map(harmless, [*shown, status.told(0.0).last_alarm, page, plain_page(EVERYTHING, [EVERYTHING])]))


def test_a_terminal_is_told_text(capsys):
    """Also what came around every other door, such as a journal that somebody has sent."""
    print_fields({"alarm": EVERYTHING, "list": [EVERYTHING], "forged": "wait\nphase: running"})
    screen = screen_class()(file=io.StringIO(), force_terminal=True, markup=False, highlight=False)
    screen.print(EVERYTHING, style="bold")
    assert isinstance(console(), screen_class())
    out = capsys.readouterr().out
    assert harmless(out)
    assert [line.partition(":")[0] for line in out.splitlines()] == ["alarm", "list", "forged"]
    plain = screen.file.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert harmless(plain)
    assert "]52;c;cm0gLXJm" in plain


@pytest.mark.parametrize("terminal", [True, False])
def test_a_log_is_told_text(terminal, monkeypatch):
    """On a terminal and as JSON."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", stream)
    before = structlog.get_config()
    try:
        logs.configure_logs()
        structlog.get_logger().error("alarm", message=f"{EVERYTHING}\nforged")
    finally:
        structlog.configure(**before)
    line = stream.getvalue()
    assert "cm0gLXJm" in line
    assert len(line.splitlines()) == 1
    if terminal:
        assert line.startswith("rigctl: ")
        assert not {"\x07", "\x9b", "\u202e", "\r"} & set(line)
        assert "\x1b]" not in line
    else:
        assert harmless(json.loads(line)["message"])


def test_a_spreadsheet_works_nothing_out():
    """What begins like a formula is quoted in a CSV; numbers are left alone."""
    out = io.StringIO()
    csv.writer(out).writerow([_cell(v) for v in ("=1+1", "+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", -5.0, "ph+ca")])
    assert next(csv.reader([out.getvalue()])) == ["'=1+1", "'+cmd|' /C calc'!A0", "'@SUM(1)", "'\t=1", "-5.0", "ph+ca"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(28063.2, "28063"), (9999.6, "10000"), (12.3456, "12.35"), (1.23456e-7, "1.235e-07"), (1e12, "1e+12")],
)
def test_large_numbers_are_written_in_full(value, text, capsys):
    """On the page, in a terminal, in sentences and in a rule: nobody sets 2.806e+04 mg/L, or pays 1.23457e+06 yen."""
    assert output.number(value) == text
    assert settings({"x": value}, {"x": "mg/L"}) == f"x = {text} mg/L"
    assert _setting(Setting("x", value, (), 0.0, 1e13), {"x": "mg/L"}) == f"x {text} mg/L"
    if value >= 1e-4:
        assert words.number(value) == text
    print_fields({"spent": 100 * value + 1_200_000})
    assert "e+" not in capsys.readouterr().out or value == 1e12
