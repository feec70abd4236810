"""The dose protocol: a volume is dispensed once, and what became of it is known or booked in full.

caps -> INTENT on disk, with the pump's total before -> sent once -> SENT -> asked until it is over -> DONE with the
actual volume. A dose is never repeated because its answer was lost: what the pump shows and its total say what happened
(see `testimony`), and a pump that may have restarted, or is silent, has the full volume booked against the caps.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from rigctl.errors import (
    DeviceError,
    DeviceFault,
    DeviceTimeout,
    GarbledReply,
    GuardRefused,
    IdentityMismatch,
    ReadBackMismatch,
    Tripped,
    in_words,
)
from rigctl.rig.clocks import Clock
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.guard import DosePermit, Guard
from rigctl.rig.handle import Handle
from rigctl.rig.protocols import Doser, DoseStatus, Reading
from rigctl.rig.testimony import RESOLUTION_ML, Account, most_ml
from rigctl.rig.values import News, OpenDose
from rigctl.text import in_full

FACTOR = 1.25
"""Times volume / rate: a pump slower than this has run past its deadline."""
MARGIN_S = 5.0
"""Added to it, rig seconds."""
FLOOR_S = 2.0
"""And at least this much wall time, for the exchanges themselves."""
EARLY_POLL_S = 2.0
"""Wall seconds between two questions while the dose is not due yet: a pump that restarted, or never began, is noticed
that soon."""
POLL_S = 1.0
"""Rig seconds between two questions once it is."""
SLACK, SLACK_ML = 0.05, 0.1
"""Share of the volume by which a complete dose may differ from the one asked for, and what is added to it."""
DIGITS = 9
"""Of a volume in mL: no pump gives less than a picolitre."""


@dataclass(frozen=True, slots=True)
class _Dose:
    """One dose under way."""

    pump: Handle[Doser]
    id: int
    volume_ml: float
    before_ml: float
    """The pump's total before it."""
    since_s: float = -math.inf
    """Rig time at which that was read."""

    @property
    def expected_s(self) -> float:
        return 60.0 * self.volume_ml / self.pump.device.max_rate_ml_per_min

    @property
    def slack_ml(self) -> float:
        """Return by how much it may differ from what was asked for, and be complete."""
        return SLACK * self.volume_ml + SLACK_ML

    def is_exceeded_by(self, actual_ml: float | None) -> bool:
        return actual_ml is not None and actual_ml > self.volume_ml + self.slack_ml

    def __str__(self) -> str:
        return f"{self.pump.name}: dose {self.id} of {in_full(self.volume_ml)} mL"


