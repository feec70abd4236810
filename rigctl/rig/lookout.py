"""What the watch asks of the rig, beside the trial and in turn with it: sensors, driven actuators, idle pumps.

One round at a time per bus, and never more than a third of a bus's time. Whoever wants to know is told what is known;
nobody waits for an instrument.
"""

from __future__ import annotations

import asyncio
import math
import time
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from rigctl.errors import DeviceError, DeviceFault, RigctlError, in_words
from rigctl.rig.bus import Bus
from rigctl.rig.clocks import Clock
from rigctl.rig.dead_man import feed, hearts
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle, by_line
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import Actuator, Device, Doser, Heart, Reading
from rigctl.rig.spec import WatchSpec
from rigctl.rig.testimony import RESOLUTION_ML, most_ml
from rigctl.rig.values import News, RigGlance, SeenReading
from rigctl.rig.wiring import Wiring
from rigctl.text import in_full

PUMPS_EVERY_S = 3.0
"""Wall seconds between two looks at a pump that nothing was asked of."""
REMEMBERED_S = 30.0
"""Wall seconds for which a pump that ran by itself stays an objection."""
SILENT_S = 10.0
"""Wall seconds without an answer, after which a driven actuator counts as one that does not hold."""
STRAY_ML = 0.05
"""What a pump's total may rise by unasked: its resolution, a few times over."""
SHOWN_S = 0.2
"""Wall seconds within which an actuator shows what it does."""
BUS_SHARE = 1 / 3


@dataclass(slots=True)
class _Beat:
    """The beat of one bus: what it carries, and when it was last looked at; wall seconds."""

    probes: list[Probe] = field(default_factory=list)
    actuators: list[Handle[Actuator]] = field(default_factory=list)
    pumps: list[Handle[Doser]] = field(default_factory=list)
    round: asyncio.Task[None] | None = None
    next_s: float = -math.inf
    pumps_next_s: float = -math.inf
    spacing_s: float = 0.0
    """From one round to the next while everything on the bus answered."""


