"""What runs out, wears out and has to be calibrated: from a device's sections to its `CareSpec`."""

from __future__ import annotations

from rigctl.config.findings import Context
from rigctl.config.schema import DeviceSection
from rigctl.config.units import DURATION, VOLUME
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
    care = CareSpec()
    if inventory is not None:
        bottle = (*path, "inventory", "volume")
        volume_ml = context.quantity(bottle, inventory.volume, VOLUME, None, or_nothing=False)
        care = CareSpec(volume_ml, inventory.warn_at)
    tubing_ml = every_s = None
    if tubing is not None:
        worn = (*path, "tubing", "replace_after")
        tubing_ml = context.quantity(worn, tubing.replace_after, VOLUME, None, or_nothing=False)
    low, high = 85.0, 105.0
    if calibration is not None:
        due = (*path, "calibration", "every")
        every_s = context.quantity(due, calibration.every, DURATION, None, or_nothing=False)
        low, high = calibration.slope
        if not 0 <= low < high:
            context.findings.add(
                (*path, "calibration", "slope"), f"got [{low:g}, {high:g}], must be two rising percentages"
            )
    return CareSpec(care.bottle_ml, care.warn_doses, tubing_ml, every_s, (low, high))
