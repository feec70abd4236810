"""What no rig should be run with is refused before anything is opened, doubts are told, old campaigns still load."""

from __future__ import annotations

import pytest

from rigctl.config.load import load
from rigctl.errors import ConfigError
from rigctl.rig.places import line_of
from tests.config.conftest import BY_HAND, EXAMPLES, SMALL, loaded, loaded_to_run

WHOLE = (
    SMALL.replace("ph: {unit: pH, range: [5.2, 6.8],", "ph: {unit: pH, range: [5.2, 6.8], plausible: [3, 10],")
    .replace("/dev/ttyUSB", "/dev/serial/by-id/usb-")
    .replace("max_doses: 6}", "max_doses: 6, treatment: base}")
    .replace("dosing:\n", "  base: {driver: modbus, bus: plc, enable: {coil: 1}}\ndosing:\n")
    .replace("ca_valve: off", "ca_valve: off, base: off")
)
"""A rig that nothing speaks against."""


def refusals(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        loaded_to_run(text)
    return {p.where: p.what for p in caught.value.mistakes}


def changed(*pairs: tuple[str, str]) -> str:
    text = WHOLE
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} is not unique"
        text = text.replace(old, new)
    return text


def device(line: str) -> tuple[str, str]:
    """One more device."""
    return "\ndosing:\n", f"\n  more: {{{line}}}\ndosing:\n"


