"""The Atlas Scientific EZO protocol over a line of bytes: one command, its answer, `*OK`.

An exchange ends with `*OK` or `*ER`; what comes unasked in between is sorted out by `Ear` and kept in `Events`.
"""

from __future__ import annotations

from types import MappingProxyType

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.protocols import ByteLine, Deadline, Identity
from rigctl_drivers.ezo_codes import ACCEPTED, END, REFUSED, Ear, Events

NOW = Deadline(0.0)
"""Only what has arrived already."""
ANSWER_NAMES = MappingProxyType({"?dc": "?maxrate"})
"""Answers that are not named after their question, in lower case."""
LEAST_LATE_S = 0.05
"""Wall seconds an answer may take on its way through the port, however fast rig time runs."""


class EzoChannel:
    """One EZO circuit on one line.

    Before the first command, and again after any failure, the circuit is asked who it is: that brings question and
    answer back into step, drops half a line left over, and keeps settings away from another device on the port.
    """

    def __init__(self, name: str, line: ByteLine, model: str, *, late_s: float) -> None:
        self.name = name
        self.line = line
        self.events = Events()
        """What has come unasked."""
        self._ear = Ear(line, self.events)
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
        for _ in range(2):  # the first answer may be spoilt by half a line left over
            self._in_step = False
            self.listen(Deadline(min(deadline.at_s, self._late_until_s)))
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
            GarbledReply: `*OK` came, but the answer before it was spoilt: ask again.
        """
        self._send(text, deadline)
        prefix = "?" + text.partition(",")[0].casefold()
        while True:
            answer = self._next(text, deadline)
            if answer == ACCEPTED:
                self._in_step = True
                raise spoilt(self.where, text)
            word, *fields = answer.split(",")
            if word.casefold() in (prefix, ANSWER_NAMES.get(prefix)):
                self._until_accepted(text, deadline)
                return tuple(f.strip() for f in fields)

    def reading(self, text: str, deadline: Deadline) -> str:
        """Send a command answered by a bare line (`R`) and return that line.

        Raises:
            DeviceFault, DeviceTimeout, GarbledReply: as `query`.
        """
        self._send(text, deadline)
        while not (answer := self._next(text, deadline)) or answer.startswith("?"):
            continue
        if answer == ACCEPTED:
            self._in_step = True
            raise spoilt(self.where, text)
        self._until_accepted(text, deadline)
        return answer

    def interject(self, text: str, deadline: Deadline) -> None:
        """Send at once, whatever is under way, and wait a moment for a sign (`*OK`, `*ER`, `*DONE`) that it arrived.

        Without a sign the next exchange finds out where we stand.
        """
        was_in_step, self._in_step = self._in_step, False
        self._write(text, deadline)
        heard = self._ear.listen_for_sign(Deadline(min(deadline.at_s, self._late_until_s)))
        self._in_step = was_in_step and heard

    def listen(self, deadline: Deadline = NOW) -> None:
        """Take in what has arrived, up to the deadline at most, as events."""
        self._ear.listen(deadline)

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
            self._in_step = False
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
        self.listen()
        self._in_step = False
        self._write(text, deadline)

    def _write(self, text: str, deadline: Deadline) -> None:
        deadline.check(f"{self.where}: {text}")
        self._late_until_s = Deadline.after(max(self._late_s / self.line.clock.speedup, LEAST_LATE_S)).at_s
        self.line.write(text.encode("ascii") + END, deadline)

    def _next(self, text: str, deadline: Deadline) -> str:
        """The next line that is an answer; `*ER` is raised."""
        try:
            answer = self._ear.answer(deadline)
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"{self.name}: no answer to {text!r}: {problem}") from problem
        if answer == REFUSED:
            self._in_step = True
            raise DeviceFault(f"{self.where}: {text!r} refused with *ER{self.events.reason}")
        return answer

    def _until_accepted(self, text: str, deadline: Deadline) -> None:
        try:
            while self._next(text, deadline) != ACCEPTED:
                continue
        except DeviceTimeout as problem:
            raise DeviceTimeout(f"{problem}; are response codes off? They are switched on with *OK,1") from problem
        self._in_step = True


def spoilt(where: str, text: str) -> GarbledReply:
    """`*OK` ends an answer; without one before it, its line was lost on the way, and waiting brings nothing."""
    return GarbledReply(f"{where}: {text!r}: *OK came without the answer before it")
