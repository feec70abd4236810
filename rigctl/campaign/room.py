"""Room under the caps of pumps and tanks: what a trial is likely to take, and when that fits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.patience import Patience
from rigctl.rig.imposing import given_volumes
from rigctl.rig.spec import RigSpec

_ROUNDING_S = 1e-3
"""Between campaign time and rig time."""


@dataclass(frozen=True, slots=True)
class Room:
    """Holds volumes against the caps of an hour and of 24 hours."""

    rig: RigSpec
    journal: JournalThread
    patience: Patience

    async def needed_ml(self, trial: TrialRow) -> Mapping[str, float]:
        """Return what a trial is likely to take, by pump: what they give by plan, or the most they ever gave."""
        rig = self.rig
        given = given_volumes(rig, trial.setpoints)
        dosed = [p for v in rig.variables if v.name in trial.control_set for p in rig.pumps_of(v) if p not in given]
        most = await self.journal.call(lambda j: {p: j.doses.dearest_trial_ml(p) for p in dosed})
        return {**most, **given}

    async def until(self, volumes_ml: Mapping[str, float]) -> None:
        """Wait until so much more, by pump, fits."""
        async for free_s, why in self._windows(volumes_ml):
            await self.patience.wait_until(free_s, why)

    async def lacks(self, volumes_ml: Mapping[str, float]) -> str:
        """Say which caps so much more, by pump, does not fit now; empty if it fits all."""
        # asked afterwards: what fits already fits from the moment on at which the journal was asked, which is past
        now = self.patience.clock.now_s
        return "; ".join([why async for free_s, why in self._windows(volumes_ml) if free_s > now() + _ROUNDING_S])

    async def _windows(self, volumes_ml: Mapping[str, float]) -> AsyncIterator[tuple[float, str]]:
        """Yield for each cap's window that counts when there is room in it, rig time, and what there is no room for."""
        for cap in self.rig.capped:
            more_ml = sum(volumes_ml.get(pump, 0.0) for pump in cap.pumps)
            for span_s, most_ml, words in cap.windows if more_ml > 0 else ():
                needed_ml = min(more_ml, most_ml)
                free_s = await self.journal.call(_room_at_s, cap.pumps, needed_ml, most_ml, span_s)
                yield free_s, f"{cap.name}: {needed_ml:g} mL more would be beyond its cap of {most_ml:g} mL in {words}"


def _room_at_s(journal: Journal, pumps: Sequence[str], volume_ml: float, cap_ml: float, span_s: float) -> float:
    return journal.doses.room_at_s(pumps, volume_ml, cap_ml, span_s)
