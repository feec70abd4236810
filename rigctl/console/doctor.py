"""`rigctl tools doctor`: looks at the machine a rig is left alone with and at its campaign, and says what to mend."""

from __future__ import annotations

import math
import os
import re
import stat
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign import safe_file
from rigctl.campaign.journal import integrity
from rigctl.campaign.journal.reader import FILE_NAME, at_one_instant
from rigctl.campaign.lock import campaign_here, open_to_others
from rigctl.campaign.starts import bad
from rigctl.campaign.watch import FULL_BYTES, LOW_BYTES
from rigctl.config.document import read
from rigctl.config.forecast import forecast
from rigctl.config.load import Overrides, load_text
from rigctl.console.checking import SLOW_S, checked
from rigctl.console.machine import CHECKS as MACHINE_CHECKS
from rigctl.console.machine import Check, Machine, MachineFinding, Subject, Verdict, graded, looked_at
from rigctl.console.safe import state_of
from rigctl.console.services.service_unit import stopping_s
from rigctl.errors import ConfigError, RigctlError, counted

if TYPE_CHECKING:
    from rich.console import Console

SERVICES_STATE: Final = "/var/lib/rigctl"
"""Where systemd keeps the state of `rigctl tools service`."""
STYLES: Final[Mapping[Verdict, str]] = {"ok": "green", "warn": "yellow", "bad": "bold red"}
TRIAL_BYTES: Final = 20_000
"""What a trial adds to a journal, doses and all, until the journal itself says it; of the examples' rigs 6 kB."""
COMMITS_A_TRIAL: Final = 10
"""Of the examples' rigs 9."""
TELLING_TRIALS: Final = 30
"""Trials after which a journal says how it grows."""
SYNCS: Final = 10
SLOW_SYNC_S: Final = 1.0
"""A commit that takes so long is most of what the watch lets the journal take."""
NO_SYNC_S: Final = 20e-6
"""No disk that keeps what it was given is as fast as this."""
NETWORKS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"})
FLEETING: Final = frozenset({"tmpfs", "ramfs", "overlay"})
UNSAFE_OPTIONS: Final = frozenset({"nobarrier", "barrier=0", "data=writeback"})
PROPERTIES: Final = "LoadState,UnitFileState,ActiveState,WatchdogUSec,TimeoutStopUSec"
WEEK_S: Final = 604_800
SPANS_S: Final = MappingProxyType({"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86_400})


def _configuration(_: Machine, subject: Subject) -> Iterator[MachineFinding]:
    for what in subject.wrong:
        yield MachineFinding("configuration", "bad", what, "`rigctl check` says the same; nothing below could go by it")
    if subject.loaded is None:
        return
    yield MachineFinding("configuration", "ok", f"{subject.loaded.path} holds")
    try:
        found = checked(subject.loaded)
    except ConfigError as error:
        yield MachineFinding("time to safe", "bad", str(error))
        return
    times = found.times
    if times.by_bus:
        sent, read = f"stop commands sent within {times.told_s:.2f} s", f"{times.confirmed_s:.2f} s"
        remedy = "a faster line, fewer actuators on it, or devices with shorter timeouts"
        what = f"{sent}, confirmed by read-back within {read}"
        yield looked_at("time to safe", times.told_s <= SLOW_S, what, "", remedy)


# the directory ----------------------------------------------------------------------------------------------------


def _place(subject: Subject) -> Path | None:
    """Return the state directory, or what of the way to it is there."""
    if subject.directory is None:
        return None
    whole = subject.directory.absolute()
    return next((path for path in (whole, *whole.parents) if path.is_dir()), None)


def _directory(_: Machine, subject: Subject) -> Iterator[MachineFinding]:
    directory = subject.directory
    if directory is None or not directory.is_dir():
        return
    what, remedy = open_to_others(directory)
    refused = directory.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    fine = f"{directory} is its owner's alone"
    yield looked_at("state directory", not what, fine, what, remedy, verdict="bad" if refused else "warn")
    if not os.access(directory, os.W_OK) and campaign_here(directory) is None:
        remedy = "run as its owner, or give it away with chown"
        yield MachineFinding("state directory", "bad", f"{directory} cannot be written by this account", remedy)


def _left_driven(_: Machine, subject: Subject) -> Iterator[MachineFinding]:
    if subject.directory is None:
        return
    which = f"`rigctl safe --state {subject.directory}`"
    try:
        left = safe_file.read(subject.directory)
    except RigctlError as error:
        yield MachineFinding("left driven", "bad", str(error), "`rigctl safe CONFIG`")
        return
    if left is not None and left.driven and not left.writer.alive:
        yield MachineFinding("left driven", "bad", "a campaign that died has left the rig driven", which)
    starts = bad(subject.directory, 0) - (campaign_here(subject.directory) is not None)
    if starts > 0:
        what = f"{counted(starts, 'start')} in a row ended badly"
        yield MachineFinding("starts", "warn", what, "`journalctl -u` of the service says what each died of")


# the disk ---------------------------------------------------------------------------------------------------------


def _mount(machine: Machine, place: Path) -> tuple[str, str, str]:
    """Return source, type and options of the file system that a directory is on; see proc(5)."""
    found, longest = ("", "", ""), -1
    for line in machine.read("/proc/self/mounts").splitlines():
        source, at, kind, options, *_ = line.split()
        top = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), at)
        if place.is_relative_to(top) and len(top) >= longest:
            found, longest = (source, kind, options), len(top)
    return found


