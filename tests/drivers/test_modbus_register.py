"""One quantity in registers or coils: what the options make of it."""

import math

import pytest
from pydantic import ValidationError

from rigctl.errors import DeviceFault, IdentityMismatch
from rigctl.rig.protocols import Actuator, ActuatorState, Doser, Meter, Sensor, Severity
from rigctl.rig.registry import Registry
from rigctl.rig.testing import MemoryLine, RecordingLine
from rigctl_drivers.modbus_register import ModbusRegisterDriver
from tests.drivers.peers import soon

READ = {"register": "input", "at": 4, "type": "int16", "scale": 0.01}
WRITE = {"at": 10, "type": "int16", "scale": 0.5, "offset": 2.0}
FLOAT = {"register": "input", "at": 4, "type": "float32"}


@pytest.fixture
def memory():
    return MemoryLine()


@pytest.fixture
def wire(memory):
    return RecordingLine(memory)


def device(wire, **options):
    return ModbusRegisterDriver.connect(ModbusRegisterDriver.options.model_validate(options), wire)


@pytest.mark.parametrize(
    ("options", "abilities"),
    [
        ({"read": READ}, {Sensor}),
        ({"read": READ, "counter": True}, {Meter}),
        ({"write": WRITE, "enable": {"coil": 1}}, {Actuator}),
        ({"write": WRITE, "release_value": 2.0}, {Actuator}),
        ({"enable": {"coil": 1}}, {Actuator}),
        ({"read": READ, "write": WRITE, "enable": {"coil": 1}}, {Actuator, Sensor}),
    ],
)
def test_the_options_decide_what_it_can_do(wire, options, abilities):
    """`read` makes a sensor, `write` or `enable` an actuator, `counter` a meter, and nothing else."""
    made = device(wire, **options)
    assert {a for a in (Sensor, Actuator, Meter, Doser) if isinstance(made, a)} == abilities


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give `read`, `write` or `enable`"),
        ({"write": WRITE}, "needs `enable` or `release_value`, else it can never be released"),
        ({"read": READ, "release_value": 1.0}, "`release_value` needs `write`"),
        ({"write": WRITE, "enable": {"coil": 1}, "release_value": 0.0}, "does not go with `enable`"),
        ({"counter": True, "enable": {"coil": 1}}, "`counter` needs `read`, and nothing else"),
        ({"enable": {"coil": 1}, "safe_value": 7.0}, "must be 0 or 1"),
        ({"read": READ, "safe_value": 7.0}, "`safe_value` needs `write` or `enable`"),
        ({"read": {**READ, "scale": 0}}, "scale: got 0, must not be 0"),
        ({"read": {**READ, "order": "ABDC"}}, "'ABCD', 'BADC', 'CDAB' or 'DCBA'"),
        ({"read": {**READ, "at": 70000}}, "less than or equal to 65535"),
        ({"read": {**READ, "register": "coils"}}, "'input', 'holding', 'coil' or 'discrete'"),
        ({"write": {**WRITE, "register": "input"}, "enable": {"coil": 1}}, "'holding'"),
        ({"read": {**READ, "word_order": "ABCD"}}, "Extra inputs are not permitted"),
        ({"read": READ, "address": 300}, "less than or equal to 255"),
        ({"read": {**READ, "bit": 3}}, "only a register of type uint16 has bits, got input int16"),
        ({"read": {"register": "coil", "at": 4, "bit": 3}}, "only a register of type uint16 has bits, got coil"),
        ({"read": {"at": 4, "bit": 16}}, "less than or equal to 15"),
        ({"read": {**FLOAT, "block": {"at": 0, "count": 5}}}, "5 registers from 0 on, must hold the float32 at 4"),
        ({"read": {"register": "coil", "at": 4, "block": {"at": 0, "count": 5}}}, "only registers are read in blocks"),
        ({"enable": {}}, "give either `coil`, or `register: holding` and `at`"),
        ({"enable": {"coil": 1, "register": "holding", "at": 2}}, "give either `coil`, or"),
        ({"enable": {"at": 2}}, "give either `coil`, or"),
        ({"enable": {"coil": 1, "on": 5}}, "`on` and `off` are values of a register"),
        ({"enable": {"register": "holding", "at": 2, "on": 0}}, "on, off: got 0 for both"),
        ({"write": {**WRITE, "type": "int32"}, "release_value": 0, "write_multiple": "never"}, "they are one value"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, says):
    """Every contradiction is an error in a sentence, before anything is opened."""
    with pytest.raises(ValidationError, match=says):
        ModbusRegisterDriver.options.model_validate(options)


@pytest.mark.parametrize("url", ["modbus_rtu://port", "rtu_tcp://host", "modbus_tcp://host"])
def test_the_broadcast_is_no_address_on_rtu(clock, url, golden):
    """Every unit would obey it, and none answers; over TCP it is that of devices without units."""
    wire, options = Registry.installed().open_line(url, clock), ModbusRegisterDriver.options(address=0, read=READ)
    if url.startswith("modbus_tcp"):
        assert ModbusRegisterDriver.connect(options, wire).unit == ""
    else:
        with golden.raises(ValueError):
            ModbusRegisterDriver.connect(options, wire)


BIT = {"at": 4, "bit": 3, "error_codes": [65535]}
WIDE = {"at": 4, "type": "uint64", "error_codes": [2**64 - 1]}


