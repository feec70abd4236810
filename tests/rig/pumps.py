"""Pumps in memory, and everything that their doses pass through."""

from collections.abc import Mapping

from rigctl.rig.bus import Bus, BusTiming
from rigctl.rig.dosing import Dispenser
from rigctl.rig.guard import Guard
from rigctl.rig.handle import Handle
from rigctl.rig.limits import ActuatorLimits, TankSpec
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import Severity
from rigctl.rig.titration import Evidence, Side, Titration
from rigctl.rig.values import Alarm, News, OpenDose
from tests.rig.fakes import FakeClock, FakeDoseLog, FakeLine, FakePump, FakeSensor, Heard


class Pumps:
    """Some pumps, each on a bus of its own, and their dispenser; the first is also `pump` on `line`.

    Up to 50 mL a dose and 400 mL in 24 h of each, unless told otherwise; `caps` are those of their common tank.
    """

    def __init__(
        self,
        *names: str,
        doses: FakeDoseLog | None = None,
        per_dose_ml: float = 50.0,
        per_day_ml: float = 400.0,
        caps: Mapping[str, float] | None = None,
    ) -> None:
        names = names or ("pump",)
        self.clock = FakeClock()
        self.doses = FakeDoseLog() if doses is None else doses
        self.alarms: list[Alarm] = []
        self.trips: list[str] = []
        self.lines = {n: FakeLine(f"fake://{n}", self.clock) for n in names}
        self.pumps = {n: FakePump(n, line) for n, line in self.lines.items()}
        self.buses = {n: self.bus_of(line) for n, line in self.lines.items()}
        self.handles = {n: Handle(n, self.pumps[n], bus, 0.5) for n, bus in self.buses.items()}
        self.line, self.pump = self.lines[names[0]], self.pumps[names[0]]
        limits = dict.fromkeys(
            names, ActuatorLimits(low=0.0, high=14.0, safe_state="off", per_dose_ml=per_dose_ml, per_day_ml=per_day_ml)
        )
        tanks = {"reservoir": TankSpec(pumps=names, **caps)} if caps else {}
        self.guard = Guard(limits, self.doses, self.clock, tanks=tanks)
        self.dispenser = Dispenser(
            self.guard, self.doses, self.clock, Heard(self.alarms), trip=self.trip, wall=self.clock.now_s
        )

    def bus_of(self, line: FakeLine) -> Bus:
        """A bus that opens a lost line at once."""
        return Bus(line, News(), BusTiming(reopen_first_s=0.0))

    def titration(self, *sides: Side, probe: FakeSensor, name: str, plausible: tuple[float, float]) -> Titration:
        """One of these, judged by this probe on a bus of its own; six doses without response latch the pump."""
        self.buses[probe.name] = self.bus_of(probe.line)
        judge = Probe(name, Handle(probe.name, probe, self.buses[probe.name], 0.5), plausible, self.clock)
        evidence = Evidence(self.doses, 6, self.trip)
        return Titration(sides, judge, self.dispenser, self.clock, Heard(self.alarms), evidence)

    async def trip(self, reason: str) -> None:
        self.guard.trip(reason)
        self.trips.append(reason)

    async def dispense(self, volume_ml: float = 20.0) -> float:
        """Let the first one give a volume."""
        return await self.dispenser.dispense(next(iter(self.handles.values())), volume_ml)

    async def settle(self, before_ml: float = 100.0, volume_ml: float = 20.0) -> None:
        """Settle a dose of the first one that a dead process has left open."""
        left = OpenDose(1, self.pump.name, volume_ml, before_ml)
        await self.dispenser.settle(self.handles[self.pump.name], left)

    async def close(self) -> None:
        for bus in self.buses.values():
            await bus.close()

    @property
    def severities(self) -> list[Severity]:
        return [a.severity for a in self.alarms]
