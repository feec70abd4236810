"""Hours and tariffs in a configuration."""

from __future__ import annotations

import pytest

from rigctl.rig.calendar import instant
from tests.config.conftest import SMALL, loaded, problems

TOP = "zone: Europe/Berlin\n"


def test_hours_are_those_of_the_zone():
    """Campaign and actuators have hours of their own, and know how long a trial is expected to take."""
    text = TOP + "allowed: [Mon-Fri 08:00-18:00, Sat 09:00-12:00]\n" + SMALL
    text = text.replace("limits: {", 'limits: {ca_valve: {allowed: "22:00-06:00"}, ')
    rig = loaded(text).rig
    assert str(rig.allowed) == "Mon-Fri 08:00-18:00, Sat 09:00-12:00 (Europe/Berlin)"
    assert rig.limits["ca_valve"].allowed.is_open(instant("2026-06-10T02:00+02:00"))
    assert rig.expected_s > 1500.0
    assert loaded(SMALL).rig.calendar is False


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("allowed: 08:00-18:00\n" + SMALL, "zone", "is missing, must say where the rig stands"),
        ("zone: Berlin\n" + SMALL, "zone", "must be a time zone such as Europe/Berlin"),
        (TOP + "allowed: 8 to 6\n" + SMALL, "allowed", 'must be hours of the day such as "08:00-18:00"'),
        (TOP + "allowed: [08:00-18:00, Mo]\n" + SMALL, "allowed[1]", "must name days as Mon, Tue"),
        (TOP + "allowed: 08:00-08:20\n" + SMALL, "allowed", "for as long as a trial is expected to take, 25 min"),
        ("clock: {begins: 2026-10-10T00:00+02:00}\n" + SMALL, "clock.begins", "is for simulated rigs"),
        ("clock: {speedup: 10, begins: 2026-10-10}\n" + SMALL, "clock.begins", "with an offset"),
        (
            SMALL.replace("limits: {", "limits: {camera: {allowed: Sat}, "),
            "safety.limits.camera",
            "must be an actuator",
        ),
    ],
)
def test_hours_that_cannot_be_kept_are_refused(text, where, what):
    """Each mistake is told where it stands."""
    found = problems(text)
    (said,) = [said for place, said in found.items() if place.endswith(f" {where}")]
    assert what in said
