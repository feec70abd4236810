"""What I2C and GPIO do in a real kernel: run inside the machine that `on_a_kernel.py` starts, which has no pytest.

At 0x49 stands QEMU's TMP105, which nobody here wrote; its register 3 keeps two bytes.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from rigctl.errors import DeviceFault, DeviceTimeout, PortHeld
from rigctl.rig.clocks import RealClock
from rigctl.rig.protocols import ActuatorState, Deadline
from rigctl_drivers.gpio import GpioOptions, GpioRelay, GpioSwitch, GpioSwitchOptions
from rigctl_drivers.gpio_line import open_gpio
from rigctl_drivers.i2c_line import open_i2c

LINES = Path("/sys/kernel/debug/gpio")


def soon() -> Deadline:
    return Deadline.after(5.0)


def refused(kind, call):
    try:
        got = call()
    except kind as error:
        print("refused:", error, flush=True)
    else:
        raise AssertionError(got)


def i2c():
    url = "i2c:///dev/i2c-0"
    bus, other = open_i2c(url, RealClock()), open_i2c(url, RealClock())
    bus.open()
    bus.transfer(0x49, b"\x03\x12\x30", 0, soon())
    assert bus.transfer(0x49, b"\x03", 2, soon()) == b"\x12\x30"
    refused(DeviceTimeout, lambda: bus.transfer(0x63, b"i", 0, soon()))
    refused(DeviceTimeout, lambda: bus.transfer(0x63, b"", 40, soon()))
    refused(PortHeld, other.open)
    bus.close()
    other.open()
    assert other.transfer(0x49, b"\x03", 2, soon()) == b"\x12\x30"


def on_lines(number):
    return [line.split(")")[1].split() for line in LINES.read_text().splitlines() if f"gpio-{number} " in line]


def gpio():
    url = "gpio:///dev/gpiochip0"
    chip = open_gpio(url, RealClock())
    chip.open()
    for low in (False, True):
        relay = GpioRelay(GpioOptions(line=9 + low, active_low=low), chip)
        relay.identify(soon())
        for on in (1.0, 0.0, 1.0):
            relay.apply(on, soon())
            assert relay.read_back(soon()) == ActuatorState(bool(on), on)
            assert on_lines(9 + low)[0][:2] == ["out", "hi" if bool(on) != low else "lo"]
        relay.safe(soon())
        assert not relay.read_back(soon()).controlled
    other = open_gpio(url, RealClock())
    other.open()
    refused(DeviceFault, lambda: other.transfer("9", b"", 3, soon()))
    refused(DeviceFault, lambda: other.transfer("99", b"", 3, soon()))
    for line, pull in ((11, "up"), (12, "down"), (13, "none")):
        reading = GpioSwitch(GpioSwitchOptions(line=line, active_low=False, pull=pull), chip).read(soon())
        print(f"switch, pull {pull}: {reading.value:g}", flush=True)
        assert on_lines(line)[0][0] == "in"


def killed():
    """What a process that is killed leaves of a relay that is on; who comes next reads it, and makes it safe."""
    child = os.fork()
    if not child:
        chip = open_gpio("gpio:///dev/gpiochip0", RealClock())
        chip.open()
        GpioRelay(GpioOptions(line=14, active_low=False), chip).apply(1.0, soon())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    chip = open_gpio("gpio:///dev/gpiochip0", RealClock())
    chip.open()
    relay = GpioRelay(GpioOptions(line=14, active_low=False), chip)
    print("left by a process that was killed:", relay.read_back(soon()), flush=True)
    relay.safe(soon())
    assert not relay.read_back(soon()).controlled


if __name__ == "__main__":
    print("kernel", os.uname().release, os.uname().machine, flush=True)
    with suppress(KeyboardInterrupt):
        for part in (i2c, gpio, killed):
            part()
            print(part.__name__, "holds", flush=True)
