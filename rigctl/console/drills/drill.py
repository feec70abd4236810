"""`rigctl tools drill`: twelve faults on the owner's rig, and how long it takes each time until everything is safe.

The person does what no program can, and says when. Nothing moves before the person has said that motors, pumps and
heaters are without power. However a fault or the drill ends, its campaign ends, too, and the rig is confirmed safe.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import make_directory
from rigctl.campaign.safe_file import standing
from rigctl.codec import plain, typed
from rigctl.config.load import LoadedConfig
from rigctl.console.checking import checked
from rigctl.console.drills.daemon import DRIVEN_S, Daemon, after_a_kill, control_set, written
from rigctl.console.options import require_devices, require_linux
from rigctl.console.output import ShownColumn, table
from rigctl.console.safe import NOBODY, make_left_safe
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.files import whole
from rigctl.flaws import got
from rigctl.rig.places import taken_apart
from rigctl.rig.values import SafeReport, SafeTimes
from rigctl.text import joined

REPORT: Final = "report.json"
PLACE: Final = Path("drills")
"""Holds a directory for each rig."""
UNPOWERED: Final = "unpowered"
"""Typed by the person before anything moves."""
SEVERAL: Final = 6
"""Trials within which every fault must have been noticed."""
MENDED_S: Final = 120.0
"""Wall seconds from the end of a fault until everything must be confirmed safe."""
MEND: Final = "Put {} back as it was; then press Enter"
CUT: Final = (
    "Cut the power of this computer, and take the time until everything stands still: by a timer relay, a watchdog, or "
    "not at all. Then start it, and call `rigctl tools drill` again"
)
HELD: Final = "holding"
"""The campaign's phase while everything is safe and a fault lasts."""
Ask = Callable[[str, str], str]
"""Shows a text, and returns the answer: empty to go on, `s` to skip, `q` to end. The first argument is the moment, for
a script in the person's place: the fault's name, or that and `undo`."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Struck:
    """What came of one fault. Times are wall seconds."""

    result: Literal["held", "failed", "skipped", "absent"]
    on: str = ""
    """What it was played on; empty: the rig has nothing of the kind."""
    why: str = ""
    noticed_s: float | None = None
    """From the fault to the first alarm, or to the refusal."""
    safe_s: float | None = None
    """From the fault until everything that answers was confirmed safe."""
    took_s: float | None = None
    """Going safe itself, which is what `check` reckons."""
    unconfirmed: tuple[str, ...] = ()
    """What could not be confirmed while the fault lasted."""
    again_s: float | None = None
    """From the end of the fault until that was confirmed, too."""
    alarms: tuple[str, ...] = ()
    """Their kinds."""
    at: str = ""
    """UTC."""


class _Skipped(Exception):
    """The person skips a fault."""


class _Ended(Exception):
    """The person ends the drill."""


@dataclass(slots=True)
class Drill:
    """Strikes one rig; mutable, used in one thread."""

    loaded: LoadedConfig
    directory: Path
    ask: Ask
    say: Say
    daemon: Daemon | None = None

    @property
    def trial_s(self) -> float:
        """Return what a trial takes at most, wall seconds, the start of a process included."""
        return DRIVEN_S + self.loaded.rig.timing.takes_s / self.loaded.rig.speedup

    def driven(self) -> Daemon:
        """Start the campaign and wait until it drives the rig."""
        self.say("  The campaign starts; it drives the rig in a moment.")
        self.daemon = daemon = Daemon.started(self.directory)
        daemon.drive(self.trial_s)
        return daemon

    def strike(self, fault: DrillFault, on: str) -> tuple[Daemon, float]:
        """Have the person strike the driven rig; return what drives it, and when: a monotonic time."""
        return self.driven(), self.person(fault.name, fault.do.format(on))

    def person(self, moment: str, text: str) -> float:
        """Have the person do something, and return when."""
        typed = self.ask(moment, f"  {text}").strip().lower()
        if typed in ("s", "q"):
            raise _Skipped if typed == "s" else _Ended
        return time.monotonic()

    def end(self) -> bool:
        """End the campaign; tell whether everything is confirmed safe."""
        daemon, self.daemon = self.daemon, None
        return daemon is None or daemon.end(lambda left: self.say(f"  Not confirmed safe yet: {left}"))


@dataclass(frozen=True, slots=True)
class DrillFault:
    """One fault."""

    name: str
    what: str
    play: Callable[[Drill, DrillFault, str], Struck]
    do: str
    """What the person is asked for; {} is what it is played on."""


def targets(loaded: LoadedConfig) -> Mapping[str, str]:
    """Return what each fault is played on; empty: nothing of this rig.

    A sensor is unplugged whose line drives nothing, if there is one.
    """
    rig, driven = loaded.rig, control_set(loaded)
    moved = {v.actuator: v.follows for v in rig.variables if v.name in driven and v.actuator}
    acting = {rig.devices[name].url for name in rig.limits}
    sensors = [name for name in (*(v.sensor for v in rig.variables), *(o.sensor for o in rig.outcomes)) if name]
    patience = {o.sensor: o.frozen_after_trials for o in rig.outcomes if o.name not in rig.late_names}
    return {
        "probe": min(sensors, key=lambda name: rig.devices[name].url in acting, default=""),
        "silent": next((rig.devices[name].url for name in moved), ""),
        "meter": next((m.device for m in rig.meters if m.device is not None and m.device not in rig.limits), ""),
        "broker": next((d.url for d in rig.devices.values() if taken_apart(d.url)[0].startswith("mqtt")), ""),
        "frozen": next((name for name, most in patience.items() if name and (most or SEVERAL) < SEVERAL), ""),
        "follow": next((name for name, follows in moved.items() if follows is not None), ""),
        **dict.fromkeys(("kill", "stop", "second", "disk", "wrong", "power"), joined(list(moved))),
    }


# How they are played --------------------------------------------------------------------------------------------------


def _by_hand(drill: Drill, fault: DrillFault, on: str) -> Struck:
    """Have the person strike, see the campaign hold, and have it undone."""
    daemon, began_s = drill.strike(fault, on)
    struck = _seen(drill, daemon, began_s, on)
    return _mended(daemon, struck, drill.person(f"{fault.name} undo", MEND.format(on)))


def _disk(drill: Drill, fault: DrillFault, on: str) -> Struck:
    daemon, began_s = drill.strike(fault, on)
    daemon.fill_disk(full=True)
    try:
        struck = _seen(drill, daemon, began_s, on)
    finally:
        daemon.fill_disk(full=False)
    return _mended(daemon, struck, time.monotonic())


def _seen(drill: Drill, daemon: Daemon, began_s: float, on: str) -> Struck:
    """Wait until the campaign holds because of a fault, or has ended."""
    drill.say("  Waiting until the campaign notices and holds ...")
    held = daemon.until(lambda status: status.phase == HELD, SEVERAL * drill.trial_s)
    alarms = [(at, found) for at, found in daemon.since(began_s, "alarm") if found["severity"] != "MINOR"]
    kinds, went = tuple(dict.fromkeys(str(found["kind"]) for _, found in alarms)), daemon.went_safe(began_s)
    if not held or not went:
        return Struck("failed", on, "the campaign went on", alarms=kinds)
    noticed_s, (at, last) = min(at for at, _ in (*alarms, *went)) - began_s, went[-1]
    return Struck("held", on, "", noticed_s, at - began_s, last["took_s"], tuple(sorted(last["failed"])), alarms=kinds)


def _mended(daemon: Daemon, struck: Struck, undone_s: float) -> Struck:
    """Wait until what could not be confirmed is safe, once the fault is undone."""

    def confirmed() -> list[float]:
        return [at for at, found in daemon.went_safe(undone_s) if not found["failed"]]

    if not struck.unconfirmed:
        return struck
    if not (daemon.until(lambda _: bool(confirmed()), MENDED_S) and confirmed()):
        return replace(struck, result="failed", why="not confirmed safe after the fault")
    return replace(struck, again_s=confirmed()[0] - undone_s)


def _made_safe(on: str, began_s: float, report: SafeReport, took_s: float) -> Struck:
    after_s, left = time.monotonic() - began_s, tuple(sorted(report.failed))
    return Struck("held" if report.ok else "failed", on, joined(left), None, after_s, took_s, left)


def _kill(drill: Drill, fault: DrillFault, on: str) -> Struck:
    daemon, began_s = drill.strike(fault, on)
    daemon.kill()
    return _made_safe(on, began_s, *after_a_kill(daemon.state))


def _stop(drill: Drill, fault: DrillFault, on: str) -> Struck:
    daemon, began_s = drill.strike(fault, on)
    return _made_safe(on, began_s, *daemon.make_safe())


def _second(drill: Drill, fault: DrillFault, on: str) -> Struck:
    daemon, began_s = drill.strike(fault, on)
    other = Daemon.started(drill.directory, "second")
    try:
        struck = _refused(drill, other, began_s, on)
    finally:
        other.end()
    if daemon.alive and not daemon.went_safe(began_s):
        return struck
    return replace(struck, result="failed", why="the first campaign let go")


def _refused(drill: Drill, daemon: Daemon, began_s: float, on: str) -> Struck:
    """Return how a start that must be refused was."""
    try:
        daemon.drive(drill.trial_s)
    except RigctlError as refused:
        return Struck("held", on, str(refused), time.monotonic() - began_s)
    return Struck("failed", on, "it was not refused: a trial drives the rig")


def _wrong(drill: Drill, fault: DrillFault, on: str) -> Struck:
    """Have an instrument exchanged while nothing runs; the next start must refuse it."""
    daemon = drill.driven()
    with open_reader(daemon.state) as reader:
        pinned = [pin.device for pin in reader.pins.by_device().values() if pin.serial or pin.place]
    drill.end()
    if not pinned:
        return Struck("absent", on, "no instrument here has a number or a port of its own")
    began_s = drill.person(fault.name, fault.do.format(joined(pinned)))
    drill.daemon = Daemon.started(drill.directory, anew=False)
    struck = _refused(drill, drill.daemon, began_s, on)
    drill.end()
    drill.person(f"{fault.name} undo", MEND.format("every instrument"))
    return struck


def _power(drill: Drill, fault: DrillFault, on: str) -> Struck:
    """Have this computer's power cut; `_after_power` goes on once it is back."""
    drill.strike(fault, on)
    return Struck("skipped", on, "the power stayed on")


