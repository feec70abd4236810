"""Atlas Scientific EZO circuits on a UART: the command set they share, and the pH circuit.

ASCII, carriage return ends both directions, case does not matter. `*OK` follows every accepted command unless it was
switched off; `*ER` answers what is not understood and cannot be switched off. EZO-pH data sheet, UART part.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sim_rig.clock import Handle, Timer
from sim_rig.errors import SimError
from sim_rig.faces.lines import LineSplitter

SIMULATED = "SIM"
"""Precedes the firmware version: nobody is to take a simulated circuit for a real one."""
SETTING_S = 0.3
PH_READ_S = 0.9
CONTINUOUS_S = 1.0
FASTEST_LINE_S = 0.05
"""Wall seconds between unsolicited lines however fast time runs: a 9600 baud line could not carry many more."""


class NotUnderstood(SimError):
    """The circuit answers `*ER`."""


Answer = list[str]
Command = Callable[[list[str]], Answer]


@dataclass(slots=True)
class Circuit:
    """One EZO circuit: commands in, lines out, one at a time, each after its processing delay."""

    timer: Timer
    identity: str
    """The whole answer to `i`, e.g. `?I,pH,SIM2.14`."""
    commands: dict[str, Command] = field(default_factory=dict)
    delays_s: dict[str, float] = field(default_factory=dict)
    """Simulated processing seconds per command; 0.3 where nothing is said."""
    send: Callable[[bytes], None] = field(default=lambda _: None)
    ok_enabled: bool = True
    asleep: bool = False
    received: int = 0
    """Commands since power-up, counted as they arrive."""
    name: str = ""
    """What people call it, at most 16 characters; the circuit has no serial number."""
    restart_reason: str = "P"
    _queue: deque[str] = field(default_factory=deque)
    _busy: bool = False
    _deaf: bool = False
    """The rest of the command that woke it is not understood."""
    _lines: LineSplitter = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LineSplitter(b"\r\n", self._arrived)
        self.commands |= {
            "*OK": self._ok,
            "I": self._identify,
            "STATUS": self._status,
            "NAME": self._name,
            "SLEEP": self._sleep,
        }

    def feed(self, data: bytes) -> None:
        """Bytes from the line; the first of them wakes a circuit that sleeps."""
        if self.asleep and data:
            self.asleep, self._deaf = False, True
            self.say("*WA")
        if self._deaf:
            _, end, data = data.partition(b"\r")
            self._deaf = not end
        self._lines.feed(data)

    def say(self, *lines: str) -> None:
        """Send lines, asked for or not, in one go: one reply to whoever counts replies."""
        if lines:
            self.send("".join(f"{line}\r" for line in lines).encode("ascii"))

    def power_cycle(self, reason: str = "B") -> None:
        """Restart: what was waiting is lost, `*RS` and `*RE` are sent. Reason as in `Status`: P, S, B or W."""
        self._queue.clear()
        self._busy = self.asleep = self._deaf = False
        self.restart_reason = reason
        self.say("*RS")
        self.say("*RE")

    def _arrived(self, line: str) -> None:
        self.received += 1
        self._queue.append(line)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        while self._queue and not self._busy:
            line = self._queue.popleft()
            verb = line.split(",")[0].upper()
            self._busy = True
            self.timer.soon(self.delays_s.get(verb, SETTING_S), lambda line=line: self._finish(line))  # type: ignore[misc]

    def _finish(self, line: str) -> None:
        if not self._busy:
            return  # the circuit restarted while it was processing this
        self._busy = False
        self._execute(line)
        self._next()

    def _execute(self, line: str) -> None:
        verb, *arguments = [part.strip() for part in line.split(",")]
        command = self.commands.get(verb.upper(), _unknown)
        try:
            lines = command(arguments)
        except NotUnderstood:
            self.say("*ER")
            return
        if self.ok_enabled and not (lines and lines[-1].startswith("*")):
            lines = [*lines, "*OK"]
        self.say(*lines, *(["*SL"] if self.asleep else []))

    # commands of every circuit -----------------------------------------------------------------------------------

    def _ok(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?*OK,{int(self.ok_enabled)}"]
        self.ok_enabled = flag(arguments)
        return []

    def _identify(self, arguments: list[str]) -> Answer:
        none(arguments)
        return [self.identity]

    def _status(self, arguments: list[str]) -> Answer:
        none(arguments)
        return [f"?STATUS,{self.restart_reason},5.02"]

    def _sleep(self, arguments: list[str]) -> Answer:
        none(arguments)
        self.asleep = True
        return []

    def _name(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?NAME,{self.name}"]
        (self.name,) = arguments if len(arguments) == 1 and len(arguments[0]) <= 16 else [""]
        return []


def _unknown(arguments: list[str]) -> Answer:
    raise NotUnderstood(",".join(arguments))


def asks(arguments: list[str]) -> bool:
    """Whether it is a query: `X,?`."""
    return arguments == ["?"]


def none(arguments: list[str]) -> None:
    """Raise `NotUnderstood` if there are arguments."""
    if arguments:
        raise NotUnderstood(",".join(arguments))


def number(text: str) -> float:
    """A finite decimal number."""
    try:
        value = float(text)
    except ValueError:
        raise NotUnderstood(text) from None
    if not math.isfinite(value):
        raise NotUnderstood(text)
    return value


def flag(arguments: list[str]) -> bool:
    """`0` or `1`."""
    if arguments not in (["0"], ["1"]):
        raise NotUnderstood(",".join(arguments))
    return arguments == ["1"]


class PhCircuit:
    """EZO-pH: `R`, `RT`, `T`, `C`, `Cal`, `Slope`. Ships in continuous mode, one reading a second."""

    def __init__(self, timer: Timer, read_ph: Callable[[], float], name: str = "") -> None:
        self._read_ph = read_ph
        self._timer = timer
        self._period_s = CONTINUOUS_S
        self._ticking: Handle | None = None
        self._temperature_c = 25.0
        self._calibrated: list[str] = []
        commands: dict[str, Command] = {
            "R": self._reading,
            "RT": self._reading_at,
            "T": self._temperature,
            "C": self._continuous,
            "CAL": self._calibrate,
            "SLOPE": self._slope,
        }
        delays_s = {"R": PH_READ_S, "RT": PH_READ_S, "CAL": PH_READ_S}
        self.circuit = Circuit(timer, f"?I,pH,{SIMULATED}2.14", commands, delays_s, name=name)
        self.feed = self.circuit.feed

    def power_up(self) -> None:
        """Begin the continuous mode the circuit ships in."""
        self._schedule()

    def _text(self) -> str:
        value = self._read_ph()
        return "nan" if math.isnan(value) else f"{min(max(value, 0.0), 14.0):.3f}"

    def _reading(self, arguments: list[str]) -> Answer:
        none(arguments)
        return [self._text()]

    def _reading_at(self, arguments: list[str]) -> Answer:
        self._temperature(arguments)
        return [self._text()]

    def _temperature(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?T,{self._temperature_c:.2f}"]
        if len(arguments) != 1:
            raise NotUnderstood(",".join(arguments))
        self._temperature_c = number(arguments[0])
        return []

    def _continuous(self, arguments: list[str]) -> Answer:
        if asks(arguments):
            return [f"?C,{round(self._period_s)}"]
        if len(arguments) != 1 or not arguments[0].isdigit() or int(arguments[0]) > 99:
            raise NotUnderstood(",".join(arguments))
        self._period_s = float(arguments[0])
        self._schedule()
        return []

    def _calibrate(self, arguments: list[str]) -> Answer:
        points = ("MID", "LOW", "HIGH")
        if asks(arguments):
            return [f"?CAL,{len(self._calibrated)}"]
        if [a.upper() for a in arguments] == ["CLEAR"]:
            self._calibrated = []
        elif len(arguments) == 2 and arguments[0].upper() in points:
            number(arguments[1])
            point = arguments[0].upper()
            kept = [] if point == "MID" else [p for p in self._calibrated if p != point]
            self._calibrated = [*kept, point]
        else:
            raise NotUnderstood(",".join(arguments))
        return []

    def _slope(self, arguments: list[str]) -> Answer:
        if not asks(arguments):
            raise NotUnderstood(",".join(arguments))
        return ["?SLOPE,99.7,100.3,-0.89"]

    def _schedule(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._ticking = None
        if self._period_s > 0:
            period_s = max(self._period_s, self._timer.at_least_s(FASTEST_LINE_S))
            self._ticking = self._timer.after(period_s, self._tick)

    def _tick(self) -> None:
        if not self.circuit.asleep:
            self.circuit.say(self._text())
        self._schedule()
