"""The Atlas Scientific EZO protocol: one command, its answer, `*OK`; over a line of bytes, or over I2C (`EzoI2c`).

An exchange ends with `*OK` or `*ER`; what comes unasked in between is sorted out by `Talk` and kept in `Events`.
Everything that arrives is sorted, also what was not waited for: a restart (`*RS`) or the end of a dose (`*DONE`) may be
in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from pydantic import Field

from rigctl.errors import DeviceFault, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.flaws import Flaw, got
from rigctl.rig.protocols import (
    AddressedLine,
    ByteLine,
    Calibration,
    ClaimedPlace,
    Deadline,
    Device,
    DeviceOptions,
    Identity,
    Line,
)
from rigctl_drivers.addressed_line import wait_until
from rigctl_drivers.numerals import as_number
from rigctl_drivers.wire import NOW

UNITS = MappingProxyType(
    {"ph": "pH", "orp": "mV", "ec": "uS/cm", "rtd": "degC", "do": "mg/L", "co2": "ppm", "hum": "percent"}
)
"""What each circuit reports in, by model in lower case."""
END = b"\r"
REFUSED = "*ER"
ACCEPTED = "*OK"
RESTARTED = "*RS"
ASLEEP = "*SL"
WOKEN = "*WA"
MOST_HEARD = 16_384
"""Bytes taken in at a time; whoever sends more is not listened to for ever."""
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
        word, _, rest = code.partition(",")
        self.codes = [*self.codes[-7:], code]
        self.asleep = word == ASLEEP
        if word == RESTARTED:
            self.restarted = True
        elif word == "*DONE":
            volume = as_number(rest)
            self.done_ml = self.done_ml if volume is None or math.isinf(volume) else volume
        elif word in ("*UV", "*OV"):
            self.supply = code
        elif word in ("*TOOFAST", "*MINVOL", "*MAXVOL"):
            self.refusal = word

    def forget_dose(self) -> None:
        self.done_ml = None
        self.refusal = self.supply = ""

    def clear(self) -> None:
        self.forget_dose()
        self.restarted = False
        self.codes = []

    @property
    def reason(self) -> str:
        known = [self.refusal, f"supply out of range, {self.supply}" if self.supply else ""]
        found = ", ".join(filter(None, known))
        return f" ({found})" if found else ""


SETTING_S = 0.3
READING_S = MappingProxyType({"ph": 0.9, "orp": 0.9, "co2": 0.9, "hum": 0.3})
"""Rig seconds that a circuit on I2C takes over a setting, and over a reading if that is not 0.6, by model."""
NOT_READY_S = 0.05
"""Rig seconds until a circuit that is not ready is asked again."""
MOST_ANSWERED = 31
"""Bytes that are fetched of an answer, as by the maker's sample; the longest asked for here, `?SLOPE`, has some 27."""
DONE, SYNTAX_ERROR, NOT_READY, NO_DATA = 1, 2, 254, 255
"""First byte of an answer on I2C."""


