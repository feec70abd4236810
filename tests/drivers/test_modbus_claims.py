"""What the Modbus drivers say they use, can hold and can count, before anything is opened."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.rig.protocols import ClaimedPlace
from rigctl_drivers.modbus_options import ModbusOptions
from rigctl_drivers.registers import float_step
from rigctl_drivers.scpi_instrument import ScpiOptions
from rigctl_drivers.sdm_meter import SdmOptions


def modbus(**options):
    return ModbusOptions.model_validate(options)


def claims(**options):
    return set(modbus(**options).occupies())


def test_every_word_is_claimed_as_part_of_its_number():
    """Two words of a float32, four of a float64, one of a bit; setpoints and what enables them are written."""
    assert claims(unit="K", read={"at": 4, "type": "float32"}) == {
        ClaimedPlace("unit 1 input register 4", "reads", "4 to 5"),
        ClaimedPlace("unit 1 input register 5", "reads", "4 to 5"),
    }
    wide = claims(address=7, read={"register": "holding", "at": 0, "type": "float64"})
    assert {c.place for c in wide} == {f"unit 7 holding register {i}" for i in range(4)}
    assert claims(read={"at": 4, "bit": 3}) == {ClaimedPlace("unit 1 input register 4 bit 3", "reads", "4 to 4 bit 3")}
    assert claims(read={"register": "coil", "at": 9}) == {ClaimedPlace("unit 1 coil 9", "reads", "9")}
    driven = claims(write={"at": 2}, enable={"register": "holding", "at": 3, "on": 2, "off": 1})
    assert driven == {
        ClaimedPlace("unit 1 holding register 2", "writes", "2 to 2"),
        ClaimedPlace("unit 1 holding register 3", "writes", "3 to 3"),
    }


def test_what_registers_cannot_hold_is_named(golden):
    """By register, or because it is a switch."""
    narrow = modbus(write={"at": 2, "type": "int16", "scale": 0.01}, release_value=-400, safe_value=1)
    switch = modbus(enable={"coil": 0})
    asked = [(narrow, v) for v in (0.0, 327.67, 327.68, -400.0)] + [(switch, v) for v in (0.0, 1.0, 0.5)]
    golden([options.misfit(v) for options, v in asked])


@given(st.floats(min_value=2.0**-90, max_value=2.0**90, width=32))
def test_the_step_of_a_float_is_the_distance_to_the_next_one(value):
    """As its own bits say."""
    (bits,) = struct.unpack(">I", struct.pack(">f", value))
    (following,) = struct.unpack(">f", struct.pack(">I", bits + 1))
    assert float_step(value) == following - value


@pytest.mark.parametrize(("counts_in", "step_kwh"), [("kWh", 2.0**-7), ("MWh", 1000 * 2.0**-17)])
def test_an_energy_meter_counts_in_steps_that_grow(counts_in, step_kwh):
    """At 100 000 kWh a float32 has steps of 8 Wh; of one that counts MWh it is about the same."""
    options = SdmOptions(counts_in=counts_in)
    assert options.grain_at(1e5) == step_kwh
    assert options.grain_at(10.0) < 1e-5


def test_a_counter_in_whole_steps_counts_in_its_scale():
    """Wherever it stands; a float64 counts as finely as anybody can tell."""
    whole = modbus(unit="kWh", counter=True, read={"at": 0, "type": "uint32", "scale": 0.1})
    assert whole.grain_at(1e5) == 0.1
    fine = modbus(unit="kWh", counter=True, read={"at": 0, "type": "float64"})
    assert fine.grain_at(1e5) < 1e-10


def test_readings_of_one_scpi_instrument_share_its_line():
    """Each with its own query; the line is the same thing for all of them."""
    volts, kelvin = (ScpiOptions(query=q).occupies() for q in ("MEAS:VOLT?", "MEAS:TEMP?"))
    assert {c.use for c in volts} == {"shares", "reads"}
    assert set(volts) & set(kelvin) == {ClaimedPlace("the line", "shares", "SCPI")}


def test_a_command_belongs_to_one_scpi_setpoint():
    """Two setpoints of one supply are two commands; an output that both would switch is refused to the second."""
    output = {"on": "OUTP ON", "off": "OUTP OFF", "state": "OUTP?"}
    volts = ScpiOptions.model_validate({"set": "VOLT {value}", "confirm": "VOLT?", "enable": output})
    claimed = set(volts.occupies())
    assert {ClaimedPlace("command VOLT {value}", "writes"), ClaimedPlace("command OUTP ON", "writes")} <= claimed
    assert volts.misfit(7.7) == ""
    switch = ScpiOptions.model_validate({"enable": output})
    assert [bool(switch.misfit(v)) for v in (0.0, 7.7)] == [False, True]


LEVEL = {"confirm": "VOLT?", "release_value": 0}


@pytest.mark.parametrize(
    ("command", "held"), [("VOLT {value}", 7.75), ("VOLT {value:.1f}", 7.8), ("V {value:.0e},1", 8.0)]
)
def test_a_setpoint_has_the_digits_that_its_command_has(command, held):
    """Whoever sends 7.75 V in one decimal sends 7.8 V."""
    assert ScpiOptions.model_validate({"set": command, **LEVEL}).rounded(7.75) == held


@given(
    st.lists(st.floats(-3000.0, 3000.0), min_size=2, max_size=2),
    st.sampled_from(["int16", "int32", "float32", "float64"]),
    st.sampled_from([1.0, 0.1, -0.1, 0.3, 7.0]),
    st.floats(-100.0, 100.0),
)
def test_what_lies_between_two_setpoints_stays_between_what_is_held_of_them(setpoints, kind, scale, offset):
    """So that the ends of a range speak for all of it."""
    options = modbus(write={"at": 2, "type": kind, "scale": scale, "offset": offset}, release_value=0)
    low, high = sorted(setpoints)
    held = [options.rounded(value) for value in (low, (low + high) / 2, high)]
    assert held == sorted(held)
    assert abs(held[0] - low) <= 0.5001 * abs(scale) + 1e-3
