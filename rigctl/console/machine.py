"""What `rigctl tools doctor` asks a machine, and looks at on it: clocks, power, memory, ports. It asks no rig.

A check is a function of the machine and of what runs on it; it yields findings. All that is looked at comes through
`Machine`, so that another one can be put in its place.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from rigctl import system
from rigctl.config.load import LoadedConfig
from rigctl.rig.places import host_and_port, is_on_network, taken_apart

Verdict = Literal["ok", "warn", "bad"]
COMMAND_S: Final = 5.0
"""Wall seconds that a command of the system may take."""
LITTLE_MIB, TOO_LITTLE_MIB = 400, 150
"""Of free memory: a fit of a long campaign takes a few hundred."""
GOOD_CLOCKS: Final = frozenset({"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "xen"})
THROTTLED: Final = MappingProxyType(
    {1: "its frequency is capped", 2: "it is throttled", 3: "it is near its temperature limit"}
)
"""Bits of what a Raspberry Pi's firmware says; 16 higher: it was so since boot."""
UNDERVOLTED: Final = 0
BY_ID: Final = "/dev/serial/by-id"
SWITCHED_ON: Final = MappingProxyType({"/dev/i2c-": "dtparam=i2c_arm=on", "/sys/bus/w1/": "dtoverlay=w1-gpio"})
"""What makes a bus appear, by how its path begins."""


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """Says how one thing is, and what to do about it."""

    subject: str
    verdict: Verdict
    what: str
    remedy: str = ""


def looked_at(
    subject: str, good: bool, fine: str, wrong: str = "", remedy: str = "", *, verdict: Verdict = "warn"
) -> MachineFinding:
    """Return a finding: `fine` where it is good, else what is `wrong`, by default the same."""
    return MachineFinding(subject, "ok", fine) if good else MachineFinding(subject, verdict, wrong or fine, remedy)


def graded(subject: str, value: float, limits: tuple[float, float], what: str, remedy: str) -> MachineFinding:
    """Return a finding of a quantity that is bad below the first limit, and worth a warning below the second."""
    least, enough = limits
    return looked_at(subject, value >= enough, what, "", remedy, verdict="bad" if value < least else "warn")


def _run(words: Sequence[str]) -> str:
    """Return what a command prints; empty if it is not there, fails or takes long."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False)  # noqa: S603 - our words
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Answers questions about the machine; read-only."""

    root: Path = Path("/")
    run: Callable[[Sequence[str]], str] = _run
    uid: int = field(default_factory=system.user)
    groups: frozenset[int] = field(default_factory=lambda: frozenset({os.getegid(), *os.getgroups()}))
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def at(self, path: str) -> Path:
        """Return where a path of the machine is found."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Return a file's text; empty if there is none."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip("\0\n ")
        except OSError:
            return ""

    def real(self, path: str) -> str:
        """Return where links lead to, as a path of the machine."""
        return f"/{os.path.relpath(os.path.realpath(self.at(path)), os.path.realpath(self.root))}"

    def listed(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder; none if it is not there."""
        try:
            return tuple(sorted(path.name for path in self.at(folder).iterdir()))
        except OSError:
            return ()

    def processes(self, *names: str) -> Mapping[int, str]:
        """Return which processes have one of these names, by PID."""
        found = {int(pid): self.read(f"/proc/{pid}/comm") for pid in self.listed("/proc") if pid.isdecimal()}
        return {pid: name for pid, name in found.items() if name in names}


@dataclass(frozen=True, slots=True)
class Subject:
    """Holds what runs, or is to run, on the machine."""

    loaded: LoadedConfig | None = None
    """None: no configuration was given, or it does not hold."""
    directory: Path | None = None
    wrong: tuple[str, ...] = ()
    """What does not hold in the configuration."""


Check = Callable[[Machine, Subject], Iterator[MachineFinding]]


# the machine ----------------------------------------------------------------------------------------------------------


def _python(_: Machine, __: Subject) -> Iterator[MachineFinding]:
    bits = 64 if sys.maxsize > 2**32 else 32
    remedy = "install a 64-bit system: there are no ready-made numpy and scipy for this one"
    yield looked_at("python", bits == 64, f"Python {platform.python_version()}, {bits} bit", "", remedy)