PLC = "driver: modbus, bus: plc"
USB = "/dev/serial/by-id/usb-"
UNTREATED = ((", treatment: base}", "}"), (", base: off", ""))
NORMAL = "{truncated_normal: {mean: 6.1, sd: 0.3}}"
METERS = WHOLE[WHOLE.index("meters:") : WHOLE.index("buses:")]
CALCIUM = "unit: mM, range: [0, 7.7], sensor: ca_probe, actuator: ca_valve,"
CONDUCTIVITY = "unit: mS/cm, range: [0, 7.7], sensor: ca_probe,"
VALVE = f"\n  ca_valve: {{{PLC}, unit: mM, write: {{at: 2, type: float32}}, enable: {{coil: 0}}}}"
SETTLE, LOOK = "\n  settle: ", "\n  look: {for: 1 min, every: 15 s}"
REFUSED = {
    "no meter": (changed((METERS, "")), ": meters", "trials would be free"),
    "EC in uS/cm": (
        changed((CALCIUM, CONDUCTIVITY),
                (f"{{{PLC}, unit: mM, read: {{at: 0, type: float32}}}}",
                 f'{{driver: ezo, bus: "serial://{USB}9", model: EC}}'),
                ("[[ph], [ca], [ph, ca]]", "[[ph]]"), (", ca_valve: off", ""),
                (VALVE, "")),
        "6: variables.ca.sensor", "whose driver speaks uS/cm; must be mS/cm"),
    "kW of W": (changed(("unit: cm2/day, sensor: camera", "unit: kW, sensor: mains")),
                "8: outcome.sensor", "whose driver speaks W; must be kW"),
    "no meter's device": (changed(("kind: energy, device: mains", "kind: energy, device: camera")),
                          "13: meters[0].device", "which is no meter"),
    "metered in Wh": (changed(device(f"{PLC}, unit: Wh, counter: true, read: {{at: 40, type: uint32}}"),
                              ("kind: energy, device: mains", "kind: energy, device: more")),
                      "13: meters[0].device", "counts Wh, a energy meter needs kWh"),
    "no actuator": (changed(("actuator: ca_valve", "actuator: ca_probe"), (", ca_valve: off", ", ca_probe: off")),
                    "6: variables.ca.actuator", "which is no actuator"),
    "one coil": (changed(device(f"{PLC}, unit: mM, write: {{at: 9}}, enable: {{coil: 0}}")),
                 "devices.more", "writes unit 1 coil 0, as ca_valve does"),
    "a heartbeat into a setpoint": (
        changed(device(f"{PLC}, unit: mM, write: {{at: 9}}, enable: {{coil: 7}}, heartbeat: {{at: 9, every_s: 1}}")),
        "devices.more", "writes unit 1 holding register 9 for more than one purpose"),
    "broadcast": (changed(device(f'driver: modbus, bus: "modbus_rtu://{USB}7", address: 0, enable: {{coil: 0}}')),
                  "devices.more.bus", "0 is the broadcast, every unit on the line obeys it"),
    "one register": (changed(device(f"{PLC}, unit: mM, write: {{at: 3}}, enable: {{coil: 7}}")),
                     "devices.more", "writes unit 1 holding register 3, as ca_valve does"),
    "overlapping words": (changed(device(f"{PLC}, unit: mM, read: {{at: 1, type: float32}}")),
                          "devices.more", "as part of 1 to 2, which ca_probe reads as part of 0 to 1"),
    "half a setpoint": (changed(device(f"{PLC}, unit: mM, read: {{register: holding, at: 3}}")),
                        "devices.more", "which ca_valve writes as part of 2 to 3"),
    "two meters on one address": (changed(device(f'driver: sdm630, bus: "modbus_rtu://{USB}0", address: 1')),
                                  "devices.more", "as mains does"),
    "two pumps on one port": (changed(device(f'driver: ezo-pmp, bus: "serial://{USB}2"')),
                              "devices.more.bus", "the line of doser, which cannot be shared"),
    "a pump beside SCPI": (changed(device('driver: ezo-pmp, bus: "tcp://127.0.0.1:5025"')),
                           "devices.more.bus", "the line of camera, which cannot be shared"),
    "two baud rates": (changed(device(f'driver: sdm120, bus: "modbus_rtu://{USB}0?baud=9600", address: 2')),
                       "devices.more.bus", "the same line as modbus_rtu"),
    "two protocols": (changed(device(f'driver: sdm120, bus: "modbus_rtu://{USB}1", address: 2')),
                      "devices.more.bus", "the same line as serial"),
    "two names of a host": (changed(device("driver: modbus, bus: modbus_tcp://localhost:5020, enable: {coil: 9}")),
                            "devices.more.bus", "the same line as modbus_tcp"),
    "safe state": (changed(("ca_valve: off", "ca_valve: 9")), "safe_state.ca_valve", "within the range [0, 7.7]"),
    "no dose": (changed(("per_dose: 20 mL", "per_dose: 0 mL")), "limits.doser.per_dose", "got 0 mL, must be at least"),
    "less than a dose": (changed(("per_dose: 20 mL", "per_dose: 0.3 mL")), "limits.doser.per_dose", "at least 0.5 mL"),
    "less than a dose a day": (changed(("per_dose: 20 mL, per_day: 200 mL", "per_dose: 0.2 mL, per_day: 0.4 mL")),
                               "limits.doser.per_day", "at least 0.5 mL"),
    "range of int16": (changed(("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.0001}")),
                       "devices.ca_valve", "setpoint 7.7 cannot be held by holding register 2"),
    "range that ends between steps": (
        changed(("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.3}")),
        "devices.ca_valve", "holds 7.8 where 7.7 is sent, beyond the range [0, 7.7]"),
    "safe state between steps": (
        changed(("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.7}"),
                ("ca_valve: off", "ca_valve: 1")),
        "devices.ca_valve", "holds 0.7 where 1 is sent, so its safe state would never be confirmed"),
    "step below the register's": (
        changed(("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.7}"),
                ("  limits: {", '  limits: {ca_valve: {max_step: "0.01 mM"}, ')),
        "limits.ca_valve.max_step", "got 0.01, but its device moves by 0.7: give a multiple of its 0.7"),
    "step between the register's": (
        changed(("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.7}"),
                ("  limits: {", '  limits: {ca_valve: {max_step: "1 mM"}, ')),
        "limits.ca_valve.max_step", "got 1, but its device moves by 1.4: give a multiple of its 0.7"),
    "range of a switch": (changed((", write: {at: 2, type: float32}", "")),
                          "devices.ca_valve", "setpoint 7.7 cannot be held: an on/off device takes 0 or 1"),
    "safe value": (changed(("write: {at: 2, type: float32}", "safe_value: -1, write: {at: 2}"),
                           ("ca_valve: off", "ca_valve: 0")),
                   "devices.ca_valve", "safe_value -1 cannot be held"),
    "effect": (changed(*UNTREATED, (NORMAL, "{uniform: {low: 5.3, high: 5.9}}")),
               "dosing.doser.effect", "doser only lowers ph, which starts at most at 5.9 pH: a setpoint of 6.8"),
    "effect upwards": (changed(*UNTREATED, ("-0.04 pH/mL", "0.04 pH/mL"), (NORMAL, "{empirical: [6.4, 6.5, 6.6]}")),
                       "dosing.doser.effect", "only raises ph, which starts at least at 6.4 pH: a setpoint of 5.2"),
    "treat": (changed((SETTLE, LOOK + SETTLE)), "dosing.doser.treat", 'how long it is on before doser doses'),
    "plausible": (changed((" plausible: [3, 10],", "")), "variables.ph.plausible", "doser doses by them"),
    "speed": ("clock: {speedup: 2400}\n" + WHOLE, "1: clock.speedup", "a cap of 24 h would be one of 36 s"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where", "what"), REFUSED.values(), ids=REFUSED)
def test_what_no_rig_should_be_run_with_is_refused(text, where, what):
    """With file and line, what was got, and what would be right; a campaign of the past can still be looked at."""
    found = refusals(text)
    places = [place for place in found if place.endswith(where)]
    assert places, found
    assert places[0].startswith("rig.yaml:")
    assert what in found[places[0]]
    assert len(found) == 1 or "0.2 mL" in text, found
    assert loaded(text).name == "tank"


def test_everything_is_refused_at_once():
    """What cannot be read and what should not be run come in one error, in the order of the file."""
    text = changed(
        ("settle: 20 min", "setle: 20 min"),
        ("per_dose: 20 mL", "per_dose: 0.3 mL"),
        (" plausible: [3, 10],", ""),
        device(f"{PLC}, unit: mM, read: {{at: 1, type: float32}}"),
    )
    keys = [place.split(": ")[1] for place in refusals(text)]
    limits = "safety.limits.doser.per_dose"
    assert keys == ["variables.ph.plausible", "trial.setle", "devices.more", limits]


def test_a_port_is_one_line_whatever_it_is_called(tmp_path):
    """A link beside the port's own name is the same wire."""
    port, link = tmp_path / "ttyS9", tmp_path / "by-id"
    port.touch()
    link.symlink_to(port)
    text = changed((f"serial://{USB}1", f"serial://{port}"), (f"serial://{USB}2", f"serial://{link}"))
    found = refusals(text)
    assert [place.split(": ")[1] for place in found] == ["devices.doser.bus"]
    assert line_of(f"serial://{link}?baud=9600") == line_of(f"modbus_rtu://{port}")
    assert line_of("modbus_tcp://PLC") == line_of("modbus_tcp://plc:502") != line_of("tcp://plc:5025")


NUMBERED = changed((f"serial://{USB}1", "serial:///dev/ttyUSB1"))
COARSE = ("write: {at: 2, type: float32}", "write: {at: 2, type: int16, scale: 0.7}")
DOUBTS = {
    "numbered port": (NUMBERED, "devices.probe.bus: /dev/ttyUSB1 may be another instrument"),
    "one register for two": (changed(device(f"{PLC}, unit: mM, read: {{at: 0, type: float32}}")),
                             "devices.more: reads unit 1 input register 0, as ca_probe does"),
    "reading a setpoint": (changed(device(f"{PLC}, unit: mM, read: {{register: holding, at: 2, type: float32}}")),
                           "more reads what ca_valve was sent, which is no measurement"),
    "coarse steps": (changed(COARSE), "got 0.077 mM, but ca_valve holds"),
    "untreated": (changed(*UNTREATED), "doser only lowers ph: a trial fails where the setpoint is above what it finds"),
}  # fmt: skip


def test_a_treatment_that_takes_no_time_may_be_said_to():
    """Then a look is no reason to refuse it; and what was run without can still be looked at."""
    text = changed((SETTLE, LOOK + SETTLE))
    loaded(text)
    made = loaded_to_run(text.replace("treatment: base", "treatment: base, treat: 0 s"))
    assert made.rig.dosing["doser"].treat_s == 0


@pytest.mark.parametrize(("text", "what"), DOUBTS.values(), ids=DOUBTS)
def test_what_may_be_meant_is_told(text, what):
    """A warning with file, line and key; the rig may be run."""
    (warning,) = loaded_to_run(text).warnings
    assert warning.startswith("rig.yaml:")
    assert what in warning


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
    assert "clock.speedup: 2400 is for simulated rigs" in warning


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
def test_the_agreed_configuration_loads_as_it_was_printed(safety):
    """Once the devices are there that it names."""
    assert {i.name for i in loaded(DESIGN + safety).rig.watch.interlocks} >= {"acid"}
    judged = (DESIGN + safety).replace("range: [0, 7.7],", "range: [0, 7.7], plausible: [0, 20],")
    one_way, too_few = loaded_to_run(judged).warnings
    assert "ca_doser only raises calcium" in one_way
    assert "got 6 doses of at most 20 mL, which move calcium by 6 mM, must be 8 to reach the setpoint 7.7" in too_few
