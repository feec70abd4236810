"""One Modbus question and its answer, over RTU or TCP: sent once, waited for, matched.

Reads are asked again a few times and counted, writes leave exactly once, and after any failure the line is not trusted:
RTU stays silent for `quiet` wall seconds and drops what came, TCP connects anew before it asks again. An answer over
TCP carries the number of its question, so a command that must leave at once need not wait for a new connection.

Some RS-485 adapters echo locally: what is sent comes back before the answer, or instead of one if the cable is cut. To
functions 05 and 06 a sound answer is the request once more, so an echo looks like success. Whether a line echoes is
learnt from what can be told apart: the answer to any other request never begins with the request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout, GarbledReply
from rigctl.rig.protocols import LOOK_S, Clock, Deadline
from rigctl_drivers.modbus_frames import Answer, Framing, ModbusRequest
from rigctl_drivers.modbus_protocol import fault_of
from rigctl_drivers.wire import NOW, Wire


class Echo:
    """Whether a line echoes, as far as is known."""

    def __init__(self, declared: bool | None) -> None:
        self._declared = declared
        self.known = declared
        """None: nothing has come yet that could tell."""

    def forget(self) -> None:
        """Forget what is known, as the port was opened: another adapter may be there."""
        self.known = self._declared

    def rest(self, sent: bytes, received: bytes, *, ambiguous: bool) -> bytes:
        """Return what of `received` is not the echo of `sent`; empty as long as there may be nothing else.

        From an `ambiguous` request, whose answer may be the request once more, nothing can be learnt.

        Raises:
            GarbledReply: the line echoes, but this is not what was sent.
        """
        if self.known is False or (self.known is None and ambiguous):
            return received
        if received.startswith(sent):
            self.known = True
            return received[len(sent) :]
        if sent.startswith(received):
            return b""
        if self.known:
            raise GarbledReply(
                f"the echo of what was sent came back as {received[:40].hex(' ')}: do two speak at once?"
            )
        return received

    def answered(self, *, ambiguous: bool) -> None:
        """Learn from a sound answer: had an echo come before it, this were known."""
        if self.known is None and not ambiguous:
            self.known = False


SILENT_TRIES = 2
"""How often a read is asked when nothing comes back."""
READ_TRIES = 3
"""How often a read is asked in all (garbled answers, silence)."""
BUSY_TRIES = 6
FIRST_BUSY_PAUSE_S = 0.1
"""Rig seconds; doubles with every busy answer."""
ANSWER_S = 0.2
"""The least time a unit gets to begin its answer, wall seconds."""
ECHO_S = 1.0
"""The most time for finding out whether the line echoes, wall seconds; a third of what there is if that is less."""
MOST_BYTES = 1024
"""Far beyond the longest frame (260 bytes, TCP) and its echo."""
HALF_OPEN = 2
"""Questions in a row without an answer after which a TCP connection is left even if a command must leave at once."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Timing:
    """How a line's time runs, wall seconds."""

    quiet_s: float
    """Silence after a timeout; 0 where answers carry the number of their question."""
    silence_s: float
    """Between two frames."""
    per_byte_s: float
    break_s: float | None
    """A pause that ends an answer; None where there is no such thing."""


