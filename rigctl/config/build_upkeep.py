"""What runs out, wears out and has to be calibrated: from a device's sections to its `CareSpec`."""

from __future__ import annotations

from rigctl.config.findings import Context
from rigctl.config.schema import DeviceSection
from rigctl.errors import KeyPath
from rigctl.rig.spec import CareSpec


def build_care(context: Context) -> dict[str, CareSpec]:
    """Return what is counted, by device; only to be used if nothing was found."""
    found = {name: _care(context, name, section) for name, section in context.config.devices.items()}
    return {name: care for name, care in found.items() if care != CareSpec()}


def _care(context: Context, name: str, section: DeviceSection) -> CareSpec:
    path: KeyPath = ("devices", name)
    inventory, tubing, calibration = section.inventory, section.tubing, section.calibration
    for key, given in (("inventory", inventory), ("tubing", tubing)):
        if given is not None and name not in context.pumps:
            context.findings.add((*path, key), f"is only for pumps, and {name} doses nothing; take it out")
    low, high = CareSpec().slope if calibration is None else calibration.slope
    if not 0 <= low < high:
        what = f"got [{low:g}, {high:g}], must be two rising percentages"
        context.findings.add((*path, "calibration", "slope"), what)
    return CareSpec(
        bottle_ml=None if inventory is None else inventory.volume,
        warn_doses=0 if inventory is None else inventory.warn_at,
        tubing_ml=None if tubing is None else tubing.replace_after,
        calibrate_every_s=None if calibration is None else calibration.every,
        slope=(low, high),
    )