def _file_system(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    place = _place(subject)
    if place is None:
        return
    source, kind, options = _mount(machine, place)
    if kind in NETWORKS:
        what = f"{place} is on {kind}: a journal there can be damaged by what the network loses"
        yield MachineFinding("file system", "bad", what, "--state on a disk of this machine")
    elif kind in FLEETING:
        what = f"{place} is on {kind}: it is gone after a reboot, and with it what was spent and dosed"
        yield MachineFinding("file system", "bad", what, "--state on a disk; or switch off the read-only overlay")
    elif kind:
        yield MachineFinding("file system", "ok", f"{kind} on {source}")
    given = set(options.split(","))
    if "ro" in given:
        remedy = "look in `dmesg` for what has made it so; an SD card that is worn out does"
        yield MachineFinding("mount options", "bad", f"{place} is mounted read-only", remedy)
    unsafe = sorted(given & UNSAFE_OPTIONS)
    if unsafe:
        what = f"{', '.join(unsafe)}: what was said to be on disk is not, when power fails"
        yield MachineFinding("mount options", "bad", what, f"remove it for {source} from /etc/fstab")
    yield from _card(machine, source)


def _card(machine: Machine, source: str) -> Iterator[MachineFinding]:
    """Say how a memory card or chip wears."""
    found = re.match(r"/dev/(mmcblk\d+)", machine.real(source) if source.startswith("/dev/") else "")
    if found is None:
        return
    folder = f"/sys/block/{found[1]}/device"
    if machine.read(f"{folder}/type") == "SD":
        what = "an SD card: it wears with every commit, and most do not say how far they are"
        remedy = "an industrial card, eMMC or a USB SSD; and `rigctl journal backup` daily onto something else"
        yield MachineFinding("disk wear", "warn", what, remedy)
        return
    worst = max((int(part, 16) for part in machine.read(f"{folder}/life_time").split()), default=0)
    what = f"eMMC, about {10 * worst} % of its life used" if worst else "eMMC that does not say how worn it is"
    yield graded("disk wear", -worst, (-9, -7), what, "copy it to a new one")


def _space(_: Machine, subject: Subject) -> Iterator[MachineFinding]:
    """Say what is free, and what the journal will have grown to when the budget is spent."""
    place = _place(subject)
    if place is None:
        return
    stat = os.statvfs(place)
    free = stat.f_bavail * stat.f_frsize
    remedy = "delete what is not needed; below 20 MiB nothing moves"
    yield graded("disk space", free, (FULL_BYTES, LOW_BYTES), f"{_mib(free)} free", remedy)
    if subject.loaded is None or not subject.loaded.wired:
        return
    told = forecast(subject.loaded.rig, subject.loaded.problem, subject.loaded.max_trials)
    trials = told.buys(told.likely)
    if trials is None:
        return
    there, each = _journal(subject)
    grown = max(there, trials * each)
    what = f"about {_mib(grown)} when the budget is spent, after {counted(trials, 'trial')}; {_mib(there)} now"
    fits = grown - there < free - FULL_BYTES
    yield looked_at("journal", fits, what, "", "a larger disk, or a smaller budget", verdict="bad")


def _journal(subject: Subject) -> tuple[int, int]:
    """Return how large the journal is, and what a trial adds to it, bytes."""
    path = None if subject.directory is None else subject.directory / FILE_NAME
    if path is None or not path.exists():
        return 0, TRIAL_BYTES
    size = path.stat().st_size
    try:
        with at_one_instant(path.parent) as reader:
            trials = reader.glance.last_decided() or 0
    except RigctlError:  # whatever is wrong with it is told by every verb that reads it
        trials = 0
    return size, size // trials if trials >= TELLING_TRIALS else TRIAL_BYTES


def _mib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.{int(size < 10 * 2**20)}f} MiB"


