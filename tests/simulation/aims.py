"""Trouble that waits for its moment: it comes as a command leaves, or a question to a probe.

Of all that goes over a line, what moves something is the smallest part, and what is lost at random is hardly ever that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim_rig.rigs.assembly import PLC

if TYPE_CHECKING:
    from tests.simulation.mischief import Mischief

MBAP = 7
WRITES = (5, 6, 15, 16)
READS = 4
PUMPS = ("stuck", "dry", "weak", "weak", "unpowered", "deaf", "deaf")
"""What may be wrong with a pump from a dose on."""
QUESTIONS = (b"R\r", b"RT,", b"MEAS")
Strikes = Callable[[bytes], bool]
"""Tells whether this is what it has waited for."""


def commands(data: bytes) -> bool:
    return len(data) > MBAP and data[MBAP] in WRITES


def switches_on(data: bytes) -> bool:
    return len(data) > MBAP + 3 and data[MBAP] == 5 and data[MBAP + 3] == 0xFF


def switches_off(data: bytes) -> bool:
    return len(data) > MBAP + 3 and data[MBAP] == 5 and data[MBAP + 3] == 0


def doses(data: bytes) -> bool:
    """Tell whether this, on its way to a pump, is a dose."""
    return data[:2] == b"D," and data[2:3] not in (b"?", b"*")


def asks(data: bytes) -> bool:
    return data.startswith(QUESTIONS)


class Aims:
    """Waits at the lines, with what the seed has drawn."""

    def __init__(self, means: Mischief) -> None:
        self._means = means
        self._waiting: list[tuple[str, Strikes, Callable[[], object]]] = []
        plant, rig = means.plant, means.controller.spec.rig
        bus_of = plant.buses(rig)
        self._pumps = [(bus_of[pump], rig.dosing[pump].sensor) for pump in sorted(rig.dosing)]
        self._asked = sorted({bus_of[name] for name in plant.assembly.sensors} - {PLC})
        """Lines whose answers do not say what they answer."""
        self._outcome = bus_of.get(rig.outcomes[0].sensor or "", "")

    def any(self) -> None:
        kinds = [self.at_command, self.at_question, self.soon_after, self.at_window, self.freezes]
        kinds += [self.at_dose, self.presses, self.browns_out] * 2 + [self.at_pump] * 4 if self._pumps else []
        self._means.draw.choice(kinds)()

    @property
    def awaits_dose(self) -> bool:
        """Tell whether something waits for a dose."""
        return any(moment is doses for _, moment, _ in self._waiting)

    def forget(self) -> None:
        self._waiting.clear()

    def await_(self, bus: str, moment: Strikes, strike: Callable[[], object]) -> None:
        self._waiting.append((bus, moment, strike))

    def leaves(self, bus: str, data: bytes) -> None:
        for aim in self._waiting:
            if aim[0] == bus and aim[1](data):
                self._waiting.remove(aim)
                aim[2]()
                return

    def at_command(self) -> None:
        """The answer to the next command is lost, or comes when nobody waits for it any more."""
        draw = self._means.draw
        bus = draw.choice([PLC, *(bus for bus, _ in self._pumps)])
        kind, seconds = draw.choice(("drop_reply", "drop_reply", "delay")), draw.uniform(1.5, 3.5)
        self._waiting.append((bus, commands if bus == PLC else doses, lambda: self._spoil(bus, kind, seconds)))

    def at_question(self) -> None:
        """The answer to the next question for a reading is lost, or comes about when it is given up."""
        draw = self._means.draw
        bus = draw.choice(self._asked)
        kind, seconds = draw.choice(("drop_reply", "delay", "delay", "delay")), draw.uniform(1.4, 2.4)
        self._waiting.append((bus, asks, lambda: self._spoil(bus, kind, seconds)))

    def at_dose(self) -> None:
        """A probe falls silent while its pump doses or its tank mixes, for a moment or for long."""
        if not self._pumps:
            return
        means = self._means
        bus, probe = means.draw.choice(self._pumps)
        late_s, lasts_s = means.draw.uniform(0.0, 45.0), 10.0 ** means.draw.uniform(0.5, 2.6)

        def strike() -> None:
            means._ask(fault="sensor", name=probe, mode="nan", offset=0.0)
            means._lasts(lambda: means.plant.ask(fault="sensor", name=probe, mode="ok"), lasts_s)

        self._waiting.append((bus, doses, lambda: means.kernel.after(late_s, strike)))

    def at_pump(self) -> None:
        """A pump that doses does not stop, refuses, gives nothing, or says nothing for long."""
        if not self._pumps:
            return
        means = self._means
        bus, _ = means.draw.choice(self._pumps)
        kind, lasts_s = means.draw.choice(PUMPS), 10.0 ** means.draw.uniform(1.5, 3.2)

        def strike() -> None:
            if kind == "deaf":
                means._ask(fault="drop_reply", bus=bus, count=-1)
                means._lasts(means.plant.assembly.wire_faults[bus].clear, min(lasts_s, 150.0))
                return
            means._ask(fault="pump", bus=bus, **{kind: True})
            means._lasts(lambda: means.plant.ask(fault="pump", bus=bus, **{kind: False}), lasts_s)

        self._waiting.append((bus, doses, strike))

    def browns_out(self) -> None:
        """A pump loses its supply in mid-dose and has it back at once; what it says of that is lost, or is not."""
        if not self._pumps:
            return
        means = self._means
        bus, _ = means.draw.choice(self._pumps)
        late_s, silent = means.draw.uniform(0.0, 12.0), means.draw.random() < 0.7
        if means.draw.random() < 0.5:  # then its total begins at nothing, and says nothing of another restart
            means._ask(fault="pump_reset", bus=bus)

        def restart() -> None:
            if silent:
                means._ask(fault="drop_reply", bus=bus, count=1)
            means._ask(fault=means.draw.choice(("pump_reset", "restart")), bus=bus)
            means._dirty(30.0)

        self._waiting.append((bus, doses, lambda: means.kernel.after(late_s, restart)))

    def presses(self) -> None:
        """Somebody is at a pump's button, or at its supply, as its probe is read: the next thing may be a dose."""
        means = self._means
        bus, probe = means.draw.choice(self._pumps)
        passing, kind = iter([False] * means.draw.randrange(8)), means.draw.choice(("button", "pump_reset"))
        line = means.plant.buses(means.controller.spec.rig)[probe]
        moment = asks if line != PLC else lambda data: len(data) > MBAP and data[MBAP] == READS

        def strike() -> None:
            means.hand_at_s = means.kernel.now_s
            means._ask(
                fault=kind, bus=bus, **({"ml": round(means.draw.uniform(2.0, 30.0), 2)} if kind == "button" else {})
            )
            means._dirty(30.0)

        self._waiting.append((line, lambda data: moment(data) and next(passing, True), strike))

    def freezes(self) -> None:
        """A sensor says the same for as long as some trials take."""
        means = self._means
        name = means.draw.choice(sorted(means.plant.assembly.sensors))
        means._ask(fault="sensor", name=name, mode="frozen", offset=0.0)
        undo = lambda: means.plant.ask(fault="sensor", name=name, mode="ok")  # noqa: E731
        means._lasts(undo, 10.0 ** means.draw.uniform(1.8, 2.7))

    def soon_after(self) -> None:
        """Anything at all goes wrong soon after a dose or a command: then the rig is at work."""
        means = self._means
        bus = means.draw.choice([PLC, *(bus for bus, _ in self._pumps)])
        late_s = 10.0 ** means.draw.uniform(-2.0, 1.6)
        strike = lambda: means.kernel.after(late_s, lambda: means.strike(means.running))  # noqa: E731
        self._waiting.append((bus, switches_on if bus == PLC else doses, strike))

    def at_window(self) -> None:
        """Another hand goes to what runs while the outcome is measured: the watch may not look again before the end."""
        means = self._means
        late_s, passing = 10.0 ** means.draw.uniform(-2.0, 0.3), iter([False] * means.draw.randrange(3))
        strike = lambda: means.kernel.after(late_s, means._hand)  # noqa: E731
        self._waiting.append((self._outcome, lambda data: asks(data) and next(passing, True), strike))

    def _spoil(self, bus: str, kind: str, seconds: float) -> None:
        self._means._ask(fault=kind, bus=bus, count=1, seconds=round(seconds, 3))
        self._means._dirty(30.0)