@dataclass(slots=True)
class Lookout:
    """Keeps looking at one rig; mutable, used in the event loop only.

    Args:
        driven: actuators that hold a value now, confirmed or at least acknowledged.
        denial: what an actuator says instead of holding a value; empty if it does.
        dosing: pumps with a dose of ours under way, or not settled yet.
        unsafe: what the last attempt to make everything safe left unconfirmed; meanwhile no watchdog is fed.
    """

    wiring: Wiring
    spec: WatchSpec
    guard: Guard
    doses: DoseLog
    clock: Clock
    driven: Callable[[], Mapping[str, float]]
    denial: Callable[[Handle[Actuator], float], Awaitable[str]]
    dosing: Callable[[], Mapping[str, int]]
    unsafe: Callable[[], Collection[str]]
    news: News
    _beats: defaultdict[Bus, _Beat] = field(default_factory=lambda: defaultdict(_Beat))
    _asked_s: dict[str, float] = field(default_factory=dict)
    _unanswered_s: dict[str, float] = field(default_factory=dict)
    """Driven actuators that were asked and have not answered since: from when, wall time. A slow bus is no silence."""
    _astray: dict[str, str] = field(default_factory=dict)
    _strays: dict[str, tuple[float, str]] = field(default_factory=dict)
    _totals: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    """By pump: how many doses it had been asked for, its total then, mL, and when that was, rig time."""
    _broken: set[str] = field(default_factory=set)
    _fed: Mapping[str, tuple[Handle[Device], Heart]] = field(default_factory=dict)
    """By device: what feeds a watchdog in it. A look of the watch begins each round: a loop that hangs feeds none."""
    _fed_s: dict[str, float] = field(default_factory=dict)
    _unfed: dict[str, str] = field(default_factory=dict)
    """Watchdogs that do not work, and what they say."""
    _quiet: set[Bus] = field(default_factory=set)
    """Told of as lines, until nothing on them is stale any more."""

    def __post_init__(self) -> None:
        self._fed = hearts(self.wiring.handles)
        for handle, _ in self._fed.values():
            self._beats[handle.bus]  # looked at, whatever else it carries
        for probe in (*self.wiring.probes, *self.wiring.watched):
            self._beats[probe.handle.bus].probes.append(probe)
        for actuator in self.wiring.actuators.values():
            self._beats[actuator.bus].actuators.append(actuator)
        for pump in self.wiring.dosers.values():
            self._beats[pump.bus].pumps.append(pump)

    def glance(self) -> RigGlance:
        """Return what is known now; begins the rounds that are due, and waits for none."""
        now_s = time.monotonic()
        for bus, beat in self._beats.items():
            if (beat.round is None or beat.round.done()) and now_s >= beat.next_s:
                beat.round = asyncio.get_running_loop().create_task(self._round(bus, beat))
        readings = {p.name: self._seen(p, now_s) for p in (*self.wiring.probes, *self.wiring.watched)}
        return RigGlance(
            readings=readings,
            quiet={bus.url: tuple(names) for bus, names in self._on_quiet_lines(readings)},
            astray={**self._silent(now_s), **self._astray, **(self._unfed if self.driven() else {})},
            strays={n: why for n, (at_s, why) in self._strays.items() if now_s - at_s < REMEMBERED_S},
            steps={p.name: f"{p.name} {p.record.step}" for p in self.wiring.probes if p.record.step},
            driven=dict(self.driven()),
            stuck={bus.url: bus.stuck for bus in self._beats if bus.stuck},
            exchanges={bus.url: (bus.failed_exchanges, bus.repeated_reads) for bus in self._beats},
        )

    async def close(self) -> None:
        rounds = [beat.round for beat in self._beats.values() if beat.round is not None]
        for task in rounds:
            task.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)

    # one round over a bus -------------------------------------------------------------------------------------------

    async def _round(self, bus: Bus, beat: _Beat) -> None:
        """Ask all that is due; a device that does not answer keeps no other from being asked."""
        began_s, answered, aside = time.monotonic(), True, self.wiring.aside
        fed = [fed for name, fed in self._fed.items() if fed[0].bus is bus and self._beats_now(name, began_s)]
        due: list[Callable[[], Awaitable[object]]] = [partial(self._feed, *one) for one in fed]
        due += [partial(self._confirm, actuator) for actuator in beat.actuators if actuator.name not in aside]
        if began_s >= beat.pumps_next_s:
            beat.pumps_next_s = began_s + PUMPS_EVERY_S
            due += [partial(self._idle, pump) for pump in beat.pumps if pump.name not in aside]
        due += [probe.read for probe in beat.probes if self._due(probe, began_s)]
        for ask in due:
            try:
                await ask()
            except DeviceError:  # said by the line itself, and shown by the age of what is known
                answered = False
            except Exception as error:  # noqa: BLE001 - a plug-in's mistake must not end the watch over the others
                self._tell_once(bus, error)
                answered = False
        took_s = time.monotonic() - began_s
        spacing_s = max(self.spec.every_s, took_s / BUS_SHARE)
        beat.next_s = began_s + spacing_s
        if answered:
            beat.spacing_s = spacing_s

    def _beats_now(self, name: str, now_s: float) -> bool:
        """Tell whether a watchdog is to be fed; a heartbeat is a moment early rather than late."""
        due_s = self._fed_s.get(name, -math.inf) + self._fed[name][1].every_s - self.spec.every_s / 2
        if name in self.wiring.aside or self.unsafe() or now_s < due_s:
            return False
        self._fed_s[name] = now_s
        return True

    async def _feed(self, handle: Handle[Device], heart: Heart) -> None:
        """Feed a watchdog; one that says that it does not work is an objection to what is driven, until it does."""
        try:
            await feed(handle, heart)
        except DeviceFault as fault:
            self._unfed[handle.name] = f"{handle.name}: its watchdog does not work: {fault.what}"
            raise
        self._unfed.pop(handle.name, None)

    def _tell_once(self, bus: Bus, error: Exception) -> None:
        if bus.url not in self._broken:
            self._broken.add(bus.url)
            message = f"the watch cannot look: {in_words(error)}"
            self.news.major(bus.url, message, "".join(traceback.format_exception(error)), kind="watch blind")

    def _due(self, probe: Probe, now_s: float) -> bool:
        every_s = probe.rules.watch_every_s
        if every_s is None:
            return False
        last_s = self._asked_s.get(probe.name, -math.inf)
        if probe.record.valid_s is not None:  # the trial's own readings count, too
            last_s = max(last_s, probe.record.valid_s)
        if now_s - last_s < every_s:
            return False
        self._asked_s[probe.name] = now_s
        return True

    async def _confirm(self, actuator: Handle[Actuator]) -> None:
        """A driven actuator holds what it was sent; one denial is asked again, the second counts."""
        name = actuator.name
        wanted = self.driven().get(name)
        if wanted is None:
            self._astray.pop(name, None)
            self._unanswered_s.pop(name, None)
            return
        denied = ""
        for _ in range(2):
            self._unanswered_s.setdefault(name, time.monotonic())
            denied = await self.denial(actuator, wanted)
            self._unanswered_s.pop(name, None)
            if self.driven().get(name) != wanted:  # it was told something else meanwhile
                return
            if not denied:
                self._astray.pop(name, None)
                return
            await asyncio.sleep(SHOWN_S)
        self._astray[name] = f"{name} {denied}: is another program or hand at it?"

    def _silent(self, now_s: float) -> dict[str, str]:
        """Object to what is driven and has not answered for long; to its line, where others on it have not either."""
        driven, asked = self.driven(), self._unanswered_s
        for name in asked.keys() - driven.keys():  # let go since: its silence begins anew when it is driven again
            del asked[name]
        why = {n: f"{n} has not answered for {now_s - s:.0f} s; it is not known to hold" for n, s in asked.items()}
        told = by_line(why, self.wiring.actuators).items()
        return {source: what for source, (names, what) in told if now_s - min(asked[n] for n in names) > SILENT_S}

    def _on_quiet_lines(self, readings: Mapping[str, SeenReading]) -> Iterator[tuple[Bus, list[str]]]:
        """Yield lines whose sensors went stale together, and which these are."""
        for bus, beat in self._beats.items():
            names = [p.name for p in beat.probes if readings[p.name].must_be_fresh]
            stale_s = max((readings[n].age_s for n in names if readings[n].too_old), default=math.inf)
            alike = len(names) > 1 and 2 * min(readings[n].age_s for n in names) >= stale_s
            if alike or (bus in self._quiet and stale_s < math.inf):
                self._quiet.add(bus)
                yield bus, names
            else:
                self._quiet.discard(bus)

    async def _idle(self, pump: Handle[Doser]) -> None:
        """A pump that nothing was asked of stands still; one that runs is stopped, and what it dispensed is booked."""
        ours = self.dosing().get(pump.name, 0)
        if ours < 0:  # a dose of ours is under way
            return
        status = await pump.ask(pump.device.dose_status, "dose status")
        if self.dosing().get(pump.name, 0) != ours:
            return
        if status.running:
            await self._stop(pump)
            still = await pump.ask(pump.device.dose_status, "dose status")  # what it gave until it stood still
            given_ml = max(status.dispensed_ml, still.dispensed_ml)
            status = replace(status, dispensed_ml=given_ml, reset=status.reset or still.reset)
        if status.reset:  # told once, to whoever asks first
            message = "the pump restarted; its totals began anew. Is its supply strong enough?"
            self.news.minor(pump.name, message, kind="restarted")
        total = await pump.ask(pump.device.total_volume_ml, "total volume")
        if self.dosing().get(pump.name, 0) != ours or not total.valid:
            return
        await self._book(pump, ours, total, status.dispensed_ml if status.running else 0.0, ran=status.running)

    async def book_unasked(self, pump: Handle[Doser], total: Reading) -> None:
        """Book what a pump has given by itself since it was looked at last, by its total before or after a dose."""
        await self._book(pump, abs(self.dosing().get(pump.name, 0)), total, 0.0, ran=False)

    async def _stop(self, pump: Handle[Doser]) -> None:
        """Stop it; what cannot be stopped or asked what it dispensed is an objection all the same."""
        why = f"{pump.name} runs, though nobody asked for it"
        told_s, _ = self._strays.get(pump.name, (-math.inf, ""))
        self._strays[pump.name] = (time.monotonic(), why)
        if time.monotonic() - told_s > REMEMBERED_S:
            self.news.major(pump.name, f"{why}: stopping it. Is another program or hand at it?", kind="unasked run")
        await self.guard.stop(pump, within_s=pump.timeout_s)

    async def _book(self, pump: Handle[Doser], ours: int, total: Reading, running_ml: float, *, ran: bool) -> None:
        now_s, known = self.clock.now_s(), self._totals.get(pump.name)
        risen_ml = running_ml
        if known is not None and known[0] == ours:
            fell = total.value < known[1] - RESOLUTION_ML  # it restarted, and has given all of its total since
            risen_ml = total.value - (0.0 if fell else known[1])
            if not ran and not fell and risen_ml <= STRAY_ML:  # what drips adds up
                return
            if risen_ml > STRAY_ML + most_ml(pump.device, now_s - known[2]):
                why = f"its total went from {in_full(known[1])} to {in_full(total.value)} mL, more than it can give"
                self.news.major(pump.name, why, kind="total jumped")
                risen_ml = running_ml
        self._totals[pump.name] = (ours, total.value, now_s)
        if not ran and risen_ml <= STRAY_ML:
            return
        risen_ml = max(risen_ml, 0.0)
        why = f"{pump.name} dispensed {risen_ml:.2f} mL that nobody asked for"
        self._strays[pump.name] = (time.monotonic(), why)
        stopped = "; it was stopped" if ran else ""
        message = f"{why}{stopped}. Is another program or hand at it?"
        self.news.major(pump.name, message, kind="unasked volume")
        try:
            await self.doses.found(pump.name, risen_ml, max(total.value - risen_ml, 0.0))
        except RigctlError as error:
            message = f"{why}, and it could not be booked: {error}"
            self.news.major(pump.name, message, kind="not booked")

    def _seen(self, probe: Probe, now_s: float) -> SeenReading:
        record, rules = probe.record, probe.rules
        asked_s = now_s if record.asked_s is None else record.asked_s
        age_s = now_s - (asked_s if record.valid_s is None else record.valid_s)
        stale_after_s = rules.stale_after_s
        if rules.watch_every_s is not None and stale_after_s is None:
            # a slow bus that is well looks less often than it is asked to; one that is not well is given no more time
            spacing_s = self._beats[probe.handle.bus].spacing_s
            stale_after_s = max(3 * rules.watch_every_s, 2 * spacing_s) + probe.handle.timeout_s
        same_s = 0.0 if record.valid is None else record.valid.time_s - record.same_since_s
        return SeenReading(
            value=None if record.valid is None else record.valid.value,
            unit=probe.handle.device.unit,
            age_s=age_s,
            same_for_s=same_s,
            detail=record.detail,
            stale_after_s=None if rules.watch_every_s is None else stale_after_s,
            frozen_after_s=rules.frozen_after_s,
            must_be_fresh=rules.watch_every_s is not None and rules.stale_after_s is not None,
        )