def _after_power(drill: Drill) -> Struck | None:
    """Make safe what the last drill left driven, if it did; ask whether that was a power cut."""
    left = make_left_safe(None, drill.directory / "state", {})
    if left.by == NOBODY:
        return None
    drill.say(f"The last drill ended in the middle of a trial. {standing(left.report)}.")
    typed = drill.ask("power", "Was the power cut? Seconds until everything stood still, by your watch (Enter: no)")
    if not typed.replace(".", "", 1).isdecimal():
        return None
    return Struck("held" if left.report.ok else "failed", "this computer", "by the person's watch", None, float(typed))


FAULTS: Final = (
    DrillFault("kill", "The daemon is killed", _kill, "Press Enter to kill its process"),
    DrillFault("stop", "Stop is pressed", _stop, "Press Enter to have it go safe, as `rigctl safe` and the page do"),
    DrillFault("second", "A second controller starts", _second, "Press Enter to start another campaign on this rig"),
    DrillFault("disk", "The disk is full", _disk, "Press Enter to let its process write no more bytes"),
    DrillFault("probe", "A sensor is unplugged", _by_hand, "Press Enter, then unplug {} at once"),
    DrillFault("silent", "A bus falls silent", _by_hand, "Press Enter, then pull the cable of {} at once"),
    DrillFault("meter", "The meter is lost", _by_hand, "Press Enter, then unplug {} at once"),
    DrillFault("broker", "The broker is gone", _by_hand, "Press Enter, then stop the broker {} at once"),
    DrillFault(
        "frozen", "A sensor is frozen", _by_hand, "Press Enter, then have {} hold its value, e.g. by a fixed resistor"
    ),
    DrillFault(
        "follow", "An actuator does not follow", _by_hand, "Press Enter, then let nothing reach {}: shut its hand valve"
    ),
    DrillFault("wrong", "The wrong instrument is there", _wrong, "Nothing runs now. Exchange one, or swap two: {}"),
    DrillFault("power", "The computer loses its power", _power, CUT),
)
"""In the order in which they are played: those that need no hands come first."""