# SQLite and its sync ----------------------------------------------------------------------------------------------


def _sqlite(_: Machine, __: Subject) -> Iterator[MachineFinding]:
    release = ".".join(map(str, integrity.sqlite_version()))
    if not integrity.for_threads():
        yield MachineFinding("sqlite", "bad", f"{release} was built for one thread", "another build of Python")
    what = f"{release} can damage a journal that two programs write at once; rigctl lets only one"
    more = f"{what}. Open it with others read-only (`mode=ro`)"
    yield MachineFinding("sqlite", "ok", more if integrity.reset_bug(integrity.sqlite_version()) else release)


def _sync(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    place = _place(subject)
    if place is None or not os.access(place, os.W_OK):
        return
    if "eatmydata" in machine.environment.get("LD_PRELOAD", ""):
        what = "libeatmydata is loaded: nothing is ever on disk for sure"
        yield MachineFinding("sync", "bad", what, "unset LD_PRELOAD")
        return
    took_s = synced(place)
    yield judged(statistics.median(took_s), max(took_s))


def judged(median_s: float, most_s: float) -> MachineFinding:
    """Say what follows from how long writes take until they are on disk, wall seconds."""
    what = f"{1e3 * median_s:.2g} ms until a write is on disk, {1e3 * most_s:.2g} ms at most"
    if median_s < NO_SYNC_S:
        remedy = "look for a cache that lies about it: a virtual disk's, a RAID controller's without a battery"
        return MachineFinding("sync", "warn", f"{what}: faster than any disk", remedy)
    fine, wrong = f"{what}; about {COMMITS_A_TRIAL * median_s:.1g} s of every trial", "the watch may hold the campaign"
    remedy = "another disk; this one may be worn"
    return looked_at("sync", median_s <= SLOW_SYNC_S, fine, f"{what}: {wrong}", remedy, verdict="bad")


def synced(place: Path, now_s: Callable[[], float] = time.perf_counter) -> tuple[float, ...]:
    """Write a page and wait until it is on disk, some times; return how long each took, wall seconds."""
    took = []
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(SYNCS):
            begun_s = now_s()
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            os.fsync(file.fileno())
            took.append(now_s() - begun_s)
    return tuple(took)


# the service ------------------------------------------------------------------------------------------------------


def _service(machine: Machine, subject: Subject) -> Iterator[MachineFinding]:
    if subject.loaded is None or not subject.loaded.wired:
        return
    name = f"rigctl-{subject.loaded.name}.service"
    asked = machine.run(["systemctl", "show", "-p", PROPERTIES, name])
    told = dict(line.partition("=")[::2] for line in asked.splitlines())
    if told.get("LoadState") != "loaded":
        what = "none: after a power cut nobody starts the campaign again"
        yield MachineFinding("service", "warn", what, f"`rigctl tools service {subject.loaded.path} --install`")
        return
    enabled, is_now = told.get("UnitFileState") == "enabled", f"{name} is {told.get('ActiveState', 'unknown')}"
    yield looked_at("service", enabled, is_now, "", f"`sudo systemctl enable {name}`, or it does not start at boot")
    watchdog, install = told.get("WatchdogUSec", "0"), f"`rigctl tools service {subject.loaded.path} --install --force`"
    watched, fine = watchdog not in ("0", "infinity"), f"ended after {watchdog} without a look"
    wrong, remedy = "a campaign that hangs stays hung", f"{install} writes one that is"
    yield looked_at("service watchdog", watched, fine, wrong, remedy, verdict="bad")
    given, needed_s = told.get("TimeoutStopUSec", ""), stopping_s(checked(subject.loaded).times)
    what = f"a stop may take {given}; this configuration needs up to {needed_s} s to make everything safe"
    remedy = f"{install} allows {needed_s} s; a drop-in that sets TimeoutStopSec must allow as much"
    yield looked_at("service stop", seconds(given) >= needed_s, what, "", remedy, verdict="bad")


def seconds(span: str) -> float:
    """Return a time span as systemd writes it, such as "3min 20s"; months and years count as weeks."""
    found = re.findall(r"([\d.]+)([a-z]+)", span)
    return math.inf if span == "infinity" else math.fsum(float(n) * SPANS_S.get(unit, WEEK_S) for n, unit in found)


CHECKS_OF_STATE: Final[tuple[Check, ...]] = (
    *(_configuration, _directory, _left_driven, _file_system, _space),
    *(_sqlite, _sync, _service),
)


# all of it ------------------------------------------------------------------------------------------------------------


def examined(
    config: Path | None, state: Path | None, buses: Mapping[str, str], machine: Machine
) -> tuple[MachineFinding, ...]:
    """Return all that is found. A check that fails is a finding, too: it must not hide the others.

    Raises:
        ConfigError: there is no such configuration.
    """
    subject = _subject(config, state, buses, machine)
    found: list[MachineFinding] = []
    for check in (*CHECKS_OF_STATE, *MACHINE_CHECKS):
        try:
            found += check(machine, subject)
        except (OSError, ValueError, RigctlError) as error:
            name = check.__name__.strip("_").replace("_", " ")
            found.append(MachineFinding(name, "warn", f"could not be looked at ({error})"))
    return tuple(found)


def _subject(config: Path | None, state: Path | None, buses: Mapping[str, str], machine: Machine) -> Subject:
    directory = state_of(config, state)
    if state is None and directory is not None and not directory.is_dir():
        kept = machine.at(f"{SERVICES_STATE}/{directory.name}")
        directory = kept if kept.is_dir() else directory
    if config is None:
        return Subject(None, directory)
    text = read(config)  # none at all is refused: nobody meant the machine alone
    try:
        return Subject(load_text(text, config, Overrides(buses), to_run=True), directory)
    except ConfigError as error:
        return Subject(None, directory, tuple(map(str, error.mistakes)))
    except RigctlError as error:
        return Subject(None, directory, (str(error),))


# telling ----------------------------------------------------------------------------------------------------------


def to_json(found: Sequence[MachineFinding]) -> Mapping[str, Any]:
    return {"ok": well(found), "findings": [_fields(finding) for finding in found]}


def _fields(finding: MachineFinding) -> Mapping[str, Any]:
    said = {"subject": finding.subject, "verdict": finding.verdict, "what": finding.what}
    return {**said, "remedy": finding.remedy or None}


def well(found: Sequence[MachineFinding]) -> bool:
    return all(finding.verdict != "bad" for finding in found)


def show(found: Sequence[MachineFinding], console: Console) -> None:
    wide = max(len(finding.subject) for finding in found)
    for finding in found:
        text = f"{finding.verdict:4}  {finding.subject:{wide}}  {finding.what}"
        console.print(text, style=STYLES[finding.verdict], soft_wrap=True, highlight=False)
        if finding.remedy:
            console.print(f"{'':{wide + 8}}{finding.remedy}", soft_wrap=True, highlight=False)
    counts = {verdict: sum(f.verdict == verdict for f in found) for verdict in STYLES}
    console.print(f"{len(found)} findings: {', '.join(f'{n} {v}' for v, n in counts.items())}")
