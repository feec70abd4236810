"""The journal's thread: the event loop asks, one worker thread writes, so an fsync never delays the watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from rigctl.campaign.journal.database import guarded
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.lock import Held
from rigctl.errors import JournalUnwritable
from rigctl.rig.dose_log import Unanswered
from rigctl.rig.limits import DAY_S

P = ParamSpec("P")
T = TypeVar("T")


class JournalThread:
    """One journal and the one thread that uses it. Calls are carried out in the order they are made.

    A caller that is cancelled may leave its call to be carried out all the same: what is in the journal counts, not
    what the caller saw of it.
    """

    def __init__(self, make: Callable[[], Journal]) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._asked_s: dict[Future[Any], float] = {}
        self._unwritten = ""
        try:
            self._journal = self._executor.submit(make).result()
            self._file = Held.of(self._journal.path)
        except BaseException:
            self._executor.shutdown()
            raise

    def submit(self, work: Callable[Concatenate[Journal, P], T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have `work(journal, ...)` done, without waiting for it; may be called from any thread."""

        def guarded_work() -> T:
            try:
                with guarded(self._journal.path):
                    connection = self._journal.past.connection
                    before = connection.total_changes
                    result = work(self._journal, *args, **kwargs)
                    if connection.total_changes != before:
                        self._unwritten = ""
                    return result
            except JournalUnwritable as error:
                self._unwritten = str(error)
                raise

        asked_s = time.monotonic()
        future = self._executor.submit(guarded_work)
        self._asked_s[future] = asked_s
        future.add_done_callback(lambda done: self._asked_s.pop(done, None))
        return future

    def oldest_call_s(self) -> float:
        """Return the wall seconds that the oldest call has been waiting or under way; 0: there is none (fault 74)."""
        oldest_s = min(list(self._asked_s.values()), default=None)
        return 0.0 if oldest_s is None else time.monotonic() - oldest_s

    def still_there(self) -> str:
        """Say what is wrong with the journal's file: deleted, or not written when last tried (fault 68).

        Does not wait for the journal's thread.
        """
        return self._file.trouble() or self._unwritten

    async def call(self, work: Callable[Concatenate[Journal, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `work(journal, ...)` returns, once what it wrote is on disk.

        Raises:
            JournalUnwritable, JournalCorrupt, JournalError: it could not be done.
        """
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    def close(self) -> None:
        try:
            self._executor.submit(self._journal.close).result()
        finally:
            self._executor.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JournalDoseLog:
    """`rigctl.rig.protocols.DoseLog` kept in the journal.

    `told` is called with every settled dose of this process: the pump, the dose's volume and the pump's of 24 h, mL.
    """

    def __init__(self, thread: JournalThread, told: Callable[[str, float, float], object] = lambda *_: None) -> None:
        self._thread = thread
        self._told = told
        self._open: dict[int, str] = {}

    async def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        """Record the intent, before anything is sent, and return the dose's id."""
        dose = await self._thread.call(lambda j: j.doses.intend(actuator, volume_ml, total_before_ml))
        self._open[dose] = actuator
        return dose

    async def sent(self, dose: int) -> None:
        await self._thread.call(lambda j: j.doses.sent(dose))

    async def done(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle a dose: this volume was dispensed."""
        await self._settle(dose, "DONE", volume_ml, note)

    async def unknown(self, dose: int, volume_ml: float, note: str) -> None:
        """Settle a dose pessimistically: the full volume is booked."""
        await self._settle(dose, "UNKNOWN", volume_ml, note)

    async def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        """Book what a pump gave though nobody asked it to."""

        def book(journal: Journal) -> float:
            journal.doses.found(actuator, volume_ml, total_before_ml)
            return _day_ml(journal, actuator)

        self._told(actuator, volume_ml, await self._thread.call(book))

    async def _settle(self, dose: int, state: Literal["DONE", "UNKNOWN"], volume_ml: float, note: str) -> None:
        actuator = self._open.get(dose, "")

        def settle(journal: Journal) -> float:
            journal.doses.settle(dose, state, volume_ml, note)
            return _day_ml(journal, actuator)

        day_ml = await self._thread.call(settle)
        if self._open.pop(dose, ""):
            self._told(actuator, volume_ml, day_ml)

    async def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:
        """Return the volume of all doses of these pumps since this rig time (None: of the trial under way)."""
        return await self._thread.call(lambda j: j.doses.given_ml(pumps, since_s))

    async def answered(self, actuator: str, probe: str, *, moved: float, expected: float, answered: bool) -> None:
        """Record what the last dose of this pump did to the reading that judges it, the probe's units."""
        await self._thread.call(lambda j: j.doses.answered(actuator, probe, moved, expected, answered=answered))

    async def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """Return the doses since the last that this probe answered, over all trials, the forgiven ones left out."""
        return await self._thread.call(lambda j: j.doses.unanswered(actuator, probe))


def _day_ml(journal: Journal, actuator: str) -> float:
    return journal.doses.given_ml([actuator], journal.time.clock.now_s() - DAY_S)