@pytest.mark.parametrize(
    ("read", "words", "value"),
    [
        ({**READ, "offset": 5.0}, [0xFFFF - 249], 2.5),  # -250 times 0.01
        ({"register": "coil", "at": 4}, [0], 0.0),
        ({"register": "coil", "at": 4}, [1], 1.0),
        ({"register": "discrete", "at": 4}, [0], 0.0),
        ({"register": "discrete", "at": 4}, [1], 1.0),
        (BIT, [0b1000], 1.0),
        (BIT, [0b10111], 0.0),
        (BIT, [65535], None),  # an error code is one of the whole word
        (WIDE, [0xFFFF] * 4, None),
        (WIDE, [0xFFFF, 0xFFFF, 0xFFFF, 0xFFFE], 2.0**64),  # no double can tell it from the error code
        (FLOAT, [0x7FC0, 0], None),
        (FLOAT, [0x7F80, 0], None),
        (FLOAT, [0xFF80, 0], None),
        ({**READ, "error_codes": [32767]}, [32767], None),
        ({**READ, "error_codes": [32767]}, [32766], 327.66),
        ({**READ, "error_codes": [0x8000]}, [0x8000], None),  # with and without its sign
        ({**READ, "error_codes": [-1]}, [0xFFFF], None),
        ({**READ, "type": "uint16", "error_codes": [-1]}, [0xFFFF], None),
    ],
)
def test_37_what_is_no_number_is_invalid(wire, memory, read, words, value):
    """Raw x scale + offset, in the configured unit; NaN, infinities and error codes are INVALID, with the value NaN."""
    memory.cells |= {(1, read.get("register", "input"), 4 + i): word for i, word in enumerate(words)}
    reading = device(wire, unit="mM", read=read).read(soon())
    assert (reading.severity is Severity.INVALID, reading.unit) == (value is None, "mM")
    assert math.isnan(reading.value) if value is None else reading.value == pytest.approx(value, rel=1e-15)


def test_an_error_code_is_named(wire, memory, golden):
    """A person can look it up in the manual."""
    memory.cells[(1, "input", 4)] = 32767
    golden(device(wire, read={**READ, "error_codes": [32767]}).read(soon()).detail)


def test_a_negative_count_is_invalid(wire, memory):
    """A counter that reads negative has the wrong type or order."""
    made = device(wire, unit="L", counter=True, read={**READ, "scale": 1})
    memory.cells[(1, "input", 4)] = 7
    assert made.total(soon()).value == 7.0
    memory.cells[(1, "input", 4)] = 0xFFFF
    assert made.total(soon()).severity is Severity.INVALID


def test_apply_writes_the_setpoint_then_enables(wire, memory):
    """The setpoint is in its register before the coil puts it in force; release opens the coil."""
    made = device(wire, write=WRITE, enable={"coil": 3})
    made.apply(7.0, soon())
    assert wire.sent == [("write_registers", 1, 10, (10,)), ("write_coils", 1, 3, (True,))]
    assert made.read_back(soon()) == ActuatorState(True, 7.0)
    made.release(soon())
    assert made.read_back(soon()) == ActuatorState(False, None)
    assert memory.cells[(1, "holding", 10)] == 10


def test_without_enable_the_release_value_imposes_nothing(wire):
    """An actuator without coil is released by its release value, and read back as such."""
    made = device(wire, write=WRITE, release_value=2.0)
    made.apply(7.0, soon())
    assert made.read_back(soon()) == ActuatorState(True, 7.0)
    made.release(soon())
    assert made.read_back(soon()) == ActuatorState(False, 2.0)


def test_safe_is_released_or_the_safe_value(wire):
    """Without `safe_value` safe means released; with one, that setpoint is imposed."""
    made = device(wire, write=WRITE, enable={"coil": 3})
    made.apply(7.0, soon())
    made.safe(soon())
    assert made.read_back(soon()) == ActuatorState(False, None)
    made = device(wire, write=WRITE, enable={"coil": 3}, safe_value=4.0)
    made.safe(soon())
    assert made.read_back(soon()) == ActuatorState(True, 4.0)


def test_an_on_off_device_takes_0_or_1(wire, golden):
    """With only a coil, 1 switches on, 0 off, and anything else is refused before it is sent."""
    made = device(wire, enable={"coil": 3})
    made.apply(1.0, soon())
    assert made.read_back(soon()) == ActuatorState(True, 1.0)
    made.apply(0.0, soon())
    assert made.read_back(soon()) == ActuatorState(False, 0.0)
    with golden.raises(DeviceFault):
        made.apply(0.5, soon())
    assert len(wire.sent) == 2


@pytest.mark.parametrize("setpoint", [1e6, math.nan, -math.inf])
def test_a_setpoint_that_does_not_fit_is_not_sent(wire, setpoint, golden):
    """A value the register cannot hold is refused, not wrapped."""
    with golden.raises(DeviceFault):
        device(wire, write=WRITE, enable={"coil": 3}).apply(setpoint, soon())
    assert wire.sent == []


def test_18_an_identity_register_tells_devices_apart(wire, memory, golden):
    """With `identity`, another value in the register is a mismatch; without, any unit that answers is taken."""
    options = {"enable": {"coil": 3}, "identity": {"at": 99, "value": 1234}}
    with golden.raises(IdentityMismatch):
        device(wire, **options).identify(soon())
    memory.cells[(1, "holding", 99)] = 1234
    assert "1234" in device(wire, **options).identify(soon()).model
    golden(device(wire, enable={"coil": 3}).identify(soon()).model)
    assert wire.sent == []
