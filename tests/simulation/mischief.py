"""What goes wrong while the controller runs, and what people ask of it: when and how much of it, the seed decides.

Most of it is `sim_rig`'s own fault injection, asked for as its control socket would be. What is begun is undone again,
so that a campaign has a chance to go on; whether it takes it is looked at, too.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rigctl.errors import RigctlError
from sim_rig.errors import SimError
from sim_rig.faults import BYTE_FAULTS, MODBUS_FAULTS
from sim_rig.rigs.assembly import PLC
from tests.simulation.aims import Aims
from tests.simulation.controller import Controller, Running
from tests.simulation.disk import Disk
from tests.simulation.kernel import Kernel
from tests.simulation.plant import Plant

Undo = Callable[[], object]
DISK_S = 0.004
"""A commit takes about so long."""
CALLED_FOR = {"network": 0.5, "silence": 0.25, "unplug": 0.1}
"""What somebody may see on the page and end the campaign for, and how often."""
AMOUNTS = {0.0: 4, 2.0: 2, 8.0: 3, 20.0: 1}
"""How much goes wrong in a life, besides its end, and how often; in a quiet one everything may be demanded."""
AIMED = 0.7
"""How often something waits for its moment from the start of a life on in which anything goes wrong."""
FEW = 4
"""Kinds of trouble in a life that has only some: of what comes together, pairs are rare where all may come."""
STRANGERS = {"ph": "?I,EC,SIM2.10", "ca": "?I,pH,SIM2.14", "acid": "?I,RTD,SIM2.02"}
"""Who may answer on a line in an instrument's place."""


class Means:
    """What trouble is made with; `dirty_until_s` says until when nothing can be demanded of the rig's lines."""

    def __init__(self, kernel: Kernel, plant: Plant, disk: Disk, controller: Controller, draw: random.Random) -> None:
        self.kernel = kernel
        self.plant = plant
        self.disk = disk
        self.controller = controller
        self.draw = draw
        self.done: Counter[str] = Counter()
        self.listeners: list[Callable[[str, Mapping[str, object]], None]] = []
        """Told of everything that begins, before it is traced."""
        self.dirty_until_s = 0.0
        self.disk_spells: list[tuple[float, float]] = []
        """From when to when something was wrong with the disk."""
        self.disk_until_s = 0.0
        self.hand_at_s = -1e9
        """When somebody else last touched an actuator."""
        self.touched: dict[str, float] = {}
        """Actuators that somebody else has switched since they were made safe, and when: a person may, at a pause."""
        self._slow_s = 0.0
        self._failing = False
        """Whether the disk gives errors."""
        self._undo: list[Undo] = []
        controller.commit_s = self._commit_s

    def end(self) -> None:
        """End all that was begun."""
        while self._undo:
            self._undo.pop()()
        self.plant.desk.clear()

    def _lasts(self, undo: Undo, lasts_s: float) -> None:
        """Undo it after so long, and have nothing demanded until then."""
        self._undo.append(undo)
        self.kernel.after(lasts_s, lambda: self._over(undo))
        self._dirty(lasts_s)

    def _over(self, undo: Undo) -> None:
        if undo in self._undo:
            self._undo.remove(undo)
            undo()

    def _dirty(self, seconds: float) -> None:
        self.dirty_until_s = max(self.dirty_until_s, self.kernel.now_s + seconds)

    def _tell(self, what: str, **more: object) -> None:
        for listener in self.listeners:
            listener(what, more)
        self.done[what] += 1
        told = ", ".join(f"{key} {value}" for key, value in more.items())
        self.kernel.trace(f"{self.kernel.now_s:.6f} mischief: {what} {told}")

    def _ask(self, **request: Any) -> None:
        self._tell(request["fault"], **{key: value for key, value in request.items() if key != "fault"})
        self.plant.ask(**request)


