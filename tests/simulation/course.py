"""How a trial goes, by what leaves for the rig: everything takes as long as it was said to take, and no longer."""

from __future__ import annotations

import struct
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rigctl.campaign.events import CampaignEvent, TrialLooked, TrialStep
from tests.simulation.plant import places
from tests.simulation.trouble import Trouble

if TYPE_CHECKING:
    from tests.simulation.invariants import Witness

NEAR_S: Final = 0.05
LATE_S: Final = 10.0
"""What exchanges and commits may take beyond what is waited for, with nothing wrong."""


class Course:
    """Follows a trial from its first move to its last reading, true seconds."""

    def __init__(self, witness: Witness, trouble: Trouble) -> None:
        self._witness, self._trouble = witness, trouble
        self._rig = witness.spec.rig
        self._coils = {at: name for (table, at), name in places(self._rig).items() if table == "coil"}
        self._on_s: dict[str, float] = {}
        """By actuator that is on, as it was told: since when."""
        self._was_on_s: dict[str, float] = {}
        """By actuator: for how long it was on, in this trial."""
        self._dosed_s: dict[str, float] = {}
        """By pump: when its last dose of this trial has left."""
        self._doses: list[str] = []
        """The pumps of this trial's doses, in their order."""
        self._begun_s = self._running_s = 0.0
        self.met: Counter[str] = Counter()

    @property
    def dosed(self) -> bool:
        return bool(self._dosed_s)

    def writes(self, pdu: bytes) -> None:
        if len(pdu) < 5 or pdu[0] != 5:
            return
        at, value = struct.unpack(">HH", pdu[1:5])
        name, now_s = self._coils.get(at, ""), self._witness.kernel.now_s
        if value:
            self._on_s.setdefault(name, now_s)
        elif name in self._on_s:
            self._was_on_s[name] = max(now_s - self._on_s.pop(name), self._was_on_s.get(name, 0.0))

    def doses(self, pump: str) -> None:
        """What was dosed before has mixed, and a treatment was on for its time."""
        dosing, now_s = self._rig.dosing.get(pump), self._witness.kernel.now_s
        if dosing is not None:
            self.met["dose in its time"] += 1
            self._is_enough(pump, dosing.max_doses)
            self._since(self._dosed_s.get(pump), dosing.mix_s, f"{pump}: doses again")
            if dosing.treatment is not None:
                self._since(self._on_s.get(dosing.treatment, now_s), dosing.treat_s or 0.0, f"{pump}: doses, treated")
        self._dosed_s[pump] = now_s

    def heard(self, event: CampaignEvent) -> None:
        timing, now_s = self._rig.timing, self._witness.kernel.now_s
        if isinstance(event, TrialLooked) and timing.look is not None:
            self._is_prepared(event.trial)
            self._since(self._begun_s, timing.prepare_s + timing.look.after_s, f"trial {event.trial}: looks")
        elif isinstance(event, TrialStep) and event.state in ("LOOKING", "ARMED"):
            if event.state == "LOOKING" or timing.look is None:
                self._was_on_s.clear()
                self._begun_s = now_s
            self._dosed_s.clear()
            self._doses.clear()
        elif isinstance(event, TrialStep) and event.state == "RUNNING":
            self._running_s = now_s
            if timing.look is None:
                self._is_prepared(event.trial)
            for pump, at_s in self._dosed_s.items():
                mix = self._rig.dosing.get(pump) or self._rig.volumes.get(pump)
                self._since(at_s, 0.0 if mix is None else mix.mix_s, f"trial {event.trial}: runs, and {pump} has dosed")
        elif isinstance(event, TrialStep) and event.state == "MEASURED":
            takes_s = timing.settle_s + timing.measure.for_s
            least_s = takes_s - timing.measure.every_s  # a sample a period
            self._since(self._running_s, least_s, f"trial {event.trial}: measured")
            if self._trouble.quiet_all and now_s - self._running_s > takes_s + LATE_S:
                self._witness.fail(f"trial {event.trial}: measured after {now_s - self._running_s:.1f} s")

    def _is_enough(self, pump: str, most: int) -> None:
        """A pump has so many doses in a trial; of two for one variable, the other takes back once what one gave."""
        self._doses.append(pump)
        if self._doses.count(pump) > most:
            self._witness.fail(
                f"{pump}: doses for the {self._doses.count(pump)}th time in this trial, {most} are allowed"
            )
        rivals = next((v.actuators for v in self._rig.variables if pump in v.actuators), ())
        turns = sum(a != b for a, b in pairwise(p for p in self._doses if p in rivals))
        self.met["pumps against each other"] += turns
        if turns > 1:
            self._witness.fail(
                f"{pump}: doses, and {' and '.join(rivals)} have taken turns {turns} times in this trial"
            )

    def _is_prepared(self, trial: int) -> None:
        for step in self._rig.timing.prepare:
            self.met["step of preparation"] += 1
            if self._was_on_s.get(step.actuator, -1.0) < step.wait_s - NEAR_S:
                self._witness.fail(f"trial {trial}: {step} was on for {self._was_on_s.get(step.actuator, 0.0):.1f} s")

    def _since(self, since_s: float | None, least_s: float, what: str) -> None:
        if since_s is not None and self._witness.kernel.now_s - since_s < least_s - NEAR_S:
            self._witness.fail(f"{what} after {self._witness.kernel.now_s - since_s:.1f} s, {least_s:g} s were to pass")

    def ends(self) -> None:
        self._dosed_s.clear()
        self._doses.clear()
        self._was_on_s.clear()