class Exchanger:
    """Asks over one wire."""

    def __init__(self, clock: Clock, wire: Wire, framing: Framing, timing: Timing, echo: Echo) -> None:
        self.timing = timing
        self.repeated = 0
        """How many reads had to be asked again."""
        self._clock = clock
        self._wire = wire
        self._framing = framing
        self._echo = echo
        self._unanswered = 0
        """Questions in a row that were asked over this connection and not answered."""
        self._stale = False
        """Whether an answer may still come over this connection."""

    def open(self) -> None:
        self._unanswered, self._stale = 0, False
        self._echo.forget()
        self._wire.open()

    def is_up(self) -> bool:
        """As `RegisterLine` says; drops what has arrived unasked."""
        self._wire.settle(NOW)
        return self._wire.is_open

    def press_on(self) -> None:
        """Waive, for writes, the silence owed by now; a read still waits for its end, as a late answer could be its.

        RTU keeps 3.5 characters of silence. TCP keeps its connection, unless two questions in a row had no answer.
        """
        self._wire.press_on()
        self._stale = self._unanswered >= HALF_OPEN

    def read(
        self, request: ModbusRequest, values: Callable[[Answer], Sequence[Value]], count: int, deadline: Deadline
    ) -> Sequence[Value]:
        """Ask, and ask again: after garbled answers or silence while time lasts, after `busy` with growing pauses.

        The error of a read that was repeated says so, and nobody else repeats it.
        """
        least_s = ANSWER_S + (request.answer_bytes + 8) * self.timing.per_byte_s
        quiet_s = self.timing.quiet_s
        tries, silent, busy = 0, 0, 0
        first_s = time.monotonic()
        while True:
            asked_s = time.monotonic()
            tries_left = 1 if tries + 1 >= READ_TRIES else SILENT_TRIES - silent
            try:
                found = values(self.ask(request, self._share(deadline, tries_left, least_s)))
                self.check(request, len(found) == count, f"asked for {count} values, got {len(found)}")
            except GarbledReply as problem:
                tries += 1
                problem.repeated = tries + busy > 1
                # without time for the silence and another try, what is wrong is worth more than a timeout
                if tries >= READ_TRIES or deadline.remaining_s < quiet_s + least_s:
                    raise
            except DeviceBusy as problem:
                busy += 1
                problem.repeated = tries + busy > 1
                if busy >= BUSY_TRIES or deadline.remaining_s < least_s:
                    raise
                self._rest(FIRST_BUSY_PAUSE_S * 2.0 ** (busy - 1), deadline)
            except DeviceTimeout:
                tries, silent = tries + 1, silent + 1
                if silent >= SILENT_TRIES or deadline.remaining_s < quiet_s + least_s:
                    raise
            else:
                if silent and quiet_s:
                    # This may be the answer to the first try: that to the last comes as much later as it was asked,
                    # after a silence. A command's answer is another, so it need not wait.
                    self._wire.silence.distrust(asked_s + quiet_s - first_s + quiet_s)
                    self._wire.press_on()
                return found
            self.repeated += 1

    def ask(self, request: ModbusRequest, deadline: Deadline) -> Answer:
        """Ask one question, sent once, and return its answer; raises what `RegisterLine` says."""
        if request.is_its_own_answer and self._echo.known is None:
            self._listen_for_echo(request, deadline)
        self._wire.settle(deadline, command=request.writes)
        deadline.check(str(request))
        if self._stale and not self.timing.quiet_s:
            self._wire.close()
        if not self._wire.is_open:
            self._unanswered, self._stale = 0, False
            self._wire.ensure_open(deadline)
        answer = self._answer(request, deadline)
        if self._unanswered and not (self.timing.quiet_s or answer.transaction_id):  # some servers leave it at 0
            self._refuse(f"{request}: got an answer without number, it may be that to an earlier question")
        self._unanswered, self._stale = 0, False
        self._wire.silence.space(self.timing.silence_s)
        if answer.function_code & 0x7F != request.function:
            self._refuse(f"{request}: got the answer to function {answer.function_code:02X}")
        if answer.isError():
            raise fault_of(answer.exception_code, str(request), self._wire.url, writes=request.writes)
        return answer

    def check(self, request: ModbusRequest, holds: bool, problem: str) -> None:
        """Raise `GarbledReply` unless the answer is one to this request, and trust the line no more."""
        if not holds:
            self._refuse(f"{request}: {problem}")

    def _listen_for_echo(self, request: ModbusRequest, deadline: Deadline) -> None:
        """Ask what is to be written, to learn whether the line echoes; no answer is no reason not to write."""
        try:
            self.ask(request.question(), deadline.within(min(ECHO_S, deadline.remaining_s / 3)))
        except (DeviceFault, DeviceBusy):  # an answer too
            return
        except (DeviceTimeout, GarbledReply):  # a late answer is that of another function, and no confirmation
            self.press_on()

    def _answer(self, request: ModbusRequest, deadline: Deadline) -> Answer:
        received = bytearray()
        try:
            sent = self._framing.pack(request)
            self._wire.write(sent, deadline)
            return self._receive(request, sent, received, deadline)
        except GarbledReply as problem:
            sender = self._framing.sender(bytes(received))
            hint = ""
            if sender not in (None, request.unit):
                hint = f"; it seems to be from unit {sender}: is `address` right, does each unit have its own?"
            self._refuse(f"{request}: {problem}{hint}", problem)
        except DeviceTimeout as problem:
            self._unanswered, self._stale = self._unanswered + 1, True
            self._wire.silence.distrust(self.timing.quiet_s)
            raise DeviceTimeout(f"{request}: {problem.what}", bus=self._wire.url) from problem

    def _receive(self, request: ModbusRequest, sent: bytes, received: bytearray, deadline: Deadline) -> Answer:
        taken, ambiguous = 0, request.is_its_own_answer
        while True:
            until = deadline
            if taken and self.timing.break_s is not None:
                until = until.within(self.timing.break_s)
            data = self._wire.read_some(until)
            received += data
            if not data:
                raise _nothing_more(bytes(received), taken)
            if len(received) > MOST_BYTES:
                raise GarbledReply(f"got {len(received)} bytes, must be at most {MOST_BYTES}; who speaks there?")
            rest = self._echo.rest(sent, bytes(received), ambiguous=ambiguous)
            answer = self._framing.unpack(rest[taken:])
            taken = len(rest)
            if answer is not None and ambiguous and self._echo.known is None:
                raise DeviceTimeout("it came back as it was sent, which may be the echo of an adapter; see `echo`")
            if answer is not None:
                self._echo.answered(ambiguous=ambiguous)
                return answer

    def _refuse(self, message: str, cause: Exception | None = None) -> NoReturn:
        """Take what came for no answer: RTU waits before it speaks again, TCP drops all that is under way."""
        if self.timing.quiet_s:
            self._wire.silence.distrust(self.timing.quiet_s)
        else:
            self._wire.close()
        raise GarbledReply(message, bus=self._wire.url) from cause

    def _share(self, deadline: Deadline, tries_left: int, least_s: float) -> Deadline:
        """Return how long one try may take so that another fits in, if that leaves each the time it needs."""
        if tries_left <= 1:
            return deadline
        each_s = (deadline.remaining_s - self.timing.quiet_s * (tries_left - 1)) / tries_left
        return deadline.within(each_s) if each_s >= least_s else deadline

    def _rest(self, seconds: float, deadline: Deadline) -> None:
        """Let rig time pass, unless the deadline comes nearer meanwhile."""
        while seconds > 0 and deadline.remaining_s > 0:
            step_s = min(seconds, LOOK_S * self._clock.speedup)
            self._clock.sleep(step_s)
            seconds -= step_s


def _nothing_more(received: bytes, taken: int) -> DeviceError:
    """Say that nothing more comes: of what came, `taken` bytes were not the echo."""
    if taken:
        return GarbledReply(f"got no valid answer but bytes {received[:40].hex(' ')}")
    if received:
        return DeviceTimeout("only what was sent came back, the adapter's echo; check wiring, power and unit address")
    return DeviceTimeout("no answer in time; check power, wiring, unit address and baud rate")
