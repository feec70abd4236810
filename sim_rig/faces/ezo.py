"""Atlas Scientific EZO circuits on a UART: the command set they share, and the pH circuit.

ASCII, carriage return ends both directions, case does not matter. `*OK` follows every accepted command unless it was
switched off; `*ER` answers what is not understood and cannot be switched off. EZO-pH data sheet, UART part.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from inspect import signature

from sim_rig.clock import PlannedCall, Timer
from sim_rig.errors import NotUnderstood
from sim_rig.faces.lines import TextInstrument

SIMULATED = "SIM"
"""Precedes the firmware version: nobody is to take a simulated circuit for a real one."""
SETTING_S = 0.3
PH_READ_S = 0.9
KELVIN = 273.15
CONTINUOUS_S = 1.0
FASTEST_LINE_S = 0.05
"""Wall seconds between unsolicited lines however fast time runs: a 9600 baud line could not carry many more."""


Answer = list[str]
Command = Callable[..., Answer | None]
"""Is called with the arguments as they stand between commas; with others than it takes, it is not understood."""
Question = Callable[[], str]
"""Answers `X,?`, without the prefix `?X,`."""


class Circuit(TextInstrument):
    """Takes commands and sends lines, one at a time, each after its processing delay."""

    terminators = b"\r\n"

    def __init__(self, timer: Timer, model: str, firmware: str, name: str = "") -> None:
        super().__init__(timer, f"?I,{model},{SIMULATED}{firmware}")
        self.name = name
        """What people call it, at most 16 characters; the circuit has no serial number."""
        self.commands: dict[str, Command] = {
            "*OK": self._enable_ok,
            "I": lambda: [self.identity],
            "STATUS": lambda: [f"?STATUS,{self.restart_reason},5.02"],
            "NAME": self._rename,
            "SLEEP": self._sleep,
        }
        self.questions: dict[str, Question] = {"*OK": lambda: str(int(self.ok_enabled)), "NAME": lambda: self.name}
        self.delays_s: dict[str, float] = {}
        """Simulated processing seconds per command; 0.3 where nothing is said."""
        self.ok_enabled = True
        self.asleep = False
        self.received = 0
        """Commands since power-up, counted as they arrive."""
        self.restart_reason = "P"
        self._queue: deque[str] = deque()
        self._busy = False
        self._deaf = False
        """The rest of the command that woke it is not understood."""

    def feed(self, data: bytes) -> None:
        """Take bytes from the line; the first of them wakes a circuit that sleeps."""
        if self.asleep and data:
            self.asleep, self._deaf = False, True
            self.say("*WA")
        if self._deaf:
            _, end, data = data.partition(b"\r")
            self._deaf = not end
        super().feed(data)

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

    def take(self, line: str) -> None:
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
        try:
            lines = self._answer(*(part.strip() for part in line.split(",")))
        except NotUnderstood:
            self.say("*ER")
            return
        if self.ok_enabled and not (lines and lines[-1].startswith("*")):
            lines = [*lines, "*OK"]
        self.say(*lines, *(["*SL"] if self.asleep else []))

    def _answer(self, verb: str, *arguments: str) -> Answer:
        verb = verb.upper()
        if arguments == ("?",) and verb in self.questions:
            return [f"?{verb},{self.questions[verb]()}"]
        command = self.commands.get(verb)
        try:
            if command is None:
                raise NotUnderstood(verb)
            signature(command).bind(*arguments)
        except TypeError as error:
            raise NotUnderstood(f"{verb}: {error}") from error
        return command(*arguments) or []

    # commands of every circuit -----------------------------------------------------------------------------------

    def _enable_ok(self, flag: str) -> None:
        if flag not in ("0", "1"):
            raise NotUnderstood(flag)
        self.ok_enabled = flag == "1"

    def _sleep(self) -> None:
        self.asleep = True

    def _rename(self, *names: str) -> None:
        (self.name,) = names if len(names) == 1 and len(names[0]) <= 16 else [""]


def number(text: str) -> float:
    """Return a finite decimal number; raise `NotUnderstood` if it is none."""
    try:
        value = float(text)
    except ValueError:
        raise NotUnderstood(text) from None
    if not math.isfinite(value):
        raise NotUnderstood(text)
    return value


class PhCircuit(Circuit):
    """Speaks for an EZO-pH: `R`, `RT`, `T`, `C`, `Cal`, `Slope`. Ships in continuous mode, one reading a second."""

    def __init__(
        self, timer: Timer, read_ph: Callable[[], float], name: str = "", celsius: Callable[[], float] = lambda: 25.0
    ) -> None:
        super().__init__(timer, "pH", "2.14", name)
        self._read_ph = read_ph
        self._celsius = celsius
        self._period_s = CONTINUOUS_S
        self._ticking: PlannedCall | None = None
        self._temperature_c = 25.0
        self._calibrated = ["MID", "LOW", "HIGH"]
        self.slopes = "99.7,100.3,-0.89"
        """The probe's: acid and base, percent of an ideal one's; offset, mV."""
        self.commands |= {
            "R": lambda: [self._text()],
            "RT": self._reading_at,
            "T": self._temperature,
            "C": self._continuous,
            "CAL": self._calibrate,
        }
        self.questions |= {
            "T": lambda: f"{self._temperature_c:.2f}",
            "C": lambda: str(round(self._period_s)),
            "CAL": lambda: str(len(self._calibrated)),
            "SLOPE": lambda: self.slopes,
        }
        self.delays_s |= {"R": PH_READ_S, "RT": PH_READ_S, "CAL": PH_READ_S}

    def power_up(self) -> None:
        """Begin the continuous mode the circuit ships in."""
        self._schedule()

    def _text(self) -> str:
        # what the probe gives goes with its absolute temperature (Nernst); the circuit takes it to be at its own
        value, celsius = self._read_ph(), self._celsius()
        if celsius != self._temperature_c:
            value = 7.0 + (value - 7.0) * (celsius + KELVIN) / (self._temperature_c + KELVIN)
        return "nan" if math.isnan(value) else f"{min(max(value, 0.0), 14.0):.3f}"

    def _reading_at(self, celsius: str) -> Answer:
        self._temperature(celsius)
        return [self._text()]

    def _temperature(self, celsius: str) -> None:
        self._temperature_c = number(celsius)

    def _continuous(self, seconds: str) -> None:
        if not seconds.isdigit() or int(seconds) > 99:
            raise NotUnderstood(seconds)
        self._period_s = float(seconds)
        self._schedule()

    def _calibrate(self, point: str, value: str | None = None) -> None:
        point = point.upper()
        if value is None and point == "CLEAR":
            self._calibrated = []
        elif value is not None and point in ("MID", "LOW", "HIGH"):
            number(value)
            kept = [] if point == "MID" else [p for p in self._calibrated if p != point]
            self._calibrated = [*kept, point]
        else:
            raise NotUnderstood(point)

    def _schedule(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._ticking = None
        if self._period_s > 0:
            period_s = max(self._period_s, self.timer.at_least_s(FASTEST_LINE_S))
            self._ticking = self.timer.after(period_s, self._tick)

    def _tick(self) -> None:
        if not self.asleep:
            self.say(self._text())
        self._schedule()
