"""What no rig should be run with is refused before anything is opened, doubts are told, old campaigns still load."""

import pytest

from rigctl.config.load import load
from rigctl.errors import ConfigError
from rigctl.rig.places import line_of
from tests.config.conftest import EXAMPLES, loaded, loaded_to_run
from tests.config.texts import BY_HAND, WHOLE


def changed(*pairs: tuple[str, str]) -> str:
    text = WHOLE
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} is not unique"
        text = text.replace(old, new)
    return text


def device(line: str) -> tuple[str, str]:
    return "\ndosing:\n", f"\n  more: {{{line}}}\ndosing:\n"


PLC = "driver: modbus, bus: plc"
USB = "/dev/serial/by-id/usb-"
CALCIUM = "unit: mM, range: [0, 7.7], sensor: ca_probe, actuator: ca_valve,"
SETTLE, LOOK = "\n  settle: ", "\n  look: {for: 1 min, every: 15 s}"


def test_a_port_is_one_line_whatever_it_is_called(tmp_path):
    """A link beside the port's own name is the same wire."""
    port, link = tmp_path / "ttyS9", tmp_path / "by-id"
    port.touch()
    link.symlink_to(port)
    text = changed((f"serial://{USB}1", f"serial://{port}"), (f"serial://{USB}2", f"serial://{link}"))
    with pytest.raises(ConfigError) as caught:
        loaded_to_run(text)
    assert [p.path for p in caught.value.mistakes] == [("devices", "doser", "bus")]
    assert line_of(f"serial://{link}?baud=9600") == line_of(f"modbus_rtu://{port}")
    assert line_of("modbus_tcp://PLC") == line_of("modbus_tcp://plc:502") != line_of("tcp://plc:5025")


COARSE = ("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.7}")


def test_a_treatment_that_takes_no_time_may_be_said_to():
    """Then a look is no reason to refuse it; and what was run without can still be looked at."""
    text = changed((SETTLE, LOOK + SETTLE))
    loaded(text)
    made = loaded_to_run(text.replace("treatment: base", "treatment: base, treat: 0 s"))
    assert made.rig.dosing["doser"].treat_s == 0


@pytest.mark.slow
def test_nothing_is_said_of_a_rig_that_is_in_order():
    """Neither refusals nor warnings; two readings of one SCPI instrument may share its line, bits of a word too."""
    assert loaded_to_run(WHOLE).warnings == ()
    camera = 'driver: scpi, bus: "tcp://127.0.0.1:5025", unit: K, query: "TEMP?"'
    assert loaded_to_run(changed(device(camera))).warnings == ()
    assert loaded_to_run(changed(device(f"{PLC}, address: 2, unit: mM, read: {{at: 1, type: float32}}"))).warnings == ()
    assert loaded_to_run(changed(("0.31 EUR/kWh", "0.31 EUR/kWh, rated: 3 kW"))).warnings == ()
    slewed = ("  limits: {", '  limits: {ca_valve: {max_step: "0.3 mM"}, ')
    for fine in ("type: float32", "type: int16, scale: 0.1", "type: uint32, scale: 0.1"):
        assert loaded_to_run(changed(("type: float32}, enable", f"{fine}}}, enable"), slewed)).warnings == ()
    for remedy in ("step: 0.7", "read_back_tolerance: 0.36"):
        assert loaded_to_run(changed(COARSE, (CALCIUM, f"{remedy}, {CALCIUM}"))).warnings == ()


def test_nothing_is_asked_of_a_bench_by_hand():
    """Without devices there is nothing to run, so nothing to refuse."""
    assert loaded_to_run(BY_HAND).warnings == ()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_example_may_be_run(path):
    """Nothing speaks against the examples, and all that is said is that they are for simulated rigs."""
    (warning,) = load(path, to_run=True).warnings
    assert "clock.speedup" in warning