class AtLines(Means):
    """Trouble between the controller and its instruments."""

    def _wire(self) -> None:
        bus = self.draw.choice(list(self.plant.cables))
        kinds = [*BYTE_FAULTS, *(MODBUS_FAULTS if bus in self.plant.assembly.stations else ())]
        kinds += ["reset"] if bus == PLC else []
        kind, count = self.draw.choice(kinds), self.draw.choice((1, 1, 1, 2, 3, 8))
        seconds = 10.0 ** self.draw.uniform(-2.0, 0.7)
        self._ask(fault=kind, bus=bus, count=count, seconds=round(seconds, 3))
        self._dirty(30.0)

    def _silence(self) -> Undo:
        bus = self.draw.choice(list(self.plant.cables))
        self._ask(fault="drop_reply", bus=bus, count=-1)
        return self.plant.assembly.wire_faults[bus].clear

    def _unplug(self) -> Undo | None:
        bus = self.draw.choice(list(self.plant.serial))
        cable = self.plant.serial[bus]
        if not cable.plugged:
            return None
        self._ask(fault="unplug", bus=bus)
        return lambda: None if cable.plugged else cable.open()

    def _network(self) -> Undo:
        tcp = self.plant.tcp
        if self.draw.random() < 0.5:
            self._ask(fault="half_open", on=True)
            return lambda: setattr(tcp, "deaf", False)
        self._tell("network down")
        tcp.unplug()
        return lambda: setattr(tcp, "plugged", True)

    def _words(self) -> Undo:
        self._ask(fault="word_swap", bus=PLC, on=True)
        return lambda: self.plant.ask(fault="word_swap", bus=PLC, on=False)


class AtInstruments(AtLines):
    """Trouble with the instruments themselves."""

    def _sensor(self) -> Undo:
        name = self.draw.choice(list(self.plant.assembly.sensors))
        mode = self.draw.choice(("nan", "frozen", "zero", "fullscale", "offset"))
        self._ask(fault="sensor", name=name, mode=mode, offset=0.5)
        return lambda: self.plant.ask(fault="sensor", name=name, mode="ok")

    def _exchange(self) -> Undo | None:
        there = [bus for bus in self.plant.serial if bus in STRANGERS]
        if not there:
            return None
        bus = self.draw.choice(there)
        before = self.plant.desk._set_identity(bus, STRANGERS[bus])
        if before == STRANGERS[bus]:
            return None
        self._tell("exchanged", bus=bus)

        def back() -> None:
            self.plant.desk._set_identity(bus, before)
            self._tell("exchanged back", bus=bus)  # up to here nothing could be asked of it

        return back

    def _pump(self) -> Undo | None:
        pumps = list(self.plant.assembly.pumps)
        if not pumps:
            return None
        bus = self.draw.choice(pumps)
        kind = self.draw.choice(
            ("pump_reset", "restart", "button", "dstart", "dry", "short", "stuck", "unpowered", "weak")
        )
        if kind in ("pump_reset", "restart"):
            self._ask(fault=kind, bus=bus)
        elif kind == "button":
            self.hand_at_s = self.kernel.now_s
            self._ask(fault=kind, bus=bus, ml=round(self.draw.uniform(0.6, 30.0), 2))
        elif kind == "dstart":
            self.hand_at_s = self.kernel.now_s
            self._ask(fault=kind, bus=bus, ml=round(self.draw.uniform(0.6, 20.0), 2))
            self.plant.ask(fault="pump_reset", bus=bus)
            self.plant.ask(fault=kind, bus=bus, ml=0.0)
        else:
            given = round(self.draw.uniform(0.1, 0.9), 2) if kind == "short" else True
            good = 1.0 if kind == "short" else False
            self._ask(fault="pump", bus=bus, **{kind: given})
            return lambda: self.plant.ask(fault="pump", bus=bus, **{kind: good})
        self._dirty(30.0)
        return None

    def _meter(self) -> Undo | None:
        kind = self.draw.choice(("energy_reset", "jump_kwh", "energy_unit"))
        if kind == "energy_unit":
            self._ask(fault=kind, **{"as": "MWh"})
            return lambda: self.plant.ask(fault=kind, **{"as": "kWh"})
        self._ask(fault=kind, **({"kwh": self.draw.choice((-3.0, 2.0, 1e6))} if kind == "jump_kwh" else {}))
        return None

    def _hand(self) -> None:
        """Switch an actuator as another program or a person at its panel would; mostly one that runs."""
        plant = self.plant.assembly.plant
        channels = plant.channels
        rig = self.controller.spec.rig
        switched = {v.name: v.actuator for v in rig.variables if v.actuator and v.actuator not in rig.pumps}
        self.plant.assembly.sync()
        running = [name for name in switched if channels[name].enabled]
        name = self.draw.choice(running if running and self.draw.random() < 0.7 else list(switched))
        channels[name].enabled = not channels[name].enabled
        self.touched[switched[name]] = self.kernel.now_s
        self.hand_at_s = self.kernel.now_s
        self._tell("other hand", variable=name, on=channels[name].enabled)
        self._dirty(30.0)


