"""A device on its bus: asked (repeatable) or told (once), and recognised before either; and several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from rigctl.errors import (
    ConfigError,
    DeviceError,
    DeviceFault,
    DeviceTimeout,
    GuardRefused,
    IdentityMismatch,
    JournalError,
    PortHeld,
    PortUnavailable,
    RigctlError,
    Tripped,
)
from rigctl.rig.bus import HURRY_S, Bus, Contact, Turn
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Deadline, Device, Hurry, Identity, Pace

D = TypeVar("D", bound=Device)
T = TypeVar("T")

HURRIED: Final = 2.0
"""So many times what a healthy device needs is left to a question under way when something urgent waits."""


def said(question: Callable[[], T], otherwise: T) -> T:
    """Return what a device says of itself; no driver's bug in saying it may keep anything from going safe."""
    try:
        return question()
    except Exception:  # noqa: BLE001 -- `check_driver` finds it; here there is another way
        return otherwise


class Handle(Generic[D]):
    """One device, reached through its bus.

    Whenever the line was (re)opened or silent, the device is identified before anything else is said to it: after a
    replug another instrument may answer on the same port, and nothing may be written to that one. On the way to the
    safe state, where each exchange delays the next, somebody else's silence does not count.
    """

    def __init__(self, name: str, device: D, bus: Bus, timeout_s: float) -> None:
        self.name = name
        self.device = device
        self.bus = bus
        self.timeout_s = timeout_s
        self.identity: Identity | None = None
        self.expected: Seen | None = None
        """Who alone is taken for it; None: whoever answers first."""
        self.silent = False
        """Whether the last exchange with it stayed without an answer."""
        self._known_on: Contact | None = None

    @property
    def pace(self) -> Pace:
        """Return what it says of its exchanges; its timeout for each, if it says nothing."""
        return said(self.device.pace, None) or Pace(self.timeout_s, self.timeout_s)

    @property
    def hurried_s(self) -> float:
        """Return what a question to it still gets once something urgent waits, wall seconds."""
        pace = said(self.device.pace, None)
        return min(self.timeout_s, max(HURRIED * (0.0 if pace is None else pace.confirm_s), HURRY_S))

    @property
    def unanswered_on(self) -> str:
        """Return its line's URL where the last question to it got no answer, or the line is lost; else nothing."""
        return self.bus.url if self.silent or self.bus.trouble else ""

    async def identify(self) -> Identity:
        """Ask who is there; raises `IdentityMismatch` also if another one answered here before."""
        seen: list[Contact] = []
        with self._named():
            found = await self.bus.call(
                self.device.identify,
                timeout_s=self.timeout_s * self.device.identified_by,
                doing=f"{self.name}: identify",
                repeatable=True,
                hurried_s=self.hurried_s,
                prepare=lambda contact, _: seen.append(contact),
            )
        self._accept(found, seen[-1])
        return found

    async def ask(self, question: Callable[[Deadline], T], doing: str, *, urgent: bool = False) -> T:
        """Read something; may be repeated on the line. Raises as `Bus.call` and `identify`."""
        return await self._call(question, doing, repeatable=True, urgent=urgent)

    async def tell(self, command: Callable[[Deadline], T], doing: str) -> T:
        """Write something, sent exactly once. Raises as `Bus.call` and `identify`."""
        return await self._call(command, doing, repeatable=False, urgent=False)

    async def tell_at_all_costs(self, command: Callable[[Deadline], T], doing: str, within_s: float) -> T:
        """Write what makes safe, sent exactly once, within so many wall seconds of its turn.

        A device that stays silent is told all the same (fault 2), see `meet`. Raises as `tell`.
        """
        patience_s = min(self.timeout_s, within_s / 2)

        def press(turn: Turn) -> T:
            self.meet(turn, patience_s)
            return self.exchange(turn, command, patience_s, doing)

        return await self.bus.take_turn(press, f"{self.name}: {doing}")

    # in the bus's thread ------------------------------------------------------------------------------------------

    def exchange(
        self, turn: Turn, work: Callable[[Deadline], T], patience_s: float, doing: str, *, settled: bool = False
    ) -> T:
        with self._named():
            return turn.exchange(work, patience_s, f"{self.name}: {doing}", settled=settled)

    def meet(self, turn: Turn, patience_s: float, *, settled: bool = False) -> bool:
        """Recognise it on the way to safety, if that is called for; whether it is not silent.

        Its answers may be lost while commands arrive: whatever is wrong with the answer, it may be told. Only one that
        answers as another may not, nor one that refuses the question and was never met.

        Raises:
            IdentityMismatch: another instrument answers.
            DeviceFault: it does not know the question.
            PortUnavailable: the line cannot be opened.
        """
        contact = turn.reach()
        if not self.is_strange(contact):
            return True
        self._known_on = None
        try:
            self._accept(self.exchange(turn, self.device.identify, patience_s, "identify", settled=settled), contact)
        except IdentityMismatch:
            raise
        except DeviceFault:
            if self.identity is None:
                raise
        except Exception as error:  # noqa: BLE001 -- no driver's bug keeps a device from safety
            return not isinstance(error, DeviceTimeout)
        return True

    def is_strange(self, contact: Contact) -> bool:
        """Tell whether it must be recognised on the way to safety: the line was opened since, or it was silent."""
        known = self._known_on
        return not self.device.anonymous and (known is None or known.opened != contact.opened or self.silent)

    async def _call(self, work: Callable[[Deadline], T], doing: str, *, repeatable: bool, urgent: bool) -> T:
        def recognise(contact: Contact, hurry: Hurry | None) -> None:
            if self.is_strange(contact) if urgent else self._known_on != contact:
                self._accept(self.device.identify(replace(Deadline.after(self.timeout_s), hurry=hurry)), contact)

        with self._named():
            return await self.bus.call(
                work,
                timeout_s=self.timeout_s,
                doing=f"{self.name}: {doing}",
                repeatable=repeatable,
                urgent=urgent,
                hurried_s=self.hurried_s,
                prepare=recognise,
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A line's errors know unit and register; people know the device by the name they gave it (fault 9)."""
        try:
            yield
        except DeviceError as error:
            self.silent = isinstance(error, DeviceTimeout)
            error.device, error.bus = error.device or self.name, error.bus or self.bus.url
            raise
        self.silent = False

    def _accept(self, found: Identity, contact: Contact) -> None:
        if self.identity is not None and found != self.identity:
            what = f"{found} answers where {self.identity} answered before; nothing was written"
            raise IdentityMismatch(f"{what}. Connect the right instrument", device=self.name, bus=self.bus.url)
        got = None if self.expected is None else Seen.at(self.bus.url, found)
        if got != self.expected:
            raise IdentityMismatch(
                f"{got} answers, expected {self.expected}, which is known to stand there; a value for it goes to no "
                "other. Connect the right instrument; where it was exchanged on purpose, see to it by hand, then "
                f"`rigctl device accept CONFIG {self.name}`, and run again",
                device=self.name,
                bus=self.bus.url,
            )
        self.identity = found
        self._known_on = contact


# several at once --------------------------------------------------------------------------------------------------


def by_line(wrong: Mapping[str, str], handles: Mapping[str, Handle[Any]]) -> dict[str, tuple[list[str], str]]:
    """Return names and words by source: several on one line that give no answer have the line as their one source."""
    lines: dict[str, list[str]] = {}
    for name in wrong:
        lines.setdefault(handles[name].unanswered_on or name, []).append(name)
    alone = {names[0]: (names, wrong[names[0]]) for names in lines.values() if len(names) == 1}
    several = {line: names for line, names in lines.items() if len(names) > 1}
    return alone | {line: (names, f"{', '.join(names)}: {wrong[names[0]]}") for line, names in several.items()}


_WORST_FIRST = (
    *(Tripped, JournalError, GuardRefused, PortHeld, PortUnavailable),
    *(IdentityMismatch, DeviceError, RigctlError),
)


async def together(*tasks: Awaitable[T]) -> list[T]:
    """Run all to their end, then raise what went wrong, if anything did.

    Unlike a TaskGroup it lets the others finish: half a command on one bus is not undone by breaking off another's.
    Cancelling it cancels all.
    """
    results = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [r for r in results if isinstance(r, BaseException)]
    if errors:
        raise combined(errors)
    return [r for r in results if not isinstance(r, BaseException)]


def combined(errors: Sequence[BaseException]) -> BaseException:
    """Make one error of several: the kind of the worst, the messages of all."""
    strangers = [e for e in errors if not isinstance(e, RigctlError) or isinstance(e, ConfigError)]
    if len(errors) == 1 or strangers:
        return (strangers or list(errors))[0]
    ranked = sorted(errors, key=lambda e: next(i for i, kind in enumerate(_WORST_FIRST) if isinstance(e, kind)))
    error = type(ranked[0])("\n".join(dict.fromkeys(map(str, ranked))))
    error.__cause__ = BaseExceptionGroup("all that went wrong", list(errors))
    return error
