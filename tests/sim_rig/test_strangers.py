"""Every protocol face, driven by parties nobody here wrote."""

import os
import shutil
import subprocess
from contextlib import contextmanager

import minimalmodbus
import pytest
import pyvisa
from pyModbusTCP.client import ModbusClient
from pyModbusTCP.utils import decode_ieee, encode_ieee, long_list_to_word, word_list_to_long

from tests.sim_rig.fakes import ask, serial_port


@pytest.fixture
def plc(greenhouse):
    host, port = greenhouse.plc
    client = ModbusClient(host=host, port=port, unit_id=1, timeout=60, auto_open=True)
    yield client
    client.close()


@contextmanager
def minimal(path, unit):
    """An RTU unit, as minimalmodbus sees it."""
    instrument = minimalmodbus.Instrument(path, unit)
    instrument.serial.baudrate = 19200  # a pty has none; minimalmodbus waits 3.5 characters of this
    instrument.serial.timeout = 0.5  # it waits this long for the rest of a normal answer after an exception
    yield instrument
    instrument.serial.close()


@pytest.fixture
def meter(greenhouse):
    with minimal(greenhouse.path("mains"), 1) as instrument:
        yield instrument


def read_float(client, at):
    return decode_ieee(word_list_to_long(client.read_input_registers(at, 2))[0])


@contextmanager
def visa(path):
    """A SCPI instrument on a serial port, as pyvisa-py sees it."""
    manager = pyvisa.ResourceManager("@py")
    try:
        with manager.open_resource(f"ASRL{path}::INSTR", read_termination="\n", write_termination="\n") as instrument:
            instrument.timeout = 5000
            yield instrument
    finally:
        manager.close()


def mbpoll(*arguments):
    """Debian's Modbus client; one poll, values as text."""
    program = shutil.which("mbpoll")
    if program is None and not os.environ.get("CI"):  # a newcomer may not have it; the gate installs it
        pytest.skip("mbpoll is missing: apt-get install mbpoll")
    assert program, "mbpoll is missing: apt-get install mbpoll"
    done = subprocess.run([program, "-1", "-q", *arguments], capture_output=True, text=True, timeout=120, check=False)
    values = [line.split(":")[1].strip() for line in done.stdout.splitlines() if line.startswith("[")]
    return done.returncode, values, done.stdout + done.stderr


def test_minimalmodbus_reads_the_meter(greenhouse, meter):
    """Voltage, power, frequency and both energy counters of the SDM120, over RTU on a pty."""
    state = greenhouse.state()
    assert meter.read_float(0x00, 4) == 230.0
    assert meter.read_float(0x46, 4) == 50.0
    assert meter.read_float(0x0C, 4) == pytest.approx(state["plant"]["power_w"])
    assert meter.read_float(0x06, 4) == pytest.approx(state["plant"]["power_w"] / 0.95 / 230.0)
    imported, total = meter.read_float(0x48, 4), meter.read_float(0x156, 4)
    assert state["metered"]["energy_kwh"] - 1e-3 <= imported <= total + 1e-3


def test_minimalmodbus_reads_who_the_meter_is(meter):
    """Its address, serial number and meter code; reactive power and phase angle, which are not worked out, are 0."""
    assert meter.read_float(0x14, 3) == 1.0
    assert meter.read_long(0xFC00, 3) == 21070001
    assert meter.read_register(0xFC02, 0, 3) == 0x20
    assert (meter.read_float(0x18, 4), meter.read_float(0x24, 4)) == (0.0, 0.0)


def test_a_stranger_is_told_that_it_is_simulated(plc):
    """PyModbusTCP reads the device identification, basic and one object at a time."""
    assert plc.read_device_identification().vendor_name == b"sim_rig (simulated)"
    assert plc.read_device_identification(read_code=4, object_id=1).objects_by_id == {1: b"sim_rig"}


def test_minimalmodbus_sees_refusals(meter):
    """Odd addresses, unknown registers and writes to a meter are exceptions."""
    with pytest.raises(minimalmodbus.IllegalRequestError):
        meter.read_float(0x01, 4)
    with pytest.raises(minimalmodbus.IllegalRequestError):
        meter.read_float(0x400, 4)
    with pytest.raises(minimalmodbus.IllegalRequestError):
        meter.write_float(0x1C, 2.0)


