"""The Atlas Scientific EZO protocol over a line of bytes: one command, its answer, `*OK`, and codes that come unasked.

An exchange ends with `*OK` or `*ER`. Codes that may come at any time (`*RS` restart, `*DONE,v`, `*UV`, ...) are sorted
out of the answer and kept in `Events`; nothing that arrives is dropped unread, not even while waiting for quiet after
a failure, since a `*RS` or `*DONE` may be in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import ByteLine, Deadline, Identity

END = b"\r"
REFUSED = "*ER"
ACCEPTED = "*OK"
RESTARTED = "*RS"
UNASKED = ("*RS", "*RE", "*SL", "*WA", "*OV", "*UV", "*DONE", "*TOOFAST", "*MINVOL", "*MAXVOL")
"""Codes that are no answer; `*TOOFAST` and `*MINVOL` announce the `*ER` that follows."""
ANSWER_NAMES = MappingProxyType({"?dc": "?maxrate"})
"""Answers that are not named after their question, in lower case."""
LEAST_LATE_S = 0.05
"""Wall seconds an answer may take on its way through the port, however fast rig time runs."""


@dataclass(slots=True)
class Events:
    """What has come unasked since it was last looked at."""

    restarted: bool = False
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
        if word == RESTARTED:
            self.restarted = True
        elif word == "*DONE":
            volume = _number(rest)
            self.done_ml = self.done_ml if volume is None else volume
        elif word in ("*UV", "*OV"):
            self.supply = code
        elif word in ("*TOOFAST", "*MINVOL", "*MAXVOL"):
            self.refusal = word

    def forget_dose(self) -> None:
        """A new dose begins: what came of the last one no longer counts."""
        self.done_ml = None
        self.refusal = self.supply = ""

    def clear(self) -> None:
        """Everything seen so far has been dealt with."""
        self.forget_dose()
        self.restarted = False
        self.codes = []


class EzoChannel:
    """One EZO circuit on one line.

    Before the first command, and again after any failure, the circuit is asked who it is: that brings question and
    answer back into step, drops half a line left over, and keeps settings away from another device on the port.
    """

    def __init__(self, name: str, line: ByteLine, model: str, *, late_s: float) -> None:
        self.name = name
        self.line = line
        self.events = Events()
        self._model = model
        self._late_s = late_s
        """Rig seconds after which the slowest answer must have come."""
        self._in_step = False
        """Whether nothing can still be on its way, and the right circuit is there."""
        self._late_until_s = 0.0
        """Monotonic wall instant after which nothing asked before can still be answered."""

    @property
    def where(self) -> str:
        """For messages: device and port."""
        return f"{self.name}: {self.line.url}"

    def identify(self, deadline: Deadline) -> Identity:
        """Ask `i`; prefixes and models compare in any case, as firmwares differ.

        Raises:
            IdentityMismatch: another circuit answers.
            DeviceTimeout, GarbledReply: none answers in time, or not as an EZO circuit does.
        """
        self.listen(Deadline(min(deadline.at_s, self._late_until_s)))
        for _ in range(2):  # the first answer may be spoilt by half a line left over
            self._write("i", deadline)
            fields = self._identity_fields(deadline)
            if fields is not None:
                return self._checked(fields)
        raise GarbledReply(f"{self.where}: got no ?I answer to 'i'; is this an EZO circuit in UART mode?")

    def command(self, text: str, deadline: Deadline) -> None:
        """Send a command and wait for `*OK`; sent once.

        Raises:
            DeviceFault: refused (`*ER`, with the reason where the circuit gives one).
            DeviceTimeout: no `*OK` in time: whether it was carried out is unknown.
        """
        self._send(text, deadline)
        self._until_accepted(text, deadline)

    def query(self, text: str, deadline: Deadline) -> tuple[str, ...]:
        """Send a query and return the fields of its answer, e.g. `?D,10.00,1` -> `("10.00", "1")`.

        Raises:
            DeviceFault, DeviceTimeout: as `command`.
        """
        self._send(text, deadline)
        prefix = "?" + text.partition(",")[0].casefold()
        while True:
            word, *fields = self._next(text, deadline).split(",")
            if word.casefold() in (prefix, ANSWER_NAMES.get(prefix)):
                self._until_accepted(text, deadline)
                return tuple(f.strip() for f in fields)

    def reading(self, text: str, deadline: Deadline) -> str:
        """Send a command answered by a bare line (`R`) and return that line.

        Raises:
            DeviceFault, DeviceTimeout: as `command`.
        """
        self._send(text, deadline)
        while not (answer := self._next(text, deadline)) or answer == ACCEPTED or answer.startswith("?"):
            continue
        self._until_accepted(text, deadline)
        return answer

    def interject(self, text: str, deadline: Deadline) -> None:
        """Send at once, whatever is under way, and wait a moment for a sign (`*OK`, `*ER`, `*DONE`) that it arrived."""
        was_in_step, self._in_step = self._in_step, False
        self._write(text, deadline)
        self.events.done_ml = None
        until = Deadline(min(deadline.at_s, self._late_until_s))
        try:
            while self.events.done_ml is None and self._sort(self.line.read_line(END, until)) not in (
                ACCEPTED,
                REFUSED,
            ):
                continue
        except DeviceTimeout:  # unanswered: the next exchange finds out where we stand
            return
        self._in_step = was_in_step

    def listen(self, deadline: Deadline) -> None:
        """Take in what has arrived, up to the deadline at most, as events; what `resync` has dropped comes first."""
        for line in self.line.take_dropped().split(END)[:-1]:
            self._overhear(line)
        try:
            while True:
                self._overhear(self.line.read_line(END, deadline))
        except DeviceTimeout:  # that was all
            return

    def out_of_step(self) -> None:
        """The answer made no sense: find out who is there before the next command."""
        self._in_step = False

    def _identity_fields(self, deadline: Deadline) -> list[str] | None:
        """The fields of `?I,...`, or None if the exchange ended without."""
        fields: list[str] | None = None
        try:
            while (answer := self._next("i", deadline)) != ACCEPTED:
                word, *rest = answer.split(",")
                fields = rest if word.casefold() == "?i" else fields
        except DeviceFault:  # half a command left over in the circuit made this one unreadable
            return None
        return fields

    def _checked(self, fields: list[str]) -> Identity:
        got, firmware = (*(f.strip() for f in fields), "", "")[:2]
        if got.casefold() != self._model.casefold():
            raise IdentityMismatch(
                f"{self.where}: EZO {got!r} answers, expected {self._model!r}; check `bus` and cable"
            )
        self._in_step = True
        return Identity(got, firmware)

    def _send(self, text: str, deadline: Deadline) -> None:
        if not self._in_step:
            self.identify(deadline)
        self.listen(Deadline(0.0))
        self._in_step = False
        self._write(text, deadline)

    def _write(self, text: str, deadline: Deadline) -> None:
        deadline.check(f"{self.where}: {text}")
        self._late_until_s = Deadline.after(max(self._late_s / self.line.clock.speedup, LEAST_LATE_S)).at_s
        self.line.write(text.encode("ascii") + END, deadline)

    def _next(self, text: str, deadline: Deadline) -> str:
        """The next line that is an answer; codes that come unasked are noted, `*ER` is raised."""
        while True:
            try:
                answer = self._sort(self.line.read_line(END, deadline))
            except DeviceTimeout as problem:
                seen = f" (seen: {' '.join(self.events.codes)})" if self.events.codes else ""
                raise DeviceTimeout(f"{self.name}: no answer to {text!r}{seen}: {problem}") from problem
            if answer == REFUSED:
                self._in_step = True
                raise DeviceFault(f"{self.where}: {text!r} refused with *ER{self._reason()}")
            if answer is not None:
                return answer

    def _until_accepted(self, text: str, deadline: Deadline) -> None:
        try:
            while self._next(text, deadline) != ACCEPTED:
                continue
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"{problem}; are response codes off? They are switched on with *OK,1") from problem
        self._in_step = True

    def _sort(self, line: bytes) -> str | None:
        """A line that is an answer, or None if it was a code or noise."""
        text = line.decode("ascii", errors="replace").strip()
        if not text.isprintable() or "\ufffd" in text:
            self.events.note(f"?{line[:20]!r}")
            return None
        upper = text.upper()
        if upper.partition(",")[0] in UNASKED:
            self.events.note(upper)
            return None
        return upper if upper in (ACCEPTED, REFUSED) else text

    def _overhear(self, line: bytes) -> None:
        if self._sort(line) == REFUSED:
            self.events.refusal = self.events.refusal or REFUSED

    def _reason(self) -> str:
        events = self.events
        known = [
            f"{events.refusal}" if events.refusal else "",
            f"supply out of range, {events.supply}" if events.supply else "",
        ]
        found = ", ".join(filter(None, known))
        return f" ({found})" if found else ""


def number(text: str, what: str) -> float:
    """A field as a number.

    Raises:
        GarbledReply: it is none.
    """
    value = _number(text)
    if value is None:
        raise GarbledReply(f"{what}: got {text!r}, must be a number")
    return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isinf(value) else value