class Dispenser:
    """Carries out doses by the protocol; `trip` latches the trip and drives the rig to its safe state.

    `wall` is the wall clock of the deadline's floor, seconds; None: the system's, monotonic.
    """

    def __init__(
        self,
        guard: Guard,
        doses: DoseLog,
        clock: Clock,
        news: News,
        *,
        trip: Callable[[str], Awaitable[object]],
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._guard = guard
        self._doses = doses
        self._clock = clock
        self._news = news
        self._trip = trip
        self._booking = asyncio.Lock()
        """Held from a look at the caps until the intent counts in them: pumps of one tank may dose side by side."""
        self._wall = wall or time.monotonic
        self.turns: dict[str, int] = {}
        """By pump: how many doses it has been asked for; negative from when one is sent until its end is kept."""
        self.stood_at: Callable[[Handle[Doser], Reading], Awaitable[object]] = lambda *_: asyncio.sleep(0)
        """Told of a pump's total before a dose of ours: what it gave by itself up to here is booked first."""

    async def dispense(self, pump: Handle[Doser], volume_ml: float) -> float:
        """Dispense a volume once; returns what was dispensed, mL.

        Cancelled in between, the dose stays open in the log, to be settled by `settle`.

        Raises:
            GuardRefused: over a cap; nothing was sent.
            DeviceFault: the pump refused (booked as 0 mL), or restarted in mid-dose (booked in full).
            DeviceTimeout: the pump cannot be asked how the dose ended (booked in full).
            Tripped: it ran past its deadline and was stopped, or the trip was latched before.
            JournalError: the log cannot be written.
        """
        return (await self.dispense_together([(pump, volume_ml)]))[0]

    async def dispense_together(self, volumes: Sequence[tuple[Handle[Doser], float]]) -> Sequence[float]:
        """Dispense volumes of several pumps as one act, in turn; returns what each dispensed, mL.

        All caps are checked, all pumps asked and all intents on disk before the first moves. Where one fails, or falls
        short, those after it are not begun and booked as nothing; nothing is sent again to set the ratio right.

        Raises as `dispense`, and

        Raises:
            ReadBackMismatch: one of several fell short, so that their ratio does not hold.
        """
        # a share of a cap may come out a hair above it, and of a smallest dose a hair below
        volumes = [(pump, round(volume_ml, DIGITS)) for pump, volume_ml in volumes]
        await self._guard.admit_doses(volumes)  # no pump is asked for what is refused
        since_s, before = self._clock.now_s(), [await self._ready(pump) for pump, _ in volumes]
        async with self._booking:
            permits = await self._guard.admit_doses(volumes)
            doses = [
                _Dose(pump, await self._doses.intend(pump.name, volume_ml, before_ml), volume_ml, before_ml, since_s)
                for (pump, volume_ml), before_ml in zip(volumes, before, strict=True)
            ]
        given: list[float] = []
        for dose, permit in zip(doses, permits, strict=True):
            self.turns[dose.pump.name] = -abs(self.turns.get(dose.pump.name, 0)) - 1
            try:
                given.append(await self._carried_out(dose, permit))
                if len(doses) > 1 and given[-1] < dose.volume_ml - dose.slack_ml:
                    told = f"{dose}: {in_full(given[-1])} mL dispensed, so the ratio to the others is lost"
                    raise ReadBackMismatch(told, devices=[dose.pump.name])
            except (DeviceError, GuardRefused, Tripped) as error:
                begun = doses.index(dose) + 1
                for other in doses[begun:]:
                    await self._doses.done(other.id, 0.0, f"not sent: {error}")
                if len(doses) > 1:
                    told = _imbalance(doses, dose, given[: begun - 1])
                    self._news.major(dose.pump.name, told, kind="ratio lost")
                raise
        return given

    async def _carried_out(self, dose: _Dose, permit: DosePermit) -> float:
        started_s = self._clock.now_s()
        confirmed, refusal = await self._send(dose, permit)
        await self._doses.sent(dose.id)
        status, ran_at_ml = await self._watch(dose)
        if status is None or status.running:
            return await self._overran(dose, ran_at_ml, running=status is not None)
        # over before it can be: the pump may never have begun, and show what it dispensed the time before
        in_time = self._clock.now_s() - started_s >= dose.expected_s / FACTOR
        refusal = refusal or status.fault
        given_ml = await self._given(dose, status, ran_at_ml, timely=confirmed and in_time and not refusal)
        if given_ml is None:
            said = f" after it said {refusal}" if refusal else ""
            why = "the pump restarted in mid-dose" if status.reset else f"it may have restarted{said}"
            raise await self._unknown(dose, why, DeviceFault)
        if refusal and given_ml <= RESOLUTION_ML:  # else it was noise that the pump refused
            raise await self._refused(dose, refusal)
        return await self._done(dose, given_ml)

    async def settle(self, pump: Handle[Doser], left: OpenDose) -> None:
        """Settle a dose whose end was not recorded; never sends one. Raises `JournalError` as `dispense`."""
        dose = _Dose(pump, left.dose, left.volume_ml, left.total_before_ml)
        try:
            status = await pump.ask(pump.device.dose_status, "dose status")
            if status.running:
                status, _ = await self._halt(pump)
            actual_ml = None if status.running else await self._given(dose, status)
        except Exception as error:  # noqa: BLE001 - also a driver's mistake: no trial can be closed before this is
            await self._unknown(dose, f"the pump cannot be asked: {in_words(error)}")
            return
        if status.running:
            await self._unknown(dose, "it still runs and does not stop", at_least_ml=status.dispensed_ml)
            await self._trip(f"{pump.name} does not stop")
            return
        if actual_ml is None:
            await self._unknown(dose, "the pump's total does not show whether it restarted")
            return
        await self._done(dose, actual_ml, "settled afterwards, from the pump's total")

    # the steps of a dose ------------------------------------------------------------------------------------------

    async def _ready(self, pump: Handle[Doser]) -> float:
        """Return the pump's total, mL, if a dose may be sent."""
        await pump.ask(pump.device.ready, "ready")
        status = await pump.ask(pump.device.dose_status, "dose status")
        if status.reset:
            message = "the pump restarted since its last dose; its totals began anew"
            self._news.minor(pump.name, message, kind="restarted")
        if status.running:  # the watch stops and books it; a dose on top would be taken for all of it
            raise DeviceFault("runs although nobody asked it to, so no dose was sent; who is at it?", device=pump.name)
        total = await pump.ask(pump.device.total_volume_ml, "total volume")
        if not total.valid or not math.isfinite(total.value):
            why = f"its total volume cannot be read ({total.detail}), so no dose was sent"
            raise GarbledReply(why, device=pump.name)
        await self.stood_at(pump, total)
        return total.value

    async def _send(self, dose: _Dose, permit: DosePermit) -> tuple[bool, str]:
        """Send it once; tell whether the pump confirmed, and why it seems to refuse."""
        try:
            await self._guard.start_dose(permit)
        except IdentityMismatch as error:
            raise await self._refused(dose, str(error)) from error
        except DeviceFault as error:
            return False, str(error)
        except (Tripped, GuardRefused) as error:
            await self._doses.done(dose.id, 0.0, f"not sent: {error}")
            _over(dose, self.turns)
            raise
        except DeviceError as error:
            message = f"{dose}: unknown whether it runs, not sent again: {error}"
            self._news.minor(dose.pump.name, message, kind="dose unconfirmed")
            return False, ""
        return True, ""

    async def _watch(self, dose: _Dose) -> tuple[DoseStatus | None, float | None]:
        """Ask until the dose is over, has given too much or is overdue; the last answer, and the most it showed, mL."""
        expected_s, now_s = dose.expected_s, self._clock.now_s()
        due_s = now_s + expected_s
        until_s = now_s + FACTOR * expected_s + MARGIN_S
        until_wall_s = self._wall() + FLOOR_S
        early_s = EARLY_POLL_S * self._clock.speedup
        ran_at_ml: float | None = None
        while True:
            left_s = due_s - self._clock.now_s()
            await self._clock.rest(min(early_s, left_s) if left_s > 0 else max(POLL_S, 0.02 * expected_s))
            status = await _status(dose.pump)
            if status is not None and status.running and dose.is_exceeded_by(status.dispensed_ml):
                status = await _status(dose.pump)  # one spoilt answer is no overrun
            if status is not None and (status.reset or not status.running):
                return status, ran_at_ml
            if status is not None:
                ran_at_ml = max(status.dispensed_ml, ran_at_ml or 0.0)
                if dose.is_exceeded_by(ran_at_ml):  # it took in another volume than it was sent
                    return status, ran_at_ml
            if self._clock.now_s() > until_s and self._wall() > until_wall_s:
                return status, ran_at_ml

    async def _given(
        self, dose: _Dose, status: DoseStatus, ran_at_ml: float | None = None, *, timely: bool = False
    ) -> float | None:
        """Return what a dose that is over gave, by all that the pump says; None where it cannot be known."""
        pump = dose.pump
        total: Reading | None = None
        with suppress(DeviceError):  # no testimony
            total = await pump.ask(pump.device.total_volume_ml, "total volume")
            total = total if total.valid and math.isfinite(total.value) else None
        heard = Account(
            asked_ml=dose.volume_ml,
            slack_ml=dose.slack_ml,
            before_ml=dose.before_ml,
            total_ml=None if total is None else total.value,
            most_ml=dose.slack_ml + most_ml(pump.device, self._clock.now_s() - dose.since_s),
            shown_ml=status.dispensed_ml,
            ran_at_ml=ran_at_ml,
            timely=timely,
            reset=status.reset,
        )
        if heard.jumped:
            was, total_ml = in_full(dose.before_ml), in_full(heard.total_ml or 0.0)
            message = f"{dose}: its total went from {was} to {total_ml} mL, more than it can give"
            self._news.major(pump.name, message, kind="total jumped")
        if total is not None:
            await self.stood_at(pump, total)
        return heard.given_ml

    # its possible ends --------------------------------------------------------------------------------------------

    async def _done(self, dose: _Dose, actual_ml: float, note: str = "") -> float:
        await self._doses.done(dose.id, actual_ml, note)
        _over(dose, self.turns)
        if actual_ml < dose.volume_ml - dose.slack_ml:
            self._news.minor(dose.pump.name, f"{dose}: short, {in_full(actual_ml)} mL dispensed", kind="dose short")
        elif dose.is_exceeded_by(actual_ml):
            self._news.major(dose.pump.name, f"{dose}: too much, {in_full(actual_ml)} mL dispensed", kind="dose over")
        return actual_ml

    async def _refused(self, dose: _Dose, why: str) -> DeviceFault:
        """Book nothing; return the error to raise."""
        await self._doses.done(dose.id, 0.0, f"refused: {why}")
        _over(dose, self.turns)
        self._news.minor(dose.pump.name, f"{dose}: refused, 0 mL booked: {why}", kind="dose refused")
        return DeviceFault(f"{dose}: refused by the pump: {why}", devices=[dose.pump.name])

    async def _unknown(
        self, dose: _Dose, why: str, kind: type[DeviceError] = DeviceTimeout, at_least_ml: float = 0.0
    ) -> DeviceError:
        """Book it in full; return the error to raise."""
        await self._doses.unknown(dose.id, max(dose.volume_ml, at_least_ml), why)
        _over(dose, self.turns)
        self._news.major(dose.pump.name, f"{dose}: unknown, booked in full: {why}", kind="dose unknown")
        return kind(f"{dose}: unknown what was dispensed, booked in full: {why}", devices=[dose.pump.name])

    async def _overran(self, dose: _Dose, ran_at_ml: float | None, *, running: bool) -> float:
        """Stop a dose that gave too much, or was `running` or silent up to its deadline; trip if it ran past either.

        A silent one ran past it if it still runs when it is stopped, or has given more than was asked for.
        """
        actual_ml, shown_ml = None, ran_at_ml or 0.0
        past = "gave more than was asked for" if dose.is_exceeded_by(ran_at_ml) else "ran past its deadline"
        try:
            status, ran_on_ml = await self._halt(dose.pump)
            shown_ml = max(shown_ml, ran_on_ml or 0.0, status.dispensed_ml)
            ran_at_ml = ran_at_ml if ran_on_ml is None else max(ran_on_ml, ran_at_ml or 0.0)
            actual_ml = None if status.running else await self._given(dose, status, ran_at_ml)
            running = running or ran_on_ml is not None or dose.is_exceeded_by(actual_ml)
            ended = "does not stop" if status.running else "was stopped"
        except DeviceError as error:
            if not running:
                raise await self._unknown(dose, f"the pump does not answer: {error}") from error
            ended = f"cannot be stopped: {error}"
        if not running and actual_ml is None:
            raise await self._unknown(dose, "the pump was silent, and may have restarted", at_least_ml=shown_ml)
        if actual_ml is None:
            await self._unknown(dose, f"it {past} and {ended}", at_least_ml=shown_ml)
        else:
            await self._done(dose, actual_ml)
            if not running:
                return actual_ml
        reason = f"{dose}: {past} and {ended}"
        await self._trip(reason)
        raise Tripped(reason, "Look at the pump")

    async def _halt(self, pump: Handle[Doser]) -> tuple[DoseStatus, float | None]:
        """Stop the pump, twice if need be; what it says then, and the most it showed if the first stop failed, mL."""
        status = await self._stopped(pump)
        if not status.running:
            return status, None
        try:
            again = await self._stopped(pump)
        except DeviceError:  # the last that is known of it is that it runs
            return status, status.dispensed_ml
        return replace(again, reset=status.reset or again.reset), status.dispensed_ml

    async def _stopped(self, pump: Handle[Doser]) -> DoseStatus:
        with suppress(DeviceTimeout):  # no sign that it arrived: the pump is asked all the same
            await self._guard.stop(pump, within_s=2 * pump.timeout_s)
        return await pump.ask(pump.device.dose_status, "dose status", urgent=True)


async def _status(pump: Handle[Doser]) -> DoseStatus | None:
    try:
        return await pump.ask(pump.device.dose_status, "dose status")
    except DeviceError:
        return None  # asked again until the deadline, which is what decides


def _over(dose: _Dose, turns: dict[str, int]) -> None:
    turns[dose.pump.name] = abs(turns.get(dose.pump.name, 0))


def _imbalance(doses: Sequence[_Dose], failed: _Dose, before: Sequence[float]) -> str:
    """Tell what became of an act of several pumps, one of which has failed after others gave what they gave."""
    gave = [*map(in_full, before), *["nothing"] * len(doses)]
    others = [(d, ml) for d, ml in zip(doses, gave, strict=False) if d is not failed]
    told = [f"{d.pump.name} gave {ml} of {in_full(d.volume_ml)} mL" for d, ml in others]
    return f"{failed}: failed, and {', '.join(told)}; the ratio does not hold in this trial and is not mended"