def test_mbpoll_reads_plc_and_meter(greenhouse):
    """Debian's mbpoll agrees with the plant, over TCP and over RTU."""
    host, port = greenhouse.plc
    values = greenhouse.state()["plant"]["values"]
    tcp = ("-m", "tcp", "-p", str(port), "-a", "1", "-0")
    code, found, text = mbpoll(*tcp, "-t", "3:float", "-B", "-r", "4", "-c", "1", host)
    assert (code, float(found[0])) == (0, pytest.approx(values["nh4"], abs=0.06)), text
    code, found, text = mbpoll(*tcp, "-t", "3:float", "-r", "2", "-c", "1", host)
    assert (code, float(found[0])) == (0, pytest.approx(values["b"], abs=1.0)), text
    code, found, text = mbpoll(*tcp, "-t", "3", "-r", "6", "-c", "1", host)
    assert (code, int(found[0].split()[0]) * 0.01) == (0, pytest.approx(values["k"], abs=0.2)), text
    rtu = ("-m", "rtu", "-b", "2400", "-P", "none", "-a", "1", "-0")
    code, found, text = mbpoll(*rtu, "-t", "3:float", "-B", "-r", "0", "-c", "1", greenhouse.path("mains"))
    assert (code, float(found[0])) == (0, 230.0), text


def test_mbpoll_writes_a_coil_and_sees_an_unknown_address(greenhouse):
    """A coil written by mbpoll switches the softener; a register that is not there is an error."""
    host, port = greenhouse.plc
    tcp = ("-m", "tcp", "-p", str(port), "-a", "1", "-0", "-t")
    for value in (1, 0):
        code, _, text = mbpoll(*tcp, "0", "-r", "0", host, str(value))
        assert code == 0, text
        assert greenhouse.state()["plant"]["softener"] is bool(value)
    code, _, text = mbpoll(*tcp, "4", "-r", "900", "-c", "1", host)
    assert "Illegal data address" in text
    assert code != 0


def test_a_stranger_can_impose_and_release_a_setpoint(greenhouse, plc):
    """Setpoint, enable and read-back over pyModbusTCP; the tank follows, and the load goes up."""
    before_w = greenhouse.state()["plant"]["power_w"]
    words = long_list_to_word([encode_ieee(2.75)])
    assert plc.write_multiple_registers(4, words)
    assert plc.write_single_coil(3, True)
    assert plc.read_holding_registers(4, 2) == words
    assert plc.read_coils(3, 1) == [True]
    state = greenhouse.wait_for(lambda s: abs(s["plant"]["values"]["nh4"] - 2.75) < 0.1, "its ammonium setpoint")
    assert state["plant"]["setpoints"] == {"nh4": 2.75}
    assert state["plant"]["power_w"] > before_w
    assert read_float(plc, 4) == pytest.approx(2.75, abs=0.15)
    assert plc.write_single_coil(3, False)
    assert greenhouse.state()["plant"]["setpoints"] == {}


def test_a_setpoint_out_of_range_is_refused(plc):
    """The PLC answers exception 03 and keeps what it had."""
    before = plc.read_holding_registers(6, 1)
    assert not plc.write_single_register(6, 1300)
    assert plc.last_except == 3
    assert plc.read_holding_registers(6, 1) == before


def test_a_tank_is_refilled_and_dosed_by_hand(greenhouse, plc):
    """Softener, refill and a dose over three wires bring the calcium where the stock's label says, or just below."""
    plc.write_single_coil(0, True)
    plc.write_single_coil(5, True)
    greenhouse.wait_for(lambda s: s["plant"]["values"]["ca"] < 0.46 and not s["plant"]["refilling"], "softened water")
    plc.write_single_coil(5, False)
    plc.write_multiple_coils(0, [False])  # not earlier: hard water would come in until the tank is full
    start = read_float(plc, 0)
    with serial_port(greenhouse.path("ca")) as pump:
        assert ask(pump, "D,30") == ["*OK"]
        assert pump.read_until(b"*DONE,30.00\r").endswith(b"*DONE,30.00\r")
        assert ask(pump, "D,?") == ["?D,30.00,0", "*OK"]
    reached = greenhouse.wait_for(lambda s: s["plant"]["values"]["ca"] > start + 1.36, "its calcium")
    assert reached["plant"]["values"]["ca"] == pytest.approx(start + 30 * 0.048, abs=0.1)
    assert read_float(plc, 0) == pytest.approx(reached["plant"]["values"]["ca"], abs=0.1)
    dose = reached["doses"][-1]
    assert (dose["pump"], dose["target_ml"], dose["how"]) == ("ca_doser", 30.0, "done")