# The drill ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drilled:
    """What came of a drill, with what earlier ones of this rig have left."""

    rig: str
    reckoned: SafeTimes
    faults: Mapping[str, Struck] = field(default_factory=dict)
    """In the order of `FAULTS`."""
    host: str = field(default_factory=platform.node)
    rigctl: str = field(default_factory=lambda: version("rigctl"))

    @property
    def exit_code(self) -> int:
        return 1 if any(struck.result == "failed" for struck in self.faults.values()) else 0


def drill(loaded: LoadedConfig, directory: Path, only: Sequence[str], ask: Ask, say: Say) -> Drilled:
    """Play the faults, or only some of them, and keep what came of each at once; what is kept of others stays.

    Raises:
        UsageError: there is no such fault or device, or the person does not begin.
        Locked: another campaign holds the rig.
        RigctlError: the drill's campaign cannot begin, or drives nothing.
        KeyboardInterrupt: Ctrl-C; everything is confirmed safe by then.
    """
    require_devices(loaded)
    require_linux(str(loaded.path))
    names = [fault.name for fault in FAULTS]
    for name in only:
        if name not in names:
            raise UsageError(got(name, f"must be one of {', '.join(names)}", where="--only"))
    make_directory(directory)
    played = Drill(written(loaded, directory), directory, ask, say)
    done = Drilled(loaded.name, checked(played.loaded).times, _kept(directory / REPORT))
    cut = _after_power(played)
    if cut is not None:
        return _noted(played, done, "power", cut)
    wanted = [fault for fault in FAULTS if fault.name in (only or names)]
    _begin(played)
    try:
        for number, fault in enumerate(wanted, 1):
            say(f"\n{number}/{len(wanted)} {fault.name}: {fault.what}")
            done = _played(played, fault, done)
    except _Ended:
        say("The drill ends here.")
    return done


