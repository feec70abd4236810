"""What `rigctl doctor` looks at of the machine itself: system, memory, clocks, power, watchdog, and troublemakers."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from rigctl.console.doctor import Check, Finding, Machine, Subject, Verdict

LITTLE_MIB, TOO_LITTLE_MIB = 400, 150
"""Of free memory: a fit of a long campaign takes a few hundred."""
GOOD_CLOCKS: Final = frozenset({"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"})
THROTTLED: Final = MappingProxyType(
    {1: "its frequency is capped", 2: "it is throttled", 3: "it is near its temperature limit"}
)
"""Bits of what a Raspberry Pi's firmware says; 16 higher: it was so since boot."""
UNDERVOLTED: Final = 0


def _python(_: Machine, __: Subject) -> Iterator[Finding]:
    bits = 64 if sys.maxsize > 2**32 else 32
    said = f"Python {platform.python_version()}, {bits} bit"
    if bits == 32:
        remedy = "install a 64-bit system: there are no ready-made numpy and scipy for this one"
        yield Finding("python", "warn", said, remedy)
    else:
        yield Finding("python", "ok", said)


def _system(machine: Machine, _: Subject) -> Iterator[Finding]:
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release"), re.MULTILINE)
    board = machine.read("/proc/device-tree/model")
    parts = [name[1] if name else platform.system(), f"kernel {platform.release()}", *([board] if board else [])]
    yield Finding("system", "ok", ", ".join(parts))


def _memory(machine: Machine, _: Subject) -> Iterator[Finding]:
    found = re.search(r"^MemAvailable:\s*(\d+) kB", machine.read("/proc/meminfo"), re.MULTILINE)
    if found is None:
        return
    free = int(found[1]) // 1024
    remedy = "end other programs, or add swap that is not on an SD card; `max_points` bounds what a decision needs"
    verdict: Verdict = "bad" if free < TOO_LITTLE_MIB else "warn" if free < LITTLE_MIB else "ok"
    yield Finding("memory", verdict, f"{free} MiB free", "" if verdict == "ok" else remedy)


def _clock_source(machine: Machine, _: Subject) -> Iterator[Finding]:
    source = machine.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not source:
        return
    if source in GOOD_CLOCKS:
        yield Finding("clock source", "ok", source)
        return
    remedy = "look for `clocksource=` on the kernel's command line and for TSC warnings in `dmesg`"
    yield Finding("clock source", "warn", f"{source}, which is slow or coarse; settling and caps count by it", remedy)


def _time(machine: Machine, _: Subject) -> Iterator[Finding]:
    asked = machine.run(["timedatectl", "show", "-p", "NTPSynchronized", "--value"])
    chrony = machine.run(["chronyc", "-c", "tracking"])
    synchronised = asked == "yes" or machine.at("/run/systemd/timesync/synchronized").exists() or bool(chrony)
    if synchronised:
        yield Finding("time", "ok", "set by the network")
        return
    what = "the wall clock is set by nobody; no timer or cap hangs on it, but reports, tariffs and daily times do"
    yield Finding("time", "warn", what, "`sudo timedatectl set-ntp true`, or install chrony")


def _clock_chip(machine: Machine, _: Subject) -> Iterator[Finding]:
    chips = machine.listed("/sys/class/rtc")
    if chips:
        yield Finding("clock chip", "ok", ", ".join(chips))
        return
    what = "none: after a power cut the date is wrong until the network has set it"
    yield Finding("clock chip", "warn", what, "fit one with a battery, or start the campaign after time-sync.target")


def _power(machine: Machine, _: Subject) -> Iterator[Finding]:
    told = machine.read("/sys/devices/platform/soc/soc:firmware/get_throttled")
    told = told or machine.run(["vcgencmd", "get_throttled"]).partition("=")[2]
    if not told:
        return  # no Raspberry Pi
    bits = int(told, 16)
    supply = "a supply made for this board, a shorter and thicker cable, pumps on a supply of their own"
    if bits >> UNDERVOLTED & 1:
        yield Finding("power", "bad", "the supply's voltage is too low now", supply)
    elif bits >> (UNDERVOLTED + 16) & 1:
        what = "the supply's voltage was too low since boot: that resets boards in mid-write"
        yield Finding("power", "bad", what, supply)
    else:
        yield Finding("power", "ok", "the supply's voltage has held since boot")
    hot = [f"{said} now" for bit, said in THROTTLED.items() if bits >> bit & 1]
    before = bits >> 16 & ~bits
    hot += [f"{said}, at times since boot" for bit, said in THROTTLED.items() if before >> bit & 1]
    if hot:
        yield Finding("temperature", "warn", "; ".join(hot), "a heat sink, a fan, or a cooler place")


def _watchdog(machine: Machine, _: Subject) -> Iterator[Finding]:
    chips = machine.listed("/sys/class/watchdog")
    subject = "hardware watchdog"
    if not chips:
        remedy = "on a Raspberry Pi `dtparam=watchdog=on` in config.txt; elsewhere look in the firmware's settings"
        yield Finding(subject, "warn", "none: a kernel that hangs stays hung, and outputs stay as they are", remedy)
        return
    armed = [chip for chip in chips if machine.read(f"/sys/class/watchdog/{chip}/state") == "active"]
    if armed:
        yield Finding(subject, "ok", f"{', '.join(armed)} is armed")
        return
    remedy = "`RuntimeWatchdogSec=30` in /etc/systemd/system.conf, then `sudo systemctl daemon-reexec`"
    yield Finding(subject, "warn", f"{', '.join(chips)} is there but not armed: a kernel that hangs stays hung", remedy)


def _braille(machine: Machine, _: Subject) -> Iterator[Finding]:
    if machine.processes("brltty"):
        what = "brltty runs: it takes USB serial adapters for braille displays"
        yield Finding("brltty", "bad", what, "`sudo apt-get remove brltty`, if nobody here reads braille")


def _desktop_sleep(machine: Machine, _: Subject) -> Iterator[Finding]:
    targets = machine.run(["systemctl", "is-enabled", "sleep.target", "suspend.target"]).split()
    battery = any(name.startswith("BAT") for name in machine.listed("/sys/class/power_supply"))
    if battery and "masked" not in targets:
        what = "this machine has a battery, and may go to sleep with its outputs as they are"
        remedy = "`sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target`"
        yield Finding("sleep", "warn", what, remedy)


CHECKS: Final[tuple[Check, ...]] = (
    _python,
    _system,
    _memory,
    _clock_source,
    _time,
    _clock_chip,
    _power,
    _watchdog,
    _braille,
    _desktop_sleep,
)
