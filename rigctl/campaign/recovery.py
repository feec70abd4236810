"""Settles what was in flight when the last process died.

Everything goes safe first. Then, by the state the journal left the trial in:

- PROPOSED: nothing has moved; the runner carries the same proposal out, unchanged, unless a pause has cancelled it. Not
  if it was decided for something else than what this process runs, trials or batches by a certain wish: it is closed.
- ARMED, RUNNING: something may have moved; LOST, charged by the counters' rise across the crash and the time up to the
  process's last sign of life, never repeated.
- MEASURED: recorded from what is on disk.

Open doses are settled from the pump's own counter, and never sent again. A crash in here changes nothing: each step
either is in the journal or will be taken again by the next start.
"""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.campaign.closing import cancel, close_open_trial
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.operating import said
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.safe_file import standing
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Event, State
from rigctl.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found."""

    closed: TrialRow | None
    """The trial that was in flight: now LOST, RECORDED from what was measured, or cancelled."""

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
    closed = await close_open_trial(spec, rig, journal, Event.LOSE, "the process died in mid-trial")
    return Recovered(closed or await _decided_for_another(spec, rig, journal))


async def _decided_for_another(spec: CampaignSpec, rig: CampaignRig, journal: JournalThread) -> TrialRow | None:
    """Close a trial that waits to be run if it is none of those that this process was told to run.

    A trial of the campaign explores, which production may not; nor may what was told or allowed before.
    """
    trial = await journal.call(lambda j: j.read.open_trial())
    if trial is None:
        return None
    told = "" if spec.operating is None else said(spec.operating)
    was = await journal.call(lambda j: j.read.beside.operations().get(trial.trial, ""))
    other = f"production, {was}" if was else "the campaign"
    return None if was == told else await cancel(spec, rig, journal, trial, f"it was decided for {other}")
