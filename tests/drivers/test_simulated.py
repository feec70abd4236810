"""The drivers and the simulated rig, which share no code: what a unit says of itself."""

from __future__ import annotations

import pytest

from rigctl.rig.protocols import Deadline, Identity
from rigctl.rig.registry import Registry
from tests.simulated import start_sim


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    handle = start_sim("lathe", tmp_path_factory.mktemp("lathe"), seed=5)
    yield handle
    handle.stop()


@pytest.mark.parametrize(
    ("bus", "driver", "options"),
    [("plc", "modbus", {"enable": {"coil": 5}}), ("mains", "sdm630", {"address": 3})],
)
def test_a_simulated_unit_says_so(rig, line, bus, driver, options):
    """A unit of the simulated PLC and a simulated meter are known as such, over TCP and over RTU."""
    found = Registry.installed().driver(driver)
    device = found.connect(found.options.model_validate(options), line(rig.buses[bus]))
    assert device.simulated(Deadline.after(10.0))


def test_a_simulated_meter_has_a_number(rig, line):
    """The meter's serial number and code are read from where Eastron puts them."""
    found = Registry.installed().driver("sdm630")
    device = found.connect(found.options(address=3), line(rig.buses["mains"]))
    assert device.identify(Deadline.after(10.0)) == Identity("SDM630", "meter code 0070", "21070003")