class AtComputer(AtInstruments):
    """Trouble with what the controller runs on."""

    def _commit_s(self) -> float:
        late_s = DISK_S * self.draw.expovariate(1.0)
        return late_s + self._slow_s

    def _disk_full(self) -> Undo:
        self._tell("disk full")
        self.disk.full = True
        return lambda: setattr(self.disk, "full", False)

    def _disk_slow(self) -> Undo:
        self._slow_s = 10.0 ** self.draw.uniform(-0.5, 1.2)
        self._tell("disk slow", seconds=round(self._slow_s, 2))
        return lambda: setattr(self, "_slow_s", 0.0)

    def _disk_error(self) -> Undo | None:
        if self._failing:  # two at a time would not end in the order they began in
            return None
        self._tell("disk error")
        self._failing = True
        before = self.disk.on_operation

        def failing(operation: str, name: str) -> None:
            before(operation, name)
            if self.draw.random() < 0.3:
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)

        def undo() -> None:
            self.disk.on_operation, self._failing = before, False

        self.disk.on_operation = failing
        return undo

    def _decider(self) -> Undo:
        self._tell("decider silent")
        self.controller.silent = lambda: self.draw.random() < 0.7
        return lambda: setattr(self.controller, "silent", lambda: False)

    def _clock(self) -> None:
        # one that has lost its battery finds out late what day it is
        days = 86400.0 * self.draw.choice((1.0, 1.5, 30.0))
        self._set_clock(self.draw.choice((-1, 1)) * self.draw.choice((days, 10.0 ** self.draw.uniform(0.0, 6.0))))

    def _set_clock(self, by_s: float) -> None:
        self._tell("clock set", by_s=round(by_s))
        self.kernel.computer.civil_at_zero_s += by_s

    def clock_lost(self) -> None:
        """Have the clock begin anywhere in the past, as without a battery, until the network says what time it is."""
        behind_s = self.draw.choice((10.0 ** self.draw.uniform(2.0, 6.0), 20.0 * 365.25 * 86400.0))
        self._set_clock(-behind_s)
        self.kernel.after(10.0 ** self.draw.uniform(0.5, 2.5), lambda: self._set_clock(behind_s))

    def _suspend(self) -> None:
        seconds = 10.0 ** self.draw.uniform(0.0, 3.5)
        self._tell("suspended", seconds=round(seconds, 1))
        self.kernel.computer.suspend(seconds)
        self._dirty(seconds + 30.0)


