"""Devices as their drivers make them, on lines that stay closed: for asking what they can do and in which units."""

from __future__ import annotations

from rigctl.errors import PluginError
from rigctl.rig.protocols import Device, Line
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec
from rigctl.rig.testing import ManualClock


def built(device: DeviceSpec, registry: Registry) -> tuple[Line, Device] | None:
    """A device and its line, both closed; None where the URL or the driver does not hold, which is told elsewhere."""
    try:
        line = registry.open_line(device.url, ManualClock())
        driver = registry.driver(device.driver)
        return (line, driver.connect(device.name, device.options, line)) if _talks(driver.schemes, device) else None
    except (PluginError, ValueError):
        return None


def _talks(schemes: tuple[str, ...], device: DeviceSpec) -> bool:
    return device.url.partition("://")[0] in schemes
