"""Configurations that tests break, one way at a time."""

SMALL = """\
rig: tank
currency: EUR
budget: 12 EUR
variables:
  ph: {unit: pH, range: [5.2, 6.8], sensor: probe, actuator: doser, natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  ca: {unit: mM, range: [0, 7.7], sensor: ca_probe, actuator: ca_valve, natural: uniform}
control_sets: [[ph], [ca], [ph, ca]]
outcome: {name: growth, unit: cm2/day, sensor: camera, floor: 0}
trial:
  settle: 20 min
  measure: {for: 5 min, every: 10 s}
meters:
  - {kind: energy, device: mains, price: 0.31 EUR/kWh}
  - {kind: volume, device: doser, price: 4.2 EUR/L}
  - {kind: time, price: 1.5 EUR/h}
  - {kind: fixed, price: 0.05 EUR}
buses:
  plc: modbus_tcp://127.0.0.1:5020
devices:
  mains: {driver: sdm120, bus: "modbus_rtu:///dev/ttyUSB0", address: 1}
  probe: {driver: ezo, bus: "serial:///dev/ttyUSB1", model: pH}
  doser: {driver: ezo-pmp, bus: "serial:///dev/ttyUSB2"}
  ca_probe: {driver: modbus, bus: plc, unit: mM, read: {at: 0, type: float32}}
  ca_valve: {driver: modbus, bus: plc, unit: mM, write: {at: 2, type: float32}, enable: {coil: 0}}
  camera: {driver: scpi, bus: "tcp://127.0.0.1:5025", unit: cm2/day, query: "MEAS?"}
dosing:
  doser: {sensor: probe, effect: -0.04 pH/mL, tolerance: 0.04 pH, mix: 45 s, max_doses: 6}
safety:
  safe_state: {doser: off, ca_valve: off}
  limits: {doser: {per_dose: 20 mL, per_day: 200 mL}}
"""
"""A small rig with one instrument of each family."""

BY_HAND = """\
rig: bench
currency: EUR
budget: 12 EUR
variables:
  ph: {unit: pH, range: [5.2, 6.8], natural: {truncated_normal: {mean: 6.1, sd: 0.3}}}
  ca: {unit: mM, range: [0, 7.7], natural: uniform}
control_sets: all
outcome: {name: growth, unit: cm2/day, floor: 0}
"""
"""The least there is: a person does the trials."""

WHOLE = (
    SMALL.replace("ph: {unit: pH, range: [5.2, 6.8],", "ph: {unit: pH, range: [5.2, 6.8], plausible: [3, 10],")
    .replace("/dev/ttyUSB", "/dev/serial/by-id/usb-")
    .replace("max_doses: 6}", "max_doses: 6, treatment: base}")
    .replace("dosing:\n", "  base: {driver: modbus, bus: plc, enable: {coil: 1}}\ndosing:\n")
    .replace("ca_valve: off", "ca_valve: off, base: off")
)
"""A rig that nothing speaks against."""

WATCHED = (
    SMALL.replace("actuator: doser,", "actuator: doser, plausible: [3, 10], max_rate: 1 pH/min,")
    + """\
  watch: {every: 1 s, clear_for: 1 min}
  safe_within: 2 s
  interlocks:
    - {name: acid, when: "ph < 4.5 pH and not (ca > 7 mM)", until: "ph > 5 pH", for: 10 s, then: hold}
    - {name: load, when: "mains > 3 kW", then: safe}
"""
)
"""One with interlocks."""

PUMP = '  doser: {driver: ezo-pmp, bus: "serial:///dev/ttyUSB2"}\n'
MORE = PUMP + "".join(f'  {n}: {{driver: ezo-pmp, bus: "serial:///dev/{n}"}}\n' for n in ("base", "feed_a", "feed_b"))
DOSING = "dosing:\n  doser: {sensor: probe, effect: -0.04 pH/mL, tolerance: 0.04 pH, mix: 45 s, max_doses: 6}\n"
CAPS = "limits: {doser: {per_dose: 20 mL, per_day: 200 mL}"
CAP = "{per_dose: 20 mL, per_day: 200 mL}"

PROBED = SMALL.replace(PUMP, MORE).replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")
BOTH_WAYS = (
    PROBED.replace("actuator: doser", "actuator: [doser, base]")
    .replace(
        DOSING, DOSING + "  base: {sensor: probe, effect: 0.05 pH/mL, tolerance: 0.04 pH, mix: 1 min, max_doses: 4}\n"
    )
    .replace(CAPS, f"{CAPS}, base: {CAP}")
)
RATIO = PROBED.replace("max_doses: 6}", "max_doses: 6, with: {feed_b: 1.5}}").replace(CAPS, f"{CAPS}, feed_b: {CAP}")
VOLUME = PROBED.replace(
    "control_sets: [[ph]",
    "  feed: {unit: mL, range: [0, 10], step: 2.5, doses: {pump: feed_a, mix: 1 min, with: {feed_b: 2}}}\n"
    "control_sets: [[feed], [ph]",
).replace(CAPS, f"{CAPS}, feed_a: {CAP}, feed_b: {CAP}")

BASES = {
    "small": SMALL.replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator"),
    "hand": BY_HAND,
    "whole": WHOLE,
    "pumps": PROBED,
    "both ways": BOTH_WAYS,
    "ratio": RATIO,
    "volume": VOLUME,
}
"""What the cases of broken/more.yaml are made from, by name."""
