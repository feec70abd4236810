"""A device on its bus: asked (repeatable) or told (once), and recognised before either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rigctl.errors import DeviceError, DeviceTimeout, GarbledReply, IdentityMismatch
from rigctl.rig.bus import Bus
from rigctl.rig.protocols import Deadline, Device, Identity

D = TypeVar("D", bound=Device)
T = TypeVar("T")


class Handle(Generic[D]):
    """One device, reached through its bus.

    Whenever the line was (re)opened, the device is identified before anything else is said to it: after a replug
    another instrument may answer on the same port, and nothing may be written to that one.
    """

    def __init__(self, name: str, device: D, bus: Bus, timeout_s: float) -> None:
        self.name = name
        self.device = device
        self.bus = bus
        self.timeout_s = timeout_s
        self.identity: Identity | None = None
        self._known_on = 0

    async def identify(self) -> Identity:
        """Ask who is there.

        Raises:
            IdentityMismatch: not what the driver drives, or not what answered here before.
            DeviceError: it does not answer.
        """
        seen: list[int] = []
        with self._named():
            found = await self.bus.call(
                self.device.identify,
                timeout_s=self.timeout_s,
                doing=f"{self.name}: identify",
                repeatable=True,
                prepare=seen.append,
            )
        self._accept(found, seen[-1])
        return found

    async def ask(self, question: Callable[[Deadline], T], doing: str, *, urgent: bool = False) -> T:
        """Read something; may be repeated on the line. Raises as `Bus.call` and `identify`."""
        return await self._call(question, doing, repeatable=True, urgent=urgent)

    async def tell(self, command: Callable[[Deadline], T], doing: str, *, urgent: bool = False) -> T:
        """Write something, sent exactly once. Raises as `Bus.call` and `identify`."""
        return await self._call(command, doing, repeatable=False, urgent=urgent)

    async def tell_at_all_costs(self, command: Callable[[Deadline], T], doing: str, within_s: float) -> T:
        """Write what makes safe, sent exactly once, within so many wall seconds of its turn.

        A device that was recognised before and now stays silent is told all the same (fault 2): its answers may be
        lost while commands arrive. One that answers as another is not. Raises as `tell`.
        """
        patience_s = min(self.timeout_s, within_s / 2)

        def recognise_if_it_answers(generation: int) -> None:
            try:
                self._recognise(generation, patience_s)
            except (DeviceTimeout, GarbledReply):
                if self.identity is None:
                    raise

        with self._named():
            return await self.bus.call(
                command,
                timeout_s=patience_s,
                doing=f"{self.name}: {doing}",
                urgent=True,
                prepare=recognise_if_it_answers,
            )

    async def _call(self, work: Callable[[Deadline], T], doing: str, *, repeatable: bool, urgent: bool) -> T:
        with self._named():
            return await self.bus.call(
                work,
                timeout_s=self.timeout_s,
                doing=f"{self.name}: {doing}",
                repeatable=repeatable,
                urgent=urgent,
                prepare=lambda generation: self._recognise(generation, self.timeout_s),
            )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """A line's errors know unit and register; people know the device by the name they gave it (fault 9)."""
        try:
            yield
        except DeviceError as error:
            if self.name not in str(error):
                error.args = (f"{self.name}: {error}",)
            raise

    def _recognise(self, generation: int, patience_s: float) -> None:
        """In the bus's thread: who answers on a line opened since we last spoke?"""
        if self._known_on != generation:
            self._accept(self.device.identify(Deadline.after(patience_s)), generation)

    def _accept(self, found: Identity, generation: int) -> None:
        if self.identity is not None and found != self.identity:
            raise IdentityMismatch(
                f"{self.name} on {self.bus.url}: {found} answers where {self.identity} answered before; "
                f"nothing was written. Connect the right instrument"
            )
        self.identity = found
        self._known_on = generation
