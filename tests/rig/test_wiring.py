from dataclasses import replace
from decimal import Decimal

import pytest

from rigctl.errors import ConfigError, DeviceTimeout
from rigctl.rig.spec import DosingSpec, MeterSpec, OutcomeSpec, VariableWiring


def changed(bench, **changes):
    return replace(bench.spec(), **changes)


def problems(make_rig, spec):
    with pytest.raises(ConfigError) as caught:
        make_rig(spec)
    return [str(p) for p in caught.value.mistakes]


def test_devices_on_one_line_share_a_bus(bench, rig):
    """Equal URLs make one bus."""
    assert set(rig._wiring.buses) == set(bench.lines)
    assert rig._wiring.handles["b_valve"].bus is rig._wiring.handles["ca_probe"].bus
    assert all(line.log == [] for line in bench.lines.values())


def test_all_problems_are_told_at_once(bench, make_rig, golden):
    """Unknown names and devices that cannot do what they are named for are listed together."""
    spec = changed(
        bench,
        variables=(VariableWiring("ca", "nobody", "ca_doser", 0.1), VariableWiring("b", "b_valve", "b_probe", 0.1)),
        outcomes=(OutcomeSpec(name="growth", unit="1", sensor="mains_meter"),),
    )
    found = problems(make_rig, spec)
    assert len(found) == 5
    golden(found[0])
    golden(found[1])
    golden(found[2])
    golden(found[3])
    golden(found[4])


def test_every_actuator_needs_limits(bench, make_rig):
    """A pump, treatment or prepared actuator without limits cannot be part of a rig."""
    found = problems(make_rig, changed(bench, limits={}))
    assert [p.split(":")[1].strip() for p in found] == [
        "safety.limits.b_valve",
        "safety.limits.softener",
        "safety.limits.refill",
        "safety.limits.ca_doser",
    ]


def test_a_doser_must_be_able_to_dose(bench, make_rig, golden):
    """Dosing with something that is no pump is a problem."""
    found = problems(make_rig, changed(bench, dosing={"b_valve": DosingSpec("b_probe", 1.0, 1.0, 1.0, 3)}))
    golden(found)


def test_a_meter_must_count_in_the_unit_it_is_priced_in(bench, make_rig, golden):
    """A volume counter cannot be priced as energy."""
    meters = (MeterSpec("energy", Decimal(1), "ca_doser", "acid"), MeterSpec("energy", Decimal(1), "camera", "power"))
    found = problems(make_rig, changed(bench, meters=meters))
    assert [f"meters[{i}].device" in found[i] for i in range(2)] == [True, True]
    golden(found[0])
    golden(found[1])


def test_a_driver_that_cannot_talk_over_the_bus_is_a_problem(bench, make_rig, golden):
    """The scheme of the bus must be one the driver knows; a URL that does not hold is told too."""
    spec = bench.spec()
    devices = dict(spec.devices)
    devices["camera"] = replace(devices["camera"], url="fake://nowhere")
    bench.lines["serial://x"] = bench.plc
    devices["t_probe"] = replace(devices["t_probe"], url="serial://x")
    found = problems(make_rig, replace(spec, devices=devices))
    assert [text.split(": ")[1] for text in found] == ["devices.t_probe.bus", "devices.camera.bus"]
    golden(found)


async def test_a_probe_is_told_the_temperature_before_it_is_read(bench, make_rig):
    """In each round the thermometer is read first; one that is silent is told of, too, and the probe is read."""
    told = []
    bench.ca_probe.temperature_from, bench.ca_probe.take_temperature = "t_probe", told.append
    rig = make_rig()
    assert (await rig.snapshot())["ca"].valid
    bench.t_probe.fail("read", DeviceTimeout("silent"), DeviceTimeout("silent"))
    assert (await rig.snapshot())["ca"].valid
    assert [(reading.valid, reading.unit) for reading in told] == [(True, "degC"), (False, "degC")]
    assert "silent" in told[-1].detail


def test_a_temperature_is_read_in_degrees_by_a_sensor(bench, make_rig, golden):
    """Another unit, or a device that reads nothing, is told where it stands."""
    bench.ca_probe.take_temperature = lambda reading: None
    bench.ca_probe.temperature_from = "b_probe"
    (found,) = problems(make_rig, bench.spec())
    assert "devices.ca_probe.compensate" in found
    golden(found)
    bench.ca_probe.temperature_from = "b_valve"
    golden(problems(make_rig, bench.spec())[0])
