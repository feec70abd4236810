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


DESIGN = """\
rig: greenhouse-1
currency: EUR
budget: 120 EUR
policy: {name: explore-then-commit, tolerance: 0.05}
variables:
  ph:       {unit: pH, range: [5.2, 6.8], sensor: ph_probe,  actuator: ph_doser,
             natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  calcium:  {unit: mM,   range: [0, 7.7],   sensor: ca_probe,  actuator: ca_doser,  natural: learned}
control_sets: [[ph], [calcium], [ph, calcium]]        # or: all
outcome: {name: growth, unit: cm2/day, sensor: camera, direction: maximise, floor: 0}
trial: {settle: 20 min, measure: {for: 5 min, every: 10 s, statistic: median}}
meters:
  - {kind: energy, device: mains_meter, price: 0.31 EUR/kWh}
  - {kind: volume, device: ca_doser, price: 4.2 EUR/L}
  - {kind: time, price: 1.5 EUR/h}
devices:
  mains_meter: {driver: sdm120, bus: modbus_tcp://127.0.0.1:5020, address: 1}
  ph_probe:    {driver: ezo-ph, bus: serial:///dev/serial/by-id/usb-...}
  ph_doser:    {driver: modbus, bus: modbus_tcp://127.0.0.1:5020, address: 2, unit: pH,
                 write: {at: 0, type: float32}, enable: {coil: 0}}
  ca_probe:    {driver: modbus, bus: modbus_tcp://127.0.0.1:5020, address: 2, unit: mM, read: {at: 0, type: float32}}
  ca_doser:    {driver: ezo-pmp, bus: serial:///dev/serial/by-id/usb-pump}
  camera:      {driver: scpi, bus: "tcp://127.0.0.1:5025", unit: cm2/day, query: "MEAS?"}
  tank_level:  {driver: modbus, bus: modbus_tcp://127.0.0.1:5020, address: 2, unit: L, read: {at: 2, type: float32}}
dosing:
  ca_doser: {sensor: ca_probe, effect: 0.05 mM/mL, tolerance: 0.1 mM, mix: 45 s, max_doses: 6}
safety:
  safe_state: {ph_doser: off}
  limits: {ca_doser: {per_dose: 20 mL, per_day: 200 mL}}
"""
FIRST = "  interlocks: [{name: acid, when: ph < 4.5, then: trip}]\n"
SECOND = """\
  safe_within: 2 s
  interlocks:
    - {name: acid,  when: "ph < 4.5 pH", for: 10 s, then: trip}
    - {name: empty, when: "tank_level < 5 L", until: "tank_level > 8 L", then: hold}
  watch: {every: 1 s}
"""


@pytest.mark.parametrize("safety", [FIRST, SECOND])
def test_the_agreed_configuration_loads_as_it_was_printed(safety, golden):
    """Once the devices are there that it names."""
    assert {i.name for i in loaded(DESIGN + safety).rig.watch.interlocks} >= {"acid"}
    judged = (DESIGN + safety).replace("range: [0, 7.7],", "range: [0, 7.7], plausible: [0, 20],")
    one_way, too_few = loaded_to_run(judged).warnings
    assert "dosing.ca_doser.effect" in one_way
    golden(too_few)
