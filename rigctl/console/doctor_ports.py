"""What `rigctl doctor` looks at of ports: whether each is there, ours to open, and nobody else's. Opens none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rigctl.console.doctor import Check, Finding, Machine, Subject
from rigctl.rig.places import host_and_port, taken_apart

BY_ID: Final = "/dev/serial/by-id"


def _configured(subject: Subject) -> Mapping[str, str]:
    """Return the serial ports of the configuration by their whole path, each with the devices on it."""
    found: dict[str, list[str]] = {}
    for name, device in {} if subject.loaded is None else subject.loaded.rig.devices.items():
        if "tcp" not in device.url.partition("://")[0]:
            found.setdefault(str(Path(taken_apart(device.url)[1]).absolute()), []).append(name)
    return {place: ", ".join(names) for place, names in found.items()}


def _there(machine: Machine, subject: Subject) -> Mapping[str, str]:
    """Return the configured ports that are there, with the node each leads to."""
    return {place: machine.real(place) for place in _configured(subject) if machine.at(place).exists()}


def _stable(machine: Machine, node: str) -> str:
    """Return the name of a port that stays; empty if it has none."""
    names = (f"{BY_ID}/{name}" for name in machine.listed(BY_ID))
    return next((name for name in names if machine.real(name) == node), "")


def _found(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """List what there is where no configuration says what there should be."""
    if subject.loaded is not None:
        return
    nodes = [f"/dev/{name}" for name in machine.listed("/dev") if re.fullmatch(r"tty(USB|ACM)\d+", name)]
    for node in nodes:
        yield Finding(f"port {node}", "ok", _stable(machine, node) or "has no stable name")
    if not nodes:
        yield Finding("ports", "ok", "no USB serial port is plugged in")


def _named(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Say which ports are missing, and which are called by a name that may be another's tomorrow."""
    for place, devices in _configured(subject).items():
        name = f"port {place}"
        if not machine.at(place).exists():
            there = ", ".join(f"{BY_ID}/{n}" for n in machine.listed(BY_ID))
            remedy = f"plug it in, or name one of: {there}" if there else "plug it in; there is no USB serial port"
            yield Finding(name, "bad", f"is not there ({devices})", remedy)
            continue
        node = machine.real(place)
        stable = _stable(machine, node)
        if re.fullmatch(r"/dev/tty(USB|ACM)\d+", place):
            what = f"numbers change when adapters are plugged in again ({devices})"
            remedy = f"write {stable} instead" if stable else "name it by /dev/serial/by-path: it has no serial number"
            yield Finding(name, "warn", what, remedy)
        else:
            yield Finding(name, "ok", f"leads to {node} ({devices})")


def _allowed(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Say which ports this account may not open, and how it may."""
    for place, node in _there(machine, subject).items():
        found = machine.at(node).stat()
        kind = 6 if found.st_uid == machine.uid else 3 if found.st_gid in machine.groups else 0
        if machine.uid == 0 or found.st_mode >> kind & 0o6 == 0o6:
            yield Finding(f"access {place}", "ok", "may be opened by this account")
            continue
        group = _group(machine, found.st_gid)
        remedy = f"`sudo usermod -aG {group} $USER`, then log in anew; a service has it in its unit"
        yield Finding(f"access {place}", "bad", f"belongs to the group {group}, which this account is not in", remedy)


def _group(machine: Machine, number: int) -> str:
    lines = (line.split(":") for line in machine.read("/etc/group").splitlines())
    return next((fields[0] for fields in lines if len(fields) > 2 and fields[2] == str(number)), str(number))


def _holders(machine: Machine, subject: Subject) -> Iterator[Finding]:
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
            ours = name.startswith(("rigctl", "python"))
            what = f"is open in process {pid} ({name})"
            remedy = f"if that is not the campaign, end it: `kill {pid}`"
            yield Finding(f"holder {nodes[opened]}", "ok" if ours else "bad", what, "" if ours else remedy)


def _modem_manager(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Tell of ModemManager, which sends modem commands to every new port that it is not told to leave alone."""
    if not machine.processes("ModemManager"):
        return
    left_alone = "ID_MM_DEVICE_IGNORE=1", "ID_MM_PORT_IGNORE=1"
    for place, node in _there(machine, subject).items():
        number = machine.read(f"/sys/class/tty/{node.removeprefix('/dev/')}/dev")
        known = machine.read(f"/run/udev/data/c{number}")
        if any(f"E:{mark}" in known for mark in left_alone):
            yield Finding(f"ModemManager {place}", "ok", "leaves this port alone")
            continue
        vendor = re.search(r"^E:ID_(?:USB_)?VENDOR_ID=(\w+)", known, re.MULTILINE)
        rule = f'ATTRS{{idVendor}}=="{vendor[1] if vendor else "VVVV"}", ENV{{ID_MM_DEVICE_IGNORE}}="1"'
        remedy = f"`sudo apt-get remove modemmanager`, or in /etc/udev/rules.d/99-rigctl.rules: {rule}"
        what = "runs, and writes to this port when it is plugged in: a pump may take that for a command"
        yield Finding(f"ModemManager {place}", "bad", what, remedy)
    if not _configured(subject):
        what = "runs, and writes to every serial port that is plugged in"
        yield Finding("ModemManager", "warn", what, "`sudo apt-get remove modemmanager`")


def _consoles(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Tell of ports on which the kernel or a login writes."""
    consoles = set(re.findall(r"\bconsole=(tty\w+)", machine.read("/proc/cmdline")))
    for place, node in _there(machine, subject).items():
        if node.removeprefix("/dev/") in consoles:
            what = "is the kernel's console: it writes there whenever it has something to say"
            remedy = "remove `console=` for it from the kernel's command line (`raspi-config`: serial port, no login)"
            yield Finding(f"console {place}", "bad", what, remedy)


def _asleep(machine: Machine, subject: Subject) -> Iterator[Finding]:
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
                yield Finding(f"sleep {place}", "warn", what, remedy)
            break


def _hosts(_: Machine, subject: Subject) -> Iterator[Finding]:
    """Say which hosts are named so that their address may move."""
    devices = {} if subject.loaded is None else subject.loaded.rig.devices
    urls = {device.url for device in devices.values() if "tcp" in device.url.partition("://")[0]}
    for host in sorted({host_and_port(taken_apart(url)[1], "")[0] for url in urls}):
        if re.fullmatch(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]*|localhost", host):
            yield Finding(f"host {host}", "ok", "is an address; `rigctl check --probe` asks it")
        else:
            what = "is a name: it needs a name server that answers after every power cut"
            yield Finding(f"host {host}", "warn", what, "give the instrument a fixed address, and write that")


CHECKS: Final[tuple[Check, ...]] = (
    _found,
    _named,
    _allowed,
    _holders,
    _modem_manager,
    _consoles,
    _asleep,
    _hosts,
)
