"""What an EZO circuit says: answers, and codes that may come at any time.

Everything that arrives is sorted here, also what was not waited for: a restart (`*RS`) or the end of a dose (`*DONE`)
may be in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from rigctl.errors import DeviceFault, DeviceTimeout
from rigctl.rig.protocols import ByteLine, Deadline

END = b"\r"
REFUSED = "*ER"
ACCEPTED = "*OK"
RESTARTED = "*RS"
ASLEEP = "*SL"
WOKEN = "*WA"
UNASKED = (RESTARTED, "*RE", ASLEEP, WOKEN, "*OV", "*UV", "*DONE", "*TOOFAST", "*MINVOL", "*MAXVOL")
"""Codes that are no answer; `*TOOFAST` and `*MINVOL` announce the `*ER` that follows."""
LEAST_LATE_S = 0.05
"""Wall seconds an answer may take on its way through the port, however fast rig time runs."""


@dataclass(slots=True)
class Events:
    """What has come unasked since it was last looked at."""

    restarted: bool = False
    asleep: bool = False
    """It said that it goes to sleep, and has said nothing since: the next command will only wake it."""
    done_ml: float | None = None
    """From the last `*DONE`."""
    refusal: str = ""
    """`*TOOFAST`, `*MINVOL`, ..."""
    supply: str = ""
    """`*UV...` or `*OV...`: a supply is out of range."""
    codes: list[str] = field(default_factory=list)
    """The last few codes as they came, for messages."""

    def note(self, code: str) -> None:
        """Remember a code."""
        word, _, rest = code.partition(",")
        self.codes = [*self.codes[-7:], code]
        self.asleep = word == ASLEEP
        if word == RESTARTED:
            self.restarted = True
        elif word == "*DONE":
            volume = as_number(rest)
            self.done_ml = self.done_ml if volume is None else volume
        elif word in ("*UV", "*OV"):
            self.supply = code
        elif word in ("*TOOFAST", "*MINVOL", "*MAXVOL"):
            self.refusal = word

    def forget_dose(self) -> None:
        """Begin a new dose: what came of the last one no longer counts."""
        self.done_ml = None
        self.refusal = self.supply = ""

    def clear(self) -> None:
        """Forget everything seen so far: it has been dealt with."""
        self.forget_dose()
        self.restarted = False
        self.codes = []

    @property
    def reason(self) -> str:
        """Say why something may have been refused, in brackets; empty if unknown."""
        known = [self.refusal, f"supply out of range, {self.supply}" if self.supply else ""]
        found = ", ".join(filter(None, known))
        return f" ({found})" if found else ""


class Talk:
    """Commands out, lines in, sorted into answers and events; and what is known of what may still be on its way."""

    def __init__(self, line: ByteLine, late_s: float) -> None:
        self.line = line
        self.events = Events()
        self.in_step = False
        """Whether nothing can still be on its way, and the right circuit is there."""
        self._late_s = late_s
        self._late_until_s = 0.0
        """Monotonic wall instant after which nothing asked before can still be answered."""

    def write(self, text: str, deadline: Deadline) -> None:
        """Send a command."""
        deadline.check(text)
        self._late_until_s = Deadline.after(self.wall_s(self._late_s)).at_s
        self.line.write(text.encode("ascii") + END, deadline)

    def wall_s(self, rig_s: float) -> float:
        """Return how long to wait for what takes so many rig seconds."""
        return max(rig_s / self.line.clock.speedup, LEAST_LATE_S)

    def until_late(self, deadline: Deadline) -> Deadline:
        """Return the instant after which nothing asked before can be answered, or the deadline if that is earlier."""
        return replace(deadline, at_s=min(deadline.at_s, self._late_until_s))

    def next(self, text: str, deadline: Deadline) -> str:
        """Return the next line that is an answer, or `*WA`; `*ER` is raised."""
        try:
            answer = self._answer(deadline)
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"no answer to {text!r}: {problem.what}", bus=problem.bus) from problem
        if answer == WOKEN:
            self._late_until_s = 0.0  # what woke it is lost: nothing is on its way
        if answer == REFUSED:
            self.in_step = True
            raise DeviceFault(f"{text!r} refused with *ER{self.events.reason}")
        return answer

    def listen(self, deadline: Deadline) -> None:
        """Take in what has arrived, up to the deadline at most, as events; what `resync` has dropped comes first."""
        for line in self.line.take_dropped().split(END)[:-1]:
            self._overhear(line)
        try:
            while True:
                self._overhear(self.line.read_line(END, deadline))
        except DeviceTimeout:  # that was all
            return

    def listen_for_sign(self, deadline: Deadline) -> bool:
        """Tell whether a command seems to have arrived: `*OK` or `*DONE` in time, and neither `*ER` nor `*WA`."""
        self.events.done_ml = None
        answer: str | None = None
        try:
            while self.events.done_ml is None and answer not in (ACCEPTED, REFUSED, WOKEN):
                answer = self._sort(self.line.read_line(END, deadline))
        except DeviceTimeout:  # no sign
            return False
        return answer not in (REFUSED, WOKEN)

    def _answer(self, deadline: Deadline) -> str:
        while True:
            try:
                found = self._sort(self.line.read_line(END, deadline))
            except DeviceTimeout as problem:
                seen = f" (seen: {' '.join(self.events.codes)})" if self.events.codes else ""
                raise DeviceTimeout(f"{problem.what}{seen}", bus=problem.bus) from problem
            if found is not None:
                return found

    def _sort(self, line: bytes) -> str | None:
        """Return a line that is an answer, or None if it was a code or noise."""
        text = line.decode("ascii", errors="replace").strip()
        if not text.isprintable() or "\ufffd" in text:
            self.events.note(f"?{line[:20]!r}")
            return None
        upper = text.upper()
        if upper.partition(",")[0] in UNASKED:
            self.events.note(upper)
            return WOKEN if upper == WOKEN else None
        self.events.asleep = False
        return upper if upper in (ACCEPTED, REFUSED) else text

    def _overhear(self, line: bytes) -> None:
        if self._sort(line) == REFUSED:
            self.events.refusal = self.events.refusal or REFUSED


def as_number(text: str) -> float | None:
    """Return a field as a number, which may be NaN; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isinf(value) else value