def test_a_terminal_talks_to_the_ph_circuit(greenhouse):
    """A plain serial port silences the continuous mode and reads the tank's pH."""
    with serial_port(greenhouse.path("ph")) as port:
        port.write(b"C,0\r")
        assert port.read_until(b"*OK\r").endswith(b"*OK\r")
        port.reset_input_buffer()
        value, ok = ask(port, "r")
        assert (float(value), ok) == (pytest.approx(greenhouse.state()["plant"]["values"]["ph"], abs=0.05), "*OK")
        assert ask(port, "I") == ["?I,pH,SIM2.14", "*OK"]
        assert ask(port, "C,1") == ["*OK"]
        assert 5.0 < float(port.read_until(b"\r")) < 7.2


def test_pyvisa_talks_to_the_camera(greenhouse):
    """pyvisa-py identifies the instrument, measures, and reads its error queue."""
    with visa(greenhouse.path("cam")) as camera:
        camera.write("*CLS")
        assert camera.query("*IDN?").split(",")[1] == "GC-1"
        outcome = greenhouse.state()["plant"]["outcome"]
        assert float(camera.query("MEAS:GROW?")) == pytest.approx(outcome, rel=0.1)
        assert camera.query("*OPC?") == "1"
        camera.write("MAKE:COFFEE")
        assert camera.query("SYST:ERR?") == '-113,"Undefined header"'
        assert camera.query("SYST:ERR?") == '0,"No error"'


def test_strangers_drive_the_lathe(lathe):
    """All layouts of the lathe's PLC, its counters, and the three-phase meter on unit 3."""
    host, port = lathe.plc
    client = ModbusClient(host=host, port=port, unit_id=1, timeout=60, auto_open=True)
    values = lathe.state()["plant"]["values"]
    assert read_float(client, 0) == pytest.approx(values["speed"], abs=6.0)
    assert client.read_input_registers(6, 1)[0] * 0.01 == pytest.approx(values["coolant"], abs=0.3)
    wear = read_float(client, 20)
    client.write_single_coil(5, True)
    lathe.wait_for(lambda s: not s["plant"]["changing"] and not s["plant"]["cutting"], "the end of a cut")
    assert read_float(client, 20) > wear
    assert client.write_single_coil(5, False)
    client.close()
    rtu = ("-m", "rtu", "-b", "9600", "-P", "none", "-a", "3", "-0", "-t", "3:float", "-B", "-c", "1")
    code, found, text = mbpoll(*rtu, "-r", "52", lathe.path("mains"))
    assert (code, float(found[0])) == (0, pytest.approx(1400.0)), text
    with minimal(lathe.path("mains"), 3) as meter:
        assert meter.read_float(0x14, 3) == 3.0
        assert (meter.read_long(0xFC00, 3), meter.read_register(0xFC02, 0, 3)) == (21070003, 0x70)


def test_a_stranger_sees_the_meter_switched_and_its_counter_jump(lathe):
    """A switch to MWh shows in the settings and the counter; a jump in the counter alone."""
    with minimal(lathe.path("mains"), 3) as meter:
        before_kwh = meter.read_float(0x48, 4)
        lathe.control({"fault": "jump_kwh", "kwh": 1e6})
        assert meter.read_float(0x48, 4) >= before_kwh + 1e6 - 1.0
        assert meter.read_float(0x1E, 3) == 0.0
        lathe.control({"fault": "energy_unit", "as": "MWh"})
        assert meter.read_float(0x48, 4) == pytest.approx(1e3, rel=0.05)
        assert meter.read_float(0x1E, 3) == 1.0
        lathe.control({"clear": True})
        assert meter.read_float(0x1E, 3) == 0.0


def test_strangers_drive_the_tunnel(tunnel):
    """A new run brings new values, and the microphone hears what the arrays say."""
    host, port = tunnel.plc
    client = ModbusClient(host=host, port=port, unit_id=1, timeout=60, auto_open=True)
    before = tunnel.state()["plant"]["natural"]
    client.write_single_coil(5, True)
    after = tunnel.wait_for(lambda s: s["plant"]["batches"] == 1 and not s["plant"]["changing"], "a new run")
    client.close()
    assert all(before[name] != after["plant"]["natural"][name] for name in before)
    with visa(tunnel.path("mic")) as microphone:
        level = float(microphone.query("MEASure:SPLevel?"))
        assert level == pytest.approx(tunnel.state()["plant"]["outcome"], abs=3.0)
