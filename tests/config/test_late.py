"""Outcomes that come later, from the file to the rig."""

from __future__ import annotations

import pytest

from rigctl.config.units import Units
from rigctl.console.checking import lines, plan
from rigctl.rig.spec import LateSpec
from tests.config.conftest import loaded, loaded_to_run
from tests.config.texts import BY_HAND, SMALL

OUTCOME = "sensor: camera, floor: 0}"
PLAIN = SMALL.replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")


def late(said, rest=""):
    """The small rig with an outcome of which this is said."""
    assert OUTCOME in PLAIN
    return PLAIN.replace(OUTCOME, f"{said}, floor: 0}}{rest}")


def test_what_is_said_of_a_late_outcome():
    """By a person within 7 days unless the file says otherwise, or by the sensor, read when it is time."""
    assert loaded_to_run(PLAIN).rig.late is None
    by_hand = loaded_to_run(late("by: hand")).rig
    assert (by_hand.late, by_hand.outcome_sensor) == (LateSpec(("growth",), "hand", 7 * 86_400.0), "")
    more = "by: hand, within: 3 d, then: hold, pending: 4, at_end: end, plausible: [0, 5]"
    held = loaded_to_run(late(more))
    assert held.rig.late == LateSpec(("growth",), "hand", 3 * 86_400.0, 0.0, True, 4, False)
    assert held.plausible == {"ph": (3.0, 10.0), "growth": (0.0, 5.0)}
    assert loaded_to_run(late("sensor: camera, after: 20 h")).rig.late == LateSpec(
        ("growth",), "sensor", 144_000.0, 72_000.0
    )
    further = (
        "\nfurther_outcomes:\n  - {name: taste, unit: '1', by: hand}\n  - {name: mass, unit: cm2/day, sensor: camera}"
    )
    assert loaded_to_run(late("by: hand", further)).rig.late.names == ("growth", "taste")
    assert loaded(BY_HAND.replace("floor: 0", "by: hand, floor: 0")).rig.late is None


def test_check_says_what_follows():
    """In sentences of what it amounts to."""
    told = {}
    for said in ("by: hand, within: 3 d", "sensor: camera, after: 20 h, then: hold, at_end: end"):
        found = loaded_to_run(late(said))
        told[said] = [
            line
            for line in lines(plan(found), found, 200)
            if "await" in line or "after a trial" in line or "person" in line
        ]
    assert list(told.values()) == [
        [
            "A person says growth within 3 days of a trial: `rigctl outcome TRIAL VALUE`; then it ends without.",
            "Up to 16 trials may await it; a campaign that is over waits for what is awaited, then ends.",
        ],
        [
            "growth is read 20 h after a trial, and tried again until 1 day 16 h after it.",
            "The next trial waits for it; a campaign that is over ends while some are awaited.",
        ],
    ]
    assert Units("EUR").to("0.1 m2/day", "cm2/day", "a growth") == pytest.approx(1000.0)
    assert Units("EUR").to("0.1 m²·day⁻¹", "cm²/day", "a growth") == pytest.approx(1000.0)
