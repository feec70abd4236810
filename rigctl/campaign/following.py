"""Controlled variables that do not follow their setpoints, by what their own sensors measured (fault 83).

A healthy variable may miss in 1 of 20 trials: four misses in five are then chance once in 33,000 windows. One that does
not move misses in 81 %. Neither setpoint nor reading says where its trials were, so they are void (decision 0019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from rigctl.campaign.corrections import void
from rigctl.campaign.journal.later import CAMPAIGN
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.writer import Journal
from rigctl.errors import counted
from rigctl.printable import in_full
from rigctl.rig.spec import FollowSpec, RigSpec, VariableWiring

MISSES, LAST = 4, 5
"""So many misses in the last so many trials that controlled a variable: it does not follow."""
BEFORE, ENOUGH = 40, 10
"""Trials before these that say how near it is usually kept; with fewer than ENOUGH the widest default holds."""
USUAL_SHARE, SLACK = 0.9, 2.0
"""The default is twice the distance that nine in ten of them kept to."""


@dataclass(frozen=True, slots=True)
class Astray:
    """A controlled variable that does not follow its setpoint."""

    wired: VariableWiring
    misses: Mapping[int, float]
    """How far from its setpoint it was measured, engineering units, by trial."""
    last: int
    """Number of trials among which these are."""
    within: float
    unit: str

    @property
    def why(self) -> str:
        """Continue a sentence that begins with the actuator."""
        missed = f"{len(self.misses)} of its last {counted(self.last, 'trial')}"
        far = f"more than {self._span(self.within)} away (up to {self._span(max(self.misses.values()))})"
        return f"does not bring {self.wired.name} to its setpoint: {missed} measured it {far}"

    @property
    def remedy(self) -> str:
        check = f"check {self.wired.actuator}, its line and {self.wired.sensor}, then `rigctl in-service"
        return f"{check} {self.wired.actuator}`; if it may be so far off, set `follows` of {self.wired.name} first"

    def missed(self, trial: int) -> str:
        """Say how far off the variable was in one of these trials."""
        off = f"measured {self._span(self.misses[trial])} from its setpoint, {self._span(self.within)} is allowed"
        return f"{self.wired.name} did not follow: {off}"

    def _span(self, value: float) -> str:
        return f"{in_full(value, 3)} {self.unit}".rstrip()


def allowed(follows: FollowSpec, before: Sequence[float]) -> float:
    """Return how far from its setpoint a variable may be, by how far off it was in the trials `before`."""
    if len(before) < ENOUGH:
        return follows.most
    usual = sorted(before)[ceil(USUAL_SHARE * len(before)) - 1]
    return min(max(SLACK * usual, follows.least), follows.most)


def judged(wired: VariableWiring, follows: FollowSpec, off: Sequence[tuple[int, float]]) -> Astray | None:
    """Judge a variable by the trials that controlled it, in order, and how far from its setpoint each was measured."""
    before, last = off[:-LAST], off[-LAST:]
    within = allowed(follows, [distance for _, distance in before])
    misses = {trial: distance for trial, distance in last if distance > within}
    return Astray(wired, misses, len(last), within, follows.unit) if len(misses) >= MISSES else None


def astray(reader: Reader, rig: RigSpec) -> Mapping[str, Astray]:
    """Return the controlled variables that do not follow, by their actuator, since it was last put back in service."""
    back_s = {row.device: row.at_s for row in reader.upkeep.rows() if row.kind == "in"}
    found = {}
    for wired in rig.variables:
        if wired.follows is not None and wired.actuator is not None:
            off = reader.upkeep.off_setpoint(wired.name, back_s.get(wired.actuator, -inf), BEFORE + LAST)
            if (one := judged(wired, wired.follows, off)) is not None:
                found[wired.actuator] = one
    return found


def void_misses(journal: Journal, rig: RigSpec) -> bool:
    """Void the trials that show a variable astray, each once; return whether there were any.

    A trial that awaits its outcome is voided when that has come; one that a person has taken in again stays.
    """
    found = [(trial, one.missed(trial)) for one in astray(journal.read, rig).values() for trial in one.misses]
    rows = {trial: journal.read.trial(trial) for trial, _ in found}
    fresh = [n for n, row in rows.items() if row.state.final and not any(c.kind != "amend" for c in row.corrected)]
    for trial in fresh:
        void(journal, trial, CAMPAIGN, "; ".join(why for number, why in found if number == trial))
    return bool(fresh)
