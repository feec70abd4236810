"""Where trouble is, so that nothing is demanded of a bus that cannot do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sim_rig.rigs.assembly import PLC

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

QUIET_S = 60.0
"""True seconds after the last trouble on a bus before anything is demanded of it."""
COMPUTER = ("suspended", "disk full", "disk slow", "disk error")
NETWORK = ("network down", "half_open", "word_swap", "reset")
LIES = ("corrupt", "stale", "garbage", "wrong_unit", "truncate", "dribble", "delay")
"""What may make an instrument seem to say what it does not: Modbus TCP has no checksum."""
FORGED = (*(kind for kind in LIES if kind != "delay"), "word_swap")
"""What changes what is read, not only when."""
ANSWERS = ("drop_reply", "stale")
"""What spoils answers alone: what is told arrives and is carried out."""
NO_READING = ("nan", "zero")
"""Nothing that a probe reads is zero."""
NEVER_S = -1e9


class Trouble:
    """Remembers, by bus, when something was last wrong with it."""

    def __init__(self, witness: Witness) -> None:
        self._kernel = witness.kernel
        self._plant = witness.plant
        self._mischief = witness.mischief
        self._bus_s: dict[str, float] = {}
        self._lie_s: dict[str, float] = {}
        self._forged_s: dict[str, float] = {}
        self._deaf_s: dict[str, float] = {}
        """By bus: when what was told last need not have arrived, or was not carried out."""
        self._computer_s = NEVER_S
        self._silent_since_s: dict[str, float] = {}
        self._untrue_s: dict[str, float] = {}
        self._bus_of = self._plant.buses(witness.spec.rig)
        self._mischief.listeners.append(self._begins)

    def _begins(self, what: str, more: Mapping[str, object]) -> None:
        now_s = self._kernel.now_s
        if what in COMPUTER:
            until_s = now_s + (float(str(more["seconds"])) if what == "suspended" else 0.0)
            self._computer_s = max(self._computer_s, until_s)
        elif what in NETWORK:
            self._bus_s[PLC] = self._deaf_s[PLC] = now_s
        elif "bus" in more:
            self._bus_s[str(more["bus"])] = now_s
            if what not in ANSWERS:
                self._deaf_s[str(more["bus"])] = now_s
        if what in LIES:
            self._lie_s[str(more["bus"])] = now_s
        if what in FORGED:
            self._forged_s[str(more["bus"])] = now_s

    def glance(self) -> None:
        now_s = self._kernel.now_s
        for bus, cable in self._plant.cables.items():
            faults = self._plant.assembly.wire_faults.get(bus)
            if faults is not None and any(fault.kind in LIES for fault in faults.pending):
                self._lie_s[bus] = now_s
            station = self._plant.assembly.stations.get(bus)
            swapped = station is not None and any(bank.word_swap for bank in station.units.values())
            if swapped or (faults is not None and any(fault.kind in FORGED for fault in faults.pending)):
                self._forged_s[bus] = now_s
            cut = not cable.plugged or getattr(cable, "deaf", False)
            if cut or (faults is not None and faults.pending):
                self._bus_s[bus] = now_s
            if cut or (faults is not None and any(fault.kind not in ANSWERS for fault in faults.pending)):
                self._deaf_s[bus] = now_s
        if self._mischief.disk_until_s > now_s:
            self._computer_s = max(self._computer_s, now_s)
        for name, tap in self._plant.assembly.sensors.items():
            if tap.mode != "ok":
                self._untrue_s[name] = now_s
            if tap.mode in NO_READING or not self._plant.cables[self._bus_of[name]].plugged:
                self._silent_since_s.setdefault(name, now_s)
            else:
                self._silent_since_s.pop(name, None)

    def last_s(self, device: str) -> float:
        self.glance()  # where trials take days somebody looks in every other minute only
        return max(self._bus_s.get(self._bus_of[device], NEVER_S), self._computer_s)

    def quiet(self, device: str) -> bool:
        return self._kernel.now_s - self.last_s(device) > QUIET_S

    @property
    def quiet_all(self) -> bool:
        return all(map(self.quiet, self._bus_of))

    def hears(self, device: str) -> bool:
        """Tell whether what this device is told has arrived and is carried out for a while, whatever it answers."""
        last_s = max(self._deaf_s.get(self._bus_of[device], NEVER_S), self._computer_s, self._mischief.hand_at_s)
        return self._kernel.now_s - last_s > QUIET_S

    def believed(self, device: str) -> bool:
        """Tell whether what this device seems to say is what it says, and nobody else has touched it."""
        told_s = self._kernel.now_s - self._lie_s.get(self._bus_of[device], NEVER_S)
        return told_s > QUIET_S and device not in self._mischief.touched

    def bus_of(self, device: str) -> str:
        return self._bus_of[device]

    def honest(self, device: str) -> bool:
        """Tell whether what comes from this device is as it left it, if not always at once."""
        return self._kernel.now_s - self._forged_s.get(self._bus_of[device], NEVER_S) > QUIET_S

    @property
    def unpressed(self) -> bool:
        """Tell whether nobody else has touched anything for a while."""
        return self._kernel.now_s - self._mischief.hand_at_s > QUIET_S

    def untouched(self, device: str) -> bool:
        """Tell whether, besides, nobody else has touched an actuator."""
        return self.quiet(device) and self._kernel.now_s - self._mischief.hand_at_s > QUIET_S

    def told_true_s(self, sensor: str) -> float:
        """Return for how long nothing has been wrong with a sensor and its bus, true seconds."""
        self.glance()
        last_s = max(
            self._untrue_s.get(sensor, NEVER_S), self._bus_s.get(self._bus_of[sensor], NEVER_S), self._computer_s
        )
        return self._kernel.now_s - last_s

    def silent_s(self, sensor: str) -> float:
        """Return for how long this sensor has given no valid reading, true seconds; 0 while the computer is upset."""
        if self._kernel.now_s - self._computer_s < QUIET_S:
            return 0.0
        return self._kernel.now_s - self._silent_since_s.get(sensor, self._kernel.now_s)
