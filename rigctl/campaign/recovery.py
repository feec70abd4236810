"""Settles what was in flight when the last process died.

Everything goes safe first. Then, by the state the journal left the trial in:

- PROPOSED: nothing has moved; the runner carries the same proposal out, unchanged, unless a pause has cancelled it.
- ARMED, RUNNING: something may have moved; LOST, charged by the counters' rise across the crash and the time up to the
  process's last sign of life, never repeated.
- MEASURED: recorded from what is on disk.

Open doses are settled from the pump's own counter, and never sent again. A crash in here changes nothing: each step
either is in the journal or will be taken again by the next start.
"""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.campaign.closing import close_open_trial
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.patience import standing
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Event, State
from rigctl.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    closed: TrialRow | None
    """The trial that was in flight: now LOST, or RECORDED from what was measured."""

    @property
    def lost(self) -> int | None:
        """Return the number of the trial that is lost."""
        return self.closed.trial if self.closed is not None and self.closed.state is State.LOST else None


async def recover(spec: CampaignSpec, rig: CampaignRig, journal: JournalThread) -> Recovered:
    """Make everything safe and settle what was in flight.

    Raises:
        DeviceError: something cannot be confirmed safe, so no trial may start.
    """
    report = await rig.safe()
    if not report.ok:
        raise DeviceError(f"no trial may start: {standing(report)}")
    return Recovered(await close_open_trial(spec, rig, journal, Event.LOSE, "the process died in mid-trial"))