def _begin(drill: Drill) -> None:
    drill.say(
        f"A campaign of its own drives {targets(drill.loaded)['kill']} of {drill.loaded.name} in short trials.\n"
        f"It is kept in {drill.directory}; the rig's own journal is not touched.\n"
        "Ctrl-C makes everything safe at any time. At each question s skips the fault, q ends the drill.\n"
        "Take the power from motors, pumps, heaters and valves. Leave it on instruments and controllers."
    )
    typed = drill.ask("begin", f'Type "{UNPOWERED}" to begin').strip().lower()
    if typed != UNPOWERED:
        raise UsageError(got(typed, f"must be {UNPOWERED}; nothing was moved", where="drill"))


def _played(drill: Drill, fault: DrillFault, done: Drilled) -> Drilled:
    """Play one fault and keep what came of it; its campaign has ended and everything is safe when this returns."""
    on = targets(drill.loaded)[fault.name]
    if not on:
        return _noted(drill, done, fault.name, Struck("absent", why="this rig has nothing to play it on"))
    struck = Struck("skipped", on)
    try:
        with suppress(_Skipped):
            struck = fault.play(drill, fault, on)
    except RigctlError as error:
        struck = Struck("failed", on, str(error))
        raise
    finally:
        safe = drill.end()
        if not safe:
            struck = replace(struck, result="failed", why="not confirmed safe at the end")
        done = _noted(drill, done, fault.name, struck)
        if not safe:  # whatever else ends the drill, that must be told
            again = f"`rigctl safe --state {drill.directory / 'state'}` tries again"
            raise RigctlError(f"drill: not everything is confirmed safe; {again}")
    return done


def _noted(drill: Drill, done: Drilled, name: str, struck: Struck) -> Drilled:
    """Tell what came of a fault, and have it on disk whatever comes next; what is skipped leaves what was known."""
    came = replace(struck, at=datetime.now(UTC).isoformat(timespec="seconds"))
    found = {**done.faults, name: done.faults.get(name, came) if came.result == "skipped" else came}
    done = replace(done, faults={fault.name: found[fault.name] for fault in FAULTS if fault.name in found})
    with whole(drill.directory / REPORT) as new:
        new.write_text(json.dumps(plain(done), indent=1), encoding="utf-8")
    for line in _told(struck, done.reckoned):
        drill.say(f"  {line}")
    return done


def _kept(path: Path) -> Mapping[str, Struck]:
    """Return what earlier drills have left."""
    try:
        return typed(Drilled, json.loads(path.read_text(encoding="utf-8"))).faults
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: is no report of a drill ({error}); move it away") from error


# What people are told -------------------------------------------------------------------------------------------------


def _told(struck: Struck, reckoned: SafeTimes) -> Iterator[str]:
    """Yield what came of one fault, in sentences."""
    if struck.result != "held":
        yield f"{struck.result}{': ' * bool(struck.why)}{struck.why}"
    elif struck.safe_s is None:
        yield f"held: refused after {struck.noticed_s:.2f} s: {struck.why}"
    elif struck.took_s is not None:
        noticed = "" if struck.noticed_s is None else f"noticed after {struck.noticed_s:.2f} s; "
        yield f"held: {noticed}all that answers was safe after {struck.safe_s:.2f} s"
        all_ = ", if everything answers" * bool(struck.unconfirmed)
        yield f"Going safe took {struck.took_s:.2f} s; `check` reckons {reckoned.confirmed_s:.2f} s at most{all_}."
    if struck.again_s is not None:
        yield f"{joined(struck.unconfirmed)}: confirmed safe {struck.again_s:.2f} s after the fault was undone."


def shown(done: Drilled, path: Path, width: int) -> Iterator[str]:
    """Yield the table of all faults."""
    heads = ("fault", "result", "noticed\ns", "safe\ns", "going safe\ns", "reckoned\ns", "on")
    rows = [(name, struck.result, *_numbers(struck, done.reckoned), struck.on) for name, struck in done.faults.items()]
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    yield from table([ShownColumn(h, c, left="\n" not in h, spare=2 * (h == "on")) for h, c in columns], width)
    played = sum(struck.result in ("held", "failed") for struck in done.faults.values())
    failed = [name for name, struck in done.faults.items() if struck.result == "failed"]
    yield f"{counted(played, 'fault')} played, {f'{joined(failed)} FAILED' if failed else 'all held'}. Report: {path}"


def _numbers(struck: Struck, reckoned: SafeTimes) -> Sequence[str]:
    """Return its times; reckoned is what every device answers to."""
    most_s = reckoned.confirmed_s if struck.took_s is not None and not struck.unconfirmed else None
    times = (struck.noticed_s, struck.safe_s, struck.took_s, most_s)
    return ["" if time_s is None else f"{time_s:.2f}" for time_s in times]
