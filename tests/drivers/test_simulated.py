"""Drivers over a simulated rig: what says that it is simulated, and circuits at their real pace."""

import time

import pytest

from rigctl.rig.clocks import RealClock
from rigctl.rig.protocols import Deadline
from rigctl.rig.registry import Registry
from tests.sim_rig.fakes import ask, serial_port
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


TIMEOUT_S = 2.0
"""A device's, as `timeout` is by default."""
ANSWER_S = 0.3


@pytest.fixture(scope="module")
def greenhouse(tmp_path_factory):
    """A simulated greenhouse that takes its time."""
    sim = start_sim("greenhouse", tmp_path_factory.mktemp("greenhouse"), speed=1.0)
    yield sim
    sim.stop()


@pytest.fixture
def connect(greenhouse):
    """Devices on lines of their own, closed after the test: `connect("ezo-pmp", "ca")`."""
    lines = []

    def make(driver, bus, **options):
        found = Registry.installed().driver(driver)
        lines.append(Registry.installed().open_line(greenhouse.buses[bus], RealClock(1.0)))
        return found.connect(found.options.model_validate(options), lines[-1])

    yield make
    for one in lines:
        one.close()


def usual() -> Deadline:
    return Deadline.after(TIMEOUT_S)


@pytest.mark.slow
def test_53_a_pump_is_ready_doses_and_stops_within_its_deadlines(greenhouse, connect):
    """Five questions fit into one deadline; a dose is stopped on its way by one command, and then stands still."""
    pump = connect("ezo-pmp", "ca")
    began_s = time.monotonic()
    pump.ready(usual())
    assert time.monotonic() - began_s >= 5 * ANSWER_S
    before_ml = pump.total_volume_ml(usual()).value
    pump.start_dose(20.0, usual())
    assert pump.dose_status(usual()).running
    began_s = time.monotonic()
    pump.stop(usual())
    assert time.monotonic() - began_s >= ANSWER_S
    stopped = pump.dose_status(usual())
    assert not stopped.running
    (witnessed,) = [d for d in greenhouse.state()["doses"] if d["pump"] == "ca_doser"]
    assert witnessed["how"] == "stopped"
    assert 0.0 < stopped.dispensed_ml < 20.0
    assert witnessed["dispensed_ml"] == pytest.approx(stopped.dispensed_ml, abs=0.01)
    assert pump.total_volume_ml(usual()).value == pytest.approx(before_ml + stopped.dispensed_ml, abs=0.011)


def test_53_a_pump_nobody_has_spoken_to_is_stopped_first_and_confirmed(greenhouse, connect):
    """Going safe without a daemon: `X` needs no acquaintance; two answers later it is confirmed."""
    with serial_port(greenhouse.path("acid")) as port:
        assert ask(port, "D,20") == ["*OK"]
    pump = connect("ezo-pmp", "acid")
    pump.stop(usual())
    assert not pump.dose_status(usual()).running
    assert [d["how"] for d in greenhouse.state()["doses"] if d["pump"] == "ph_doser"] == ["stopped"]


def test_a_reading_of_900_ms_fits_into_the_deadline_of_the_first(connect):
    """Asking who is there, ending the continuous mode and the first reading together take 1.5 s."""
    probe = connect("ezo-ph", "ph")
    began_s = time.monotonic()
    assert 4.0 < probe.read(usual()).value < 9.0
    assert time.monotonic() - began_s >= 0.9 + 2 * ANSWER_S


@pytest.mark.parametrize(("driver", "bus"), [("ezo-ph", "ph"), ("ezo-pmp", "ca"), ("ezo-pmp", "acid"), ("scpi", "cam")])
def test_each_simulated_instrument_says_that_it_is(connect, driver, bus):
    """Nobody is to run a real rig in the time of a simulated one."""
    options = {"query": "MEAS:GROW?"} if driver == "scpi" else {}
    assert connect(driver, bus, **options).simulated(usual())
