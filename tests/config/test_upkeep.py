"""What runs out, wears out and has to be calibrated, from the file to the rig."""

from __future__ import annotations

from rigctl.console.checking import counted_of
from rigctl.rig.spec import CareSpec
from tests.config.conftest import loaded_to_run
from tests.config.texts import SMALL

PUMP = "doser: {driver: ezo-pmp,"
PROBE = "probe: {driver: ezo,"
RIG = SMALL.replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")


def with_care(pump="", probe=""):
    """The small rig with these keys at its pump and at its probe."""
    assert PUMP in RIG
    return RIG.replace(PUMP, f"{PUMP}{pump}").replace(PROBE, f"{PROBE}{probe}")


def test_what_is_counted_of_a_device():
    """Volumes and times in the rig's units; `20 doses` as well as 20; a probe's slopes have a usual band."""
    pump = "inventory: {volume: 0.5 L, warn_at: 30 doses}, tubing: {replace_after: 50 L},"
    care = loaded_to_run(with_care(pump, "calibration: {every: 30 d},")).rig.care
    assert care["doser"] == CareSpec(500.0, 30, 50_000.0)
    assert care["probe"] == CareSpec(calibrate_every_s=30 * 86_400.0, slope=(85.0, 105.0))
    assert loaded_to_run(with_care("inventory: {volume: 1 L, warn_at: 3},")).rig.care["doser"].warn_doses == 3
    assert loaded_to_run(RIG).rig.care == {}


def test_check_says_what_is_counted():
    """One phrase for each of a device, in units that people use."""
    care = CareSpec(500.0, 1, 50_000.0, 30 * 86_400.0, (90.0, 105.0))
    assert counted_of(care) == (
        "a bottle of 500 mL, warned of at 1 dose; tubing for 50 L; calibrated every 30 d; slopes of 90 to 105 %"
    )
    assert counted_of(CareSpec(calibrate_every_s=3600.0)) == "calibrated every 1 h"