class EzoI2c(ByteLine):
    """A circuit on I2C, spoken to as one in UART mode.

    A command is written, its answer fetched once the circuit has had its time; the status byte becomes the `*OK` or
    `*ER` that a UART would send. Nothing ever comes unasked: a restart shows in what is asked (`D,?`, `TV,?`) alone.
    """

    def __init__(self, bus: AddressedLine, address: int, model: str) -> None:
        self.url = bus.url
        self.clock = bus.clock
        self._bus = bus
        self._address = address
        self._reading_s = READING_S.get(model.casefold(), 0.6)
        self._answers: list[bytes] = []
        self._asked = ""
        """The command whose answer has not been fetched yet."""
        self._due_s = 0.0
        self._unsent: DeviceTimeout | None = None
        """Why it may not have arrived."""

    def open(self) -> None:
        self._bus.open()

    def close(self) -> None:
        self._bus.close()

    def resync(self) -> None:
        self._bus.resync()

    def press_on(self) -> None:
        self._bus.press_on()

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send a command, once; as on a UART, one that did not arrive has no answer."""
        command = data.removesuffix(END)
        self._asked, self._answers, self._unsent = command.decode("ascii"), [], None
        reading = self._asked.partition(",")[0] in ("R", "RT")
        self._due_s = self.clock.now_s() + (self._reading_s if reading else SETTING_S)
        try:
            self._bus.transfer(self._address, command, 0, deadline)
        except DeviceTimeout as problem:
            self._unsent = problem

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:  # noqa: ARG002 - each answer is a whole one
        """Return the next line of the answer, as a UART would send it.

        Raises:
            DeviceTimeout: nothing was asked, it is not ready in time, has nothing to say, or does not acknowledge.
            GarbledReply: what answers is no EZO circuit.
        """
        if not self._answers:
            self._answers = self._fetched(deadline)
        return self._answers.pop(0)

    def take_dropped(self) -> bytes:
        return b""

    def _fetched(self, deadline: Deadline) -> list[bytes]:
        while self._asked:
            wait_until(self._due_s, self.clock, deadline)
            if self._unsent is not None:
                self._asked = ""
                raise self._unsent
            status, *rest = self._bus.transfer(self._address, b"", MOST_ANSWERED, deadline) or b"\0"
            if status != NOT_READY:
                command, self._asked = self._asked, ""
                # some Raspberry Pis set the highest bit of what follows the first byte (the maker's own sample says so)
                text = bytes(byte & 0x7F for byte in rest).partition(b"\0")[0]
                return self._as_lines(command, status, text)
            self._due_s = self.clock.now_s() + NOT_READY_S
        raise DeviceTimeout("nothing more to come", bus=self.url)

    def _as_lines(self, command: str, status: int, text: bytes) -> list[bytes]:
        old = text.startswith(b"?") and command != "i" and not command.endswith("?")
        if status == NO_DATA or old:  # an answer to what was asked before confirms no command
            raise DeviceTimeout("the circuit has nothing to say to it", bus=self.url)
        if status not in (DONE, SYNTAX_ERROR):
            what = f"address {self._address:#04x} answers with status {status}: is this an EZO circuit?"
            raise GarbledReply(what, bus=self.url)
        return [REFUSED.encode()] if status == SYNTAX_ERROR else [*filter(None, [text]), ACCEPTED.encode()]


class EzoOptions(DeviceOptions):
    """What every EZO circuit may be given."""

    address: int | None = Field(default=None, ge=0x01, le=0x7F)
    """I2C address: as shipped 0x63 pH, 0x62 ORP, 0x64 EC, 0x61 DO, 0x66 RTD, 0x69 CO2, 0x6F HUM, 0x67 pump."""

    def occupies(self) -> Sequence[ClaimedPlace] | None:
        """Return its address on I2C; None: a line as a whole."""
        return None if self.address is None else (ClaimedPlace(f"address {self.address:#04x}", "keeps"),)


def circuit_line(options: EzoOptions, model: str, line: Line) -> ByteLine:
    """Return the line to speak to a circuit over; raises `ValueError` for an address without I2C, and the reverse."""
    if options.address is not None and isinstance(line, AddressedLine):
        return EzoI2c(line, options.address, model)
    if options.address is None and isinstance(line, ByteLine):
        return line
    must = "must be given on I2C" if options.address is None else "is for I2C only"
    raise ValueError(Flaw(must, remedy="as shipped 0x63 pH, 0x64 EC, 0x66 RTD, 0x67 pump", where="address"))


class Talk:
    """Commands out, lines in, sorted into answers and events; and what is known of what may still be on its way."""

    def __init__(self, line: ByteLine, late_s: float) -> None:
        self.line = line
        self.events = Events()
        self.in_step = False
        """Whether nothing can still be on its way, and the right circuit is there."""
        self.may_accept = False
        """Whether an `*OK` may still follow a `*DONE`: it answers nothing that is asked now."""
        self._late_s = late_s
        self._late_until_s = 0.0
        """Monotonic wall instant after which nothing asked before can still be answered."""

    def write(self, text: str, deadline: Deadline) -> None:
        deadline.check(text)
        self._late_until_s = Deadline.after(self.wall_s(self._late_s)).at_s
        self.line.write(text.encode("ascii") + END, deadline)

    def wall_s(self, rig_s: float) -> float:
        return max(rig_s / self.line.clock.speedup, LEAST_LATE_S)

    def until_late(self, deadline: Deadline) -> Deadline:
        """Return the instant after which nothing asked before can be answered, or the deadline if that is earlier."""
        return replace(deadline, at_s=min(deadline.at_s, self._late_until_s))

    def next(self, text: str, deadline: Deadline) -> str:
        """Return the next line that is an answer, or `*WA`; `*ER` is raised."""
        try:
            while (answer := self._sort(self.line.read_line(END, deadline))) is None or self._is_left_over(answer):
                deadline.check("only codes came")
        except DeviceTimeout as problem:
            seen = f" (seen: {' '.join(self.events.codes)})" if self.events.codes else ""
            raise DeviceTimeout(f"no answer to {text!r}: {problem.what}{seen}", bus=problem.bus) from problem
        if answer == WOKEN:
            self._late_until_s = 0.0  # what woke it is lost: nothing is on its way
        if answer == REFUSED:
            self.in_step = True
            raise DeviceFault(f"{text!r} refused with *ER{self.events.reason}")
        return answer

    def listen(self, deadline: Deadline = NOW) -> None:
        """Take in what has arrived, up to the deadline at most, as events; what `resync` has dropped comes first."""
        for line in self.line.take_dropped().split(END)[:-1]:
            self._overhear(line)
        try:
            heard = 0
            while heard < MOST_HEARD:
                line = self.line.read_line(END, deadline)
                heard += len(line) + len(END)
                self._overhear(line)
        except DeviceTimeout:  # that was all
            return

    def listen_for_sign(self, deadline: Deadline) -> bool:
        """Tell whether a command seems to have arrived: `*OK` or `*DONE` in time, and neither `*ER` nor `*WA`."""
        self.events.done_ml = None
        answer: str | None = None
        try:
            while True:
                answer = self._sort(self.line.read_line(END, deadline))
                if self.events.done_ml is not None or answer in (ACCEPTED, REFUSED, WOKEN):
                    break
                deadline.check("no sign")
        except DeviceTimeout:  # no sign
            return False
        self.may_accept = self.events.done_ml is not None
        return answer not in (REFUSED, WOKEN)

    def _is_left_over(self, answer: str) -> bool:
        """Tell whether this is the `*OK` after a `*DONE`; lines come in order, so only the first answer can be."""
        left_over, self.may_accept = self.may_accept and answer == ACCEPTED, False
        return left_over

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
        answer = self._sort(line)
        if answer == REFUSED:
            self.events.refusal = self.events.refusal or REFUSED
        self.may_accept = self.may_accept and answer != ACCEPTED


ANSWER_NAMES = MappingProxyType({"?dc": "?maxrate"})
"""Answers that are not named after their question, in lower case."""
SETTING_LATE_S = 0.4
"""Rig seconds after which the answer to anything but a reading must have come; circuits take 300 ms over it."""
ATTEMPTS = 3
"""Times a circuit is asked who it is: one answer may be spoilt by half a line left over, one lost by waking it."""
SIMULATED = "SIM"
"""What the firmware version of a simulated circuit begins with; those of real ones begin with a digit."""


class EzoChannel:
    """One EZO circuit on one line.

    Before the first command, and again after any failure, the circuit is asked who it is: that brings question and
    answer back into step, drops half a line left over, wakes one that sleeps (what wakes it is lost), and keeps
    settings away from another device on the port.
    The slowest answer must have come after `late_s` rig seconds.
    """

    def __init__(self, line: ByteLine, model: str, *, late_s: float) -> None:
        self.line = line
        self.unasked = not isinstance(line, EzoI2c)
        """Whether the circuit also speaks unasked: of restarts, and in continuous mode."""
        self._talk = Talk(line, late_s)
        self.events, self.listen = self._talk.events, self._talk.listen
        self.model = model
        self._given_name: str | None = None
        """What people named the circuit (`Name`); None until it was asked."""

    def identify(self, deadline: Deadline) -> Identity:
        """Ask `i`, and `Name,?`: EZO circuits have no serial number, so the name people gave one stands for it.

        A circuit that had no name is not asked for it again: on the way to the safe state 300 ms count.

        Raises:
            IdentityMismatch: another circuit answers.
            DeviceTimeout, GarbledReply: none answers in time, or not as an EZO circuit does.
        """
        found = self._recognise(deadline)
        for _ in range(2 if self._given_name != "" else 0):
            try:
                self._given_name = ",".join(self.query("Name,?", deadline))
                break
            except DeviceFault:  # noise, or, if it is refused again, a firmware that knows no names
                self._given_name = ""
        return replace(found, serial=self._given_name or "")

    def simulated(self, deadline: Deadline) -> bool:
        return self._recognise(deadline).firmware.upper().startswith(SIMULATED)

    def command(self, text: str, deadline: Deadline) -> None:
        """Send a command and wait for `*OK`; sent once.

        Raises:
            DeviceFault: refused (`*ER`, with the reason where the circuit gives one).
            DeviceTimeout: no `*OK` in time: whether it was carried out is unknown.
        """
        self.listen()
        if self._talk.may_accept:  # an `*OK` that may be left over would pass for this command's
            self._talk.in_step = False
        self._send(text, deadline)
        self._until_accepted(text, deadline)

    def query(self, text: str, deadline: Deadline) -> tuple[str, ...]:
        """Send a query and return the fields of its answer, e.g. `?D,10.00,1` -> `("10.00", "1")`.

        One that only woke the circuit is asked again.

        Raises:
            DeviceFault, DeviceTimeout: as `command`.
            GarbledReply: `*OK` came, but the answer before it was spoilt: ask again.
        """
        self._send(text, deadline)
        prefix = "?" + text.partition(",")[0].casefold()
        while True:
            answer = self._talk.next(text, deadline)
            if answer == WOKEN:
                self._send(text, deadline)
            if answer == ACCEPTED:
                raise self._spoilt(text)
            # some are printed, and sent, with a comma more: `?,O,%,mg` (EZO-DO data sheet, "Enable/disable parameters")
            word, *fields = answer.replace("?,", "?", 1).split(",")
            if word.casefold() in (prefix, ANSWER_NAMES.get(prefix)):
                self._until_accepted(text, deadline)
                return tuple(f.strip() for f in fields)
            deadline.check(text)

    def reading(self, text: str, deadline: Deadline) -> str:
        """Send a command answered by a bare line (`R`) and return it; is asked again, and raises, as `query`."""
        self._send(text, deadline)
        while not (answer := self._talk.next(text, deadline)) or answer.startswith("?") or answer == WOKEN:
            if answer == WOKEN:
                self._send(text, deadline)
            deadline.check(text)
        if answer == ACCEPTED:
            raise self._spoilt(text)
        self._until_accepted(text, deadline)
        return answer

    def if_known(self, question: str, deadline: Deadline, *, tries: int = 2) -> tuple[str, ...] | None:
        """Query what not every circuit knows; None if it is refused twice: once may come of noise on the line."""
        for _ in range(tries):
            with suppress(DeviceFault):
                return self.query(question, deadline)
        return None

    def interject(self, text: str, deadline: Deadline) -> bool:
        """Send at once, whatever is under way; tell whether there was a sign (`*OK`, `*DONE`) in time that it arrived.

        Without a sign the next exchange finds out where we stand.
        """
        was_in_step, self._talk.in_step = self._talk.in_step, False
        self._talk.write(text, deadline)
        heard = self._talk.listen_for_sign(self._talk.until_late(deadline))
        self._talk.in_step = was_in_step and heard
        return heard

    def number(self, question: str, fields: Sequence[str], at: int = 0) -> float:
        value = as_number(fields[at]) if at < len(fields) else None
        if value is None or math.isinf(value):
            wrong = "must be a number" if at < len(fields) else f"has no value {at + 1}"
            raise self.garbled(f"{question}: got {','.join(fields)!r}, {wrong}")
        return value

    def garbled(self, what: str | Flaw) -> GarbledReply:
        """Return the error for an answer that makes no sense, and find out who is there before the next command."""
        self._talk.in_step = False
        return GarbledReply(what)

    def _recognise(self, deadline: Deadline) -> Identity:
        """Ask `i`, which brings us into step; prefixes and models compare in any case, as firmwares differ."""
        silent = False
        for _ in range(ATTEMPTS):
            self._talk.in_step = False
            self.listen(self._talk.until_late(deadline))
            self._talk.write("i", deadline)
            patience_s = max(deadline.remaining_s / 2, self._talk.wall_s(SETTING_LATE_S))
            try:
                fields = self._identity_fields(deadline if silent else deadline.within(patience_s))
            except DeviceTimeout:
                if silent or deadline.remaining_s == 0.0:
                    raise
                silent = True  # it may have slept, and be awake now
                continue
            if fields is not None:
                found = self._checked(fields)
                if silent:  # the first question may be answered too, only late
                    self.listen(self._talk.until_late(deadline))
                return found
        mode = " in UART mode" if self.unasked else ""
        raise GarbledReply(f"got no ?I answer to 'i'; is this an EZO circuit{mode}?")

    def _identity_fields(self, deadline: Deadline) -> list[str] | None:
        """Return the fields of `?I,...`, or None if the exchange ended without."""
        fields: list[str] | None = None
        try:
            while (answer := self._talk.next("i", deadline)) != ACCEPTED:
                if answer == WOKEN:
                    return None
                word, *rest = answer.split(",")
                fields = rest if word.casefold() == "?i" else fields
                deadline.check("i")
        except DeviceFault:  # half a command left over in the circuit made this one unreadable
            self._talk.in_step = False
            return None
        return fields

    def _checked(self, fields: list[str]) -> Identity:
        got, firmware = (*(f.strip() for f in fields), "", "")[:2]
        if got.casefold() != self.model.casefold():
            raise IdentityMismatch(f"EZO {got!r} answers, expected {self.model!r}; check `bus` and cable")
        self._talk.in_step = True
        return Identity(got, firmware)

    def _send(self, text: str, deadline: Deadline) -> None:
        self.listen()
        if self.events.asleep or not self._talk.in_step:
            self._recognise(deadline)
            self.listen()
        self._talk.in_step = False
        self._talk.write(text, deadline)

    def _until_accepted(self, text: str, deadline: Deadline) -> None:
        try:
            while (answer := self._talk.next(text, deadline)) not in (ACCEPTED, WOKEN):
                deadline.check(text)
        except DeviceTimeout as problem:
            if not self.unasked:
                raise
            raise DeviceTimeout(f"{problem.what}; are response codes off? They are switched on with *OK,1") from problem
        if answer == WOKEN:
            raise DeviceTimeout(f"{text!r} woke the circuit; it is unknown what became of it")
        self._talk.in_step = True

    def _spoilt(self, text: str) -> GarbledReply:
        # `*OK` ends an answer; without one before it, its line was lost on the way, and waiting brings nothing
        self._talk.in_step = True
        return GarbledReply(f"{text!r}: *OK came without the answer before it")


class EzoDevice(Device):
    """What every EZO circuit can be asked."""

    tells_calibration = True

    def __init__(self, options: EzoOptions, model: str, line: Line, *, late_s: float) -> None:
        self._channel = EzoChannel(circuit_line(options, model, line), model, late_s=late_s)

    def identify(self, deadline: Deadline) -> Identity:
        return self._channel.identify(deadline)

    def simulated(self, deadline: Deadline) -> bool:
        return self._channel.simulated(deadline)

    def calibration(self, deadline: Deadline) -> Calibration:
        """Ask for the number of points (`Cal,?`), and a pH circuit for percent of an ideal probe's slopes (`Slope,?`).

        Raises:
            DeviceTimeout, GarbledReply: as `EzoChannel.query`, and where an answer makes no sense.
        """
        channel = self._channel
        fields = channel.if_known("Cal,?", deadline)
        if fields is None:
            return Calibration(None)
        points = channel.number("Cal,?", fields)
        if not (points >= 0 and points == int(points)):
            raise channel.garbled(got(",".join(fields), "must be a whole number", where="Cal,?"))
        told = channel.if_known("Slope,?", deadline) if channel.model.casefold() == "ph" else None
        percent = () if told is None else tuple(channel.number("Slope,?", told, at) for at in range(2))
        said = ["Cal", *fields, *([] if told is None else ["Slope", *told])]
        return Calibration(int(points), percent, ",".join(said))
