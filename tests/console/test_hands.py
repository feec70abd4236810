"""What a person does to single instruments from a terminal."""

from pathlib import Path

import pytest
import typer

from rigctl.campaign.requests import Calibrate
from rigctl.console import hands
from rigctl.errors import UsageError

PLACE = hands.CampaignPlace(Path("state/tank"), None, {})


@pytest.fixture
def done(monkeypatch):
    """What the instruments were told."""
    told = []
    monkeypatch.setattr(hands, "_done", lambda _, asked: told.append((asked.operation, asked.volume_ml)) or {})
    return told


def answered(monkeypatch, *answers):
    """Have a person at the terminal who answers so, and then goes."""
    left = iter(answers)

    def asked(*_, **_options):
        try:
            return next(left)
        except StopIteration:
            raise typer.Abort from None

    monkeypatch.setattr("typer.prompt", asked)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)


def test_nothing_is_dispensed_for_a_calibration_that_nobody_can_be_asked_about(bench, done, monkeypatch):
    """Whoever gives no measurement, and is not there to be asked for one, is refused before the dose."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert "--measured" in bench.rigctl("device", "calibrate", "pump", "--state", "state/tank", code=2).err
    assert done == []


def test_a_measurement_is_asked_for_until_it_can_be_read(done, monkeypatch, capsys):
    """What was dispensed is not dispensed again for a slip of the finger."""
    answered(monkeypatch, "viel", "", "9.6 mL")
    list(hands.by_hand(PLACE, Calibrate(device="pump")))
    assert done == [("dose", 10.0), ("calibrate", 9.6)]
    assert '"viel"' in capsys.readouterr().err


def test_a_calibration_that_nobody_answers_says_what_was_done(done, monkeypatch, golden):
    """The end of the input, or Ctrl-C, leaves the pump as it was calibrated."""
    answered(monkeypatch)
    with golden.raises(UsageError):
        list(hands.by_hand(PLACE, Calibrate(device="pump")))
    assert done == [("dose", 10.0)]


@pytest.mark.parametrize("date", ["gestern", "01.03.2026", "2026-02-31", "0001-01-01"])
def test_a_day_that_the_calendar_does_not_have_is_refused(date):
    """Also one so long ago that no clock of the machine knows it."""
    with pytest.raises(UsageError) as refused:
        hands.since(date)
    assert (refused.value.flaw.where, refused.value.flaw.got) == ("--on", f'"{date}"')