def _system(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release"), re.MULTILINE)
    board = machine.read("/proc/device-tree/model")
    parts = [name[1] if name else platform.system(), f"kernel {platform.release()}", *([board] if board else [])]
    yield MachineFinding("system", "ok", ", ".join(parts))


def _memory(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    found = re.search(r"^MemAvailable:\s*(\d+) kB", machine.read("/proc/meminfo"), re.MULTILINE)
    if found is None:
        return
    free = int(found[1]) // 1024
    remedy = "end other programs, or add swap that is not on an SD card; `max_points` bounds what a decision needs"
    yield graded("memory", free, (TOO_LITTLE_MIB, LITTLE_MIB), f"{free} MiB free", remedy)


def _clock_source(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    source = machine.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source:
        wrong = f"{source}, which is slow or coarse; settling and caps count by it"
        remedy = "look for `clocksource=` on the kernel's command line and for TSC warnings in `dmesg`"
        yield looked_at("clock source", source in GOOD_CLOCKS, source, wrong, remedy)


def _time(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    asked = machine.run(["timedatectl", "show", "-p", "NTPSynchronized", "--value"])
    chrony = machine.run(["chronyc", "-c", "tracking"])
    synchronised = asked == "yes" or machine.at("/run/systemd/timesync/synchronized").exists() or bool(chrony)
    wrong = "the wall clock is set by nobody; no timer or cap hangs on it, but reports, tariffs and daily times do"
    remedy = "`sudo timedatectl set-ntp true`, or install chrony"
    yield looked_at("time", synchronised, "set by the network", wrong, remedy)


def _clock_chip(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    chips = machine.listed("/sys/class/rtc")
    wrong = "none: after a power cut the date is wrong until the network has set it"
    remedy = "fit one with a battery, or start the campaign after time-sync.target"
    yield looked_at("clock chip", bool(chips), ", ".join(chips), wrong, remedy)


def _power(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    told = machine.read("/sys/devices/platform/soc/soc:firmware/get_throttled")
    told = told or machine.run(["vcgencmd", "get_throttled"]).partition("=")[2]
    if not told:
        return  # no Raspberry Pi
    bits = int(told, 16)
    supply = "a supply made for this board, a shorter and thicker cable, pumps on a supply of their own"
    now, since = bits >> UNDERVOLTED & 1, bits >> (UNDERVOLTED + 16) & 1
    low = "is too low now" if now else "was too low since boot: that resets boards in mid-write"
    held, low = "the supply's voltage has held since boot", f"the supply's voltage {low}"
    yield looked_at("power", not (now or since), held, low, supply, verdict="bad")
    hot = [f"{said} now" for bit, said in THROTTLED.items() if bits >> bit & 1]
    before = bits >> 16 & ~bits
    hot += [f"{said}, at times since boot" for bit, said in THROTTLED.items() if before >> bit & 1]
    if hot:
        yield MachineFinding("temperature", "warn", "; ".join(hot), "a heat sink, a fan, or a cooler place")


def _watchdog(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    chips = machine.listed("/sys/class/watchdog")
    armed = [chip for chip in chips if machine.read(f"/sys/class/watchdog/{chip}/state") == "active"]
    if chips:
        wrong = f"{', '.join(chips)} is there but not armed: a kernel that hangs stays hung"
        remedy = "`RuntimeWatchdogSec=30` in /etc/systemd/system.conf, then `sudo systemctl daemon-reexec`"
    else:
        wrong = "none: a kernel that hangs stays hung, and outputs stay as they are"
        remedy = "on a Raspberry Pi `dtparam=watchdog=on` in config.txt; elsewhere look in the firmware's settings"
    yield looked_at("hardware watchdog", bool(armed), f"{', '.join(armed)} is armed", wrong, remedy)


def _braille(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    if machine.processes("brltty"):
        what = "brltty runs: it takes USB serial adapters for braille displays"
        yield MachineFinding("brltty", "bad", what, "`sudo apt-get remove brltty`, if nobody here reads braille")


def _desktop_sleep(machine: Machine, _: Subject) -> Iterator[MachineFinding]:
    targets = machine.run(["systemctl", "is-enabled", "sleep.target", "suspend.target"]).split()
    battery = any(name.startswith("BAT") for name in machine.listed("/sys/class/power_supply"))
    if battery and "masked" not in targets:
        what = "this machine has a battery, and may go to sleep with its outputs as they are"
        remedy = "`sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target`"
        yield MachineFinding("sleep", "warn", what, remedy)


# its ports ------------------------------------------------------------------------------------------------------------


def _configured(subject: Subject) -> Mapping[str, str]:
    """Return the serial ports of the configuration by their whole path, each with the devices on it."""
    found: dict[str, list[str]] = {}
    for name, device in {} if subject.loaded is None else subject.loaded.rig.devices.items():
        if not is_on_network(device.url):
            found.setdefault(str(Path(taken_apart(device.url)[1]).absolute()), []).append(name)
    return {place: ", ".join(names) for place, names in found.items()}


def _there(machine: Machine, subject: Subject) -> Mapping[str, str]:
    """Return the configured ports that are there, with the node each leads to."""
    return {place: machine.real(place) for place in _configured(subject) if machine.at(place).exists()}


def _stable(machine: Machine, node: str) -> str:
    """Return the name of a port that stays; empty if it has none."""
    names = (f"{BY_ID}/{name}" for name in machine.listed(BY_ID))
    return next((name for name in names if machine.real(name) == node), "")


def _found(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """List what there is where no configuration says what there should be."""
    if subject.loaded is not None:
        return
    nodes = [f"/dev/{name}" for name in machine.listed("/dev") if re.fullmatch(r"tty(USB|ACM)\d+", name)]
    for node in nodes:
        yield MachineFinding(f"port {node}", "ok", _stable(machine, node) or "has no stable name")
    if not nodes:
        yield MachineFinding("ports", "ok", "no USB serial port is plugged in")


def _named(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Say which ports are missing, and which are called by a name that may be another's tomorrow."""
    for place, devices in _configured(subject).items():
        name = f"port {place}"
        if not machine.at(place).exists():
            yield MachineFinding(name, "bad", f"is not there ({devices})", _remedy(machine, place))
            continue
        node = machine.real(place)
        stable = _stable(machine, node)
        numbered = re.fullmatch(r"/dev/tty(USB|ACM)\d+", place) is not None
        wrong = f"numbers change when adapters are plugged in again ({devices})"
        remedy = f"write {stable} instead" if stable else "name it by /dev/serial/by-path: it has no serial number"
        yield looked_at(name, not numbered, f"leads to {node} ({devices})", wrong, remedy)


def _remedy(machine: Machine, place: str) -> str:
    for begins, line in SWITCHED_ON.items():
        if place.startswith(begins):
            return f"on a Raspberry Pi write `{line}` into config.txt, and start it anew"
    there = ", ".join(f"{BY_ID}/{n}" for n in machine.listed(BY_ID))
    return f"plug it in, or name one of: {there}" if there else "plug it in; there is no USB serial port"


def _allowed(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Say which ports this account may not open, and how it may."""
    for place, node in _there(machine, subject).items():
        if node.startswith("/sys/"):  # is only read, as all may
            continue
        found = machine.at(node).stat()
        kind = 6 if found.st_uid == machine.uid else 3 if found.st_gid in machine.groups else 0
        may, group = machine.uid == 0 or found.st_mode >> kind & 0o6 == 0o6, _group(machine, found.st_gid)
        wrong = f"belongs to the group {group}, which this account is not in"
        remedy = f"`sudo usermod -aG {group} $USER`, then log in anew; a service has it in its unit"
        yield looked_at(f"access {place}", may, "may be opened by this account", wrong, remedy, verdict="bad")


def _group(machine: Machine, number: int) -> str:
    lines = (line.split(":") for line in machine.read("/etc/group").splitlines())
    return next((fields[0] for fields in lines if len(fields) > 2 and fields[2] == str(number)), str(number))


def _holders(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Name the processes that have a port open, as far as this account may see them."""
    nodes = {node: place for place, node in _there(machine, subject).items()}
    if not nodes:
        return
    for pid in (name for name in machine.listed("/proc") if name.isdecimal()):
        for number in machine.listed(f"/proc/{pid}/fd"):
            try:
                opened = str(machine.at(f"/proc/{pid}/fd/{number}").readlink())
            except OSError:  # closed meanwhile
                continue
            if opened not in nodes:
                continue
            name = machine.read(f"/proc/{pid}/comm")
            ours, what = name.startswith(("rigctl", "python")), f"is open in process {pid} ({name})"
            remedy = f"if that is not the campaign, end it: `kill {pid}`"
            yield looked_at(f"holder {nodes[opened]}", ours, what, "", remedy, verdict="bad")


def _modem_manager(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Tell of ModemManager, which sends modem commands to every new port that it is not told to leave alone."""
    if not machine.processes("ModemManager"):
        return
    left_alone = "ID_MM_DEVICE_IGNORE=1", "ID_MM_PORT_IGNORE=1"
    for place, node in _there(machine, subject).items():
        number = machine.read(f"/sys/class/tty/{node.removeprefix('/dev/')}/dev")
        known = machine.read(f"/run/udev/data/c{number}")
        left = any(f"E:{mark}" in known for mark in left_alone)
        vendor = re.search(r"^E:ID_(?:USB_)?VENDOR_ID=(\w+)", known, re.MULTILINE)
        rule = f'ATTRS{{idVendor}}=="{vendor[1] if vendor else "VVVV"}", ENV{{ID_MM_DEVICE_IGNORE}}="1"'
        remedy = f"`sudo apt-get remove modemmanager`, or in /etc/udev/rules.d/99-rigctl.rules: {rule}"
        wrong = "runs, and writes to this port when it is plugged in: a pump may take that for a command"
        yield looked_at(f"ModemManager {place}", left, "leaves this port alone", wrong, remedy, verdict="bad")
    if not _configured(subject):
        what = "runs, and writes to every serial port that is plugged in"
        yield MachineFinding("ModemManager", "warn", what, "`sudo apt-get remove modemmanager`")


def _consoles(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Tell of ports on which the kernel or a login writes."""
    consoles = set(re.findall(r"\bconsole=(tty\w+)", machine.read("/proc/cmdline")))
    for place, node in _there(machine, subject).items():
        if node.removeprefix("/dev/") in consoles:
            what = "is the kernel's console: it writes there whenever it has something to say"
            remedy = "remove `console=` for it from the kernel's command line (`raspi-config`: serial port, no login)"
            yield MachineFinding(f"console {place}", "bad", what, remedy)


def _asleep(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Tell of USB adapters that are put to sleep when nothing is said for a while."""
    for place, node in _there(machine, subject).items():
        folder = f"/sys/class/tty/{node.removeprefix('/dev/')}/device"
        for above in ("..", "../..", "../../.."):
            if not machine.at(f"{folder}/{above}/idVendor").exists():
                continue  # not the adapter yet
            control = machine.read(f"{folder}/{above}/power/control")
            if control == "auto":
                what = "its adapter is put to sleep when nothing is said, and may miss what is said next"
                rule = 'ACTION=="add", SUBSYSTEM=="usb", ATTR{power/control}="on"'
                remedy = f"in /etc/udev/rules.d/99-rigctl.rules: {rule}"
                yield MachineFinding(f"sleep {place}", "warn", what, remedy)
            break


def _hosts(_: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Say which hosts are named so that their address may move."""
    devices = {} if subject.loaded is None else subject.loaded.rig.devices
    urls = {device.url for device in devices.values() if is_on_network(device.url)}
    for host in sorted({host_and_port(taken_apart(url)[1], "")[0] for url in urls}):
        address = re.fullmatch(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]*|localhost", host) is not None
        fine, wrong = "is an address; `rigctl check --probe` asks it", "is a name: it needs a name server that answers"
        remedy = "give the instrument a fixed address, and write that"
        yield looked_at(f"host {host}", address, fine, f"{wrong} after every power cut", remedy)


CHECKS: Final[tuple[Check, ...]] = (
    *(_found, _named, _allowed, _holders, _modem_manager, _consoles, _asleep, _hosts),
    *(_python, _system, _memory, _clock_source, _time, _clock_chip, _power, _watchdog, _braille, _desktop_sleep),
)