class Mischief(AtComputer):
    """Makes trouble when the seed has it, and asks what people ask."""

    def __init__(self, kernel: Kernel, plant: Plant, disk: Disk, controller: Controller, draw: random.Random) -> None:
        super().__init__(kernel, plant, disk, controller, draw)
        self.aims = Aims(self)
        self._at_hand: list[str] = []
        """What may go wrong in this life."""
        self._kinds: Mapping[str, tuple[int, Callable[[], Undo | None]]] = {
            "wire": (8, self._wire),
            "silence": (3, self._silence),
            "unplug": (3, self._unplug),
            "network": (2, self._network),
            "sensor": (3, self._sensor),
            "exchange": (1, self._exchange),
            "pump": (4, self._pump),
            "meter": (2, self._meter),
            "words": (1, self._words),
            "hand": (2, self._hand),
            "disk full": (2, self._disk_full),
            "disk slow": (2, self._disk_slow),
            "disk error": (1, self._disk_error),
            "clock": (2, self._clock),
            "suspend": (1, self._suspend),
            "decider": (1, self._decider),
            "operator": (6, self._operator),
            "at a command": (4, self.aims.at_command),
            "at a question": (4, self.aims.at_question),
            "at a dose": (3, self.aims.at_dose),
            "at a pump": (1, self.aims.at_pump),
            "brown-out": (2, self.aims.browns_out),
            "by hand": (2, self._by_hand),
            "soon after": (4, self.aims.soon_after),
        }

    def end(self) -> None:
        super().end()
        self.aims.forget()

    def plan(self, running: Running, longest_s: float) -> None:
        """Have trouble come during this life; how much, of all kinds or of a few, the seed decides."""
        amount = self.draw.choices(list(AMOUNTS), list(AMOUNTS.values()))[0]
        kinds = list(self._kinds)
        self._at_hand = kinds if self.draw.random() < 0.5 else self.draw.sample(kinds, FEW)
        self.running, at_s = running, 0.0
        if amount > 0.0 and self.draw.random() < AIMED:
            self.aims.any()
        while amount > 0.0:
            at_s += self.draw.expovariate(amount / longest_s)
            if at_s > longest_s:
                return
            self.kernel.after(at_s, lambda: self.strike(running))

    def strike(self, running: Running) -> None:
        """Have something go wrong now, if this life lives."""
        if running.life.dead:
            return
        kind = self.draw.choices(self._at_hand, [self._kinds[name][0] for name in self._at_hand])[0]
        try:
            undo = self._kinds[kind][1]()
        except SimError as refusal:
            self.kernel.trace(f"{self.kernel.now_s:.6f} {kind}: {refusal}")
            return
        if undo is None:
            return
        lasts_s = 10.0 ** self.draw.uniform(-0.5, 2.0 + (self.draw.random() < 0.1))
        if "disk" in kind:
            self._undo.append(undo)
            self.kernel.after(lasts_s, lambda: self._over(undo))
            self.disk_spells.append((self.kernel.now_s, self.kernel.now_s + lasts_s))
            self.disk_until_s = max(self.disk_until_s, self.kernel.now_s + lasts_s)
            return
        called = self.draw.random() < CALLED_FOR.get(kind, 0.0)
        if called:  # it lasts at least until it was seen, and everything tried
            lasts_s = max(lasts_s, self.draw.uniform(15.0, 100.0))
        self._lasts(undo, lasts_s)
        if called:
            self.kernel.after(10.0 * self.draw.random(), lambda: self._end_it(running))

    def _end_it(self, running: Running) -> None:
        """Ask for the end of it, as somebody may who sees what is wrong."""
        if running.life.dead:
            return
        verb = self.draw.choice(("safe", "SIGTERM", "SIGINT"))
        self._tell(verb)
        if verb == "safe":
            self.ask(running, verb)
        else:
            running.signals.send(verb)

    def _operator(self) -> None:
        verb = self.draw.choices(
            ("pause", "resume", "stop", "safe", "ack", "void", "amend", "SIGTERM", "SIGINT", "SIGHUP", "twice"),
            (5, 6, 1, 1, 3, 3, 1, 2, 1, 1, 1),
        )[0]
        self._tell(verb)
        if verb.startswith("SIG"):
            self.running.signals.send(verb)
        elif verb == "twice":
            self.running.signals.send("SIGINT")
            self.kernel.after(self.draw.random(), lambda: self.running.signals.send("SIGINT"))
        else:
            self.ask(self.running, verb, **self._arguments(verb))

    def _by_hand(self) -> None:
        """Pause, drive single instruments by `rigctl device`, and go on."""
        rig, draw, running = self.controller.spec.rig, self.draw, self.running
        valves = {v.actuator: v.name for v in rig.variables if v.actuator and v.actuator not in rig.pumps}
        channels = {v.name: v for v in self.controller.spec.problem.space.variables}
        self._tell("by hand")
        self.ask(running, "pause")
        for i in range(draw.randrange(1, 4)):
            kind, at_s = draw.choice(("set", "release", "dose", "read")), 5.0 + 4.0 * i
            device = draw.choice(sorted(rig.pumps) if kind == "dose" and rig.pumps else sorted(valves))
            given: dict[str, Any] = {"operation": kind, "device": device}
            if kind == "set" and (own := channels.get(valves.get(device, ""))) is not None:
                given["value"] = own.low + (own.high - own.low) * draw.random()
            if kind == "dose":
                given["volume_ml"] = round(draw.uniform(0.6, 15.0), 2)
            self.kernel.after(at_s, lambda given=given: self._does(running, given))  # type: ignore[misc]
        self.kernel.after(25.0, lambda: self.ask(running, "resume"))

    def _does(self, running: Running, given: Mapping[str, Any]) -> None:
        if given["operation"] == "set":
            self.touched[given["device"]] = self.kernel.now_s
        self.ask(running, "manual", **given)

    def _arguments(self, verb: str) -> dict[str, Any]:
        if verb == "ack":
            return {"alarm": self.draw.randrange(1, 20)}
        if verb == "void":
            return {"trial": self.draw.randrange(1, 6), "undo": self.draw.random() < 0.3}
        if verb == "amend":
            return {"trial": self.draw.randrange(1, 6), "becomes": {"note": "typed wrong"}}
        return {}

    def ask(
        self, running: Running, verb: str, then: Callable[[object], object] = lambda _: None, **arguments: Any
    ) -> None:
        """Ask the running campaign over its control socket; whatever comes of it, `then` is told if it was done."""
        loop = running.loop
        if loop is None or running.life.dead:
            return

        async def asking() -> None:
            try:
                answer: object = await self.controller.ask(running, verb, "simulated", **arguments)
                then(answer)
            except RigctlError as refusal:
                answer = f"refused: {refusal}"
            self.kernel.trace(f"{self.kernel.now_s:.6f} {verb}: {answer}")

        def begin() -> None:
            running.asked.append(asyncio.ensure_future(asking(), loop=loop))

        loop.call_soon_threadsafe(begin)
