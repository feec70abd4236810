"""Outcomes that come later, from the file to the rig."""

from __future__ import annotations

import pytest

from rigctl.config.units import Units
from rigctl.console.checking import lines, plan
from rigctl.errors import ConfigError
from rigctl.rig.spec import LateSpec
from tests.config.conftest import BY_HAND, SMALL, loaded, loaded_to_run

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


@pytest.mark.parametrize(
    ("said", "rest", "told"),
    [
        ("by: hand, sensor: camera", "", 'got "camera", but a person says it (by: hand); take one of them out'),
        ("by: hand, after: 2 h", "", "is for an outcome that a sensor reads; by: hand takes `within` alone"),
        ("sensor: camera, within: 2 h", "", "is only for an outcome that comes later: give by: hand, or `after`"),
        ("sensor: camera, after: 2 h, within: 1 h", "", 'got "1 h", must be more than `after`, 2 h'),
        ("by: hand, within: 0 s", "", "must be more than nothing"),
        ("by: hnad", "", "must be sensor or hand"),
        ("by: hand", "\nfurther_outcomes: [{name: m, unit: g, by: hand, within: 1 h}]", "is said of `outcome`"),
        ("sensor: camera", "\nfurther_outcomes: [{name: m, unit: g, by: hand}]", "if `outcome` is by hand, too"),
        ("by: hand", "\nfurther_outcomes: [{name: m, unit: g}]", "must name the device that measures m"),
    ],
)
def test_what_does_not_hold_is_told_in_plain_words(said, rest, told):
    """With its place in the file, as everything else."""
    with pytest.raises(ConfigError) as caught:
        loaded_to_run(late(said, rest))
    assert told in str(caught.value)


def test_an_interlock_cannot_look_at_what_a_person_says():
    """Nobody could judge it."""
    interlock = late("by: hand").replace(
        "safety:\n", "safety:\n  interlocks: [{name: bad, when: growth < 0 cm2/day, then: hold}]\n"
    )
    with pytest.raises(ConfigError, match='got "growth", which a person says'):
        loaded_to_run(interlock)


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
