"""What the journal gives back, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigctl.campaign.decision import Decision
from rigctl.campaign.ledger import IdleLine, LedgerLine
from rigctl.campaign.trial import Event, State
from rigctl.core.money import Micros
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action
from rigctl.rig.values import AlarmMark

Phase = Literal["before", "after"]
"""When a meter was read: before the first actuator moved, or after the last reading."""

CampaignPhase = Literal["RUNNING", "HOLDING", "PAUSED", "WAITING", "ENDED"]
"""The campaign's own state, beside the trial's: trials go on; all is safe until something is in order again, until a
person says so, or until a certain time; over."""


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """The campaign this journal is about."""

    rig: str
    seed: int
    currency: str
    budget: Micros
    spent: Micros
    """Sum of all ledger and idle lines, as amended; but for what is `operated`."""
    outcome: str
    """Name of the first."""
    identity: Mapping[str, str]
    config_text: str
    """As last started; empty before the first start."""
    operated: Micros = 0
    batches: int = 0
    """The same sum of batches for production, no part of `spent`; and how many of these have begun."""


Kind = Literal["void", "restore", "amend"]
"""Of a correction: the trial is left out of what the policy learns from; is taken in again; has something changed."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """What is amended of a trial, or was before; what is not amended is left out."""

    values: Mapping[str, float | None] = field(default_factory=dict)
    """Of variables, engineering units; None: not measured."""
    outcomes: Mapping[str, float | None] = field(default_factory=dict)
    """All that are amended, by name; None: the trial failed."""
    amount: Micros | None = None
    """Its cost; of an imported trial, what it cost then."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class CorrectionRow:
    """One correction: nothing is erased, so it stands beside the trial's own record."""

    correction: int
    trial: int
    kind: Kind
    was: Amendment
    becomes: Amendment
    who: str
    why: str
    utc: str


@dataclass(frozen=True, slots=True)
class ByHand:
    """What is known besides of a trial that a person did."""

    date: str = ""
    """As the person wrote it; empty: not said."""
    operator: str = ""
    batch: str = ""
    note: str = ""
    who: str = ""
    """Who recorded it."""
    suggestion: int | None = None
    """Which it followed, or departed from; None: none had been asked for."""
    departed: str = ""
    """In what it was not as suggested, in words; empty if it was."""
    imported: int | None = None
    """The import it came with: it is from before the campaign, and was not charged."""
    amount: Micros | None = None
    """What an imported trial cost then; None: not known, or it was not imported."""


@dataclass(frozen=True, slots=True)
class AwaitedRow:
    """A trial whose outcome comes, or came, after the rig had done its part."""

    trial: int
    how: Literal["hand", "sensor"]
    """Who gives it: a person, or a sensor that is read when it is due."""
    due_s: float
    """Campaign time at which it is read, or given up if nobody has said it."""
    due_utc: str
    epoch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow(Decision):
    """A decision, and what became of it."""

    state: State
    measured: Mapping[str, float]
    """Variables that could be measured, engineering units."""
    outcome: float | None
    whole: bool
    """Whether it went on until it was measured, so that its cost is that of a whole trial."""
    cost: Micros
    """Sum of its ledger lines; 0 while it is under way."""
    estimated: bool
    """Whether a ledger line was estimated."""
    started_utc: str
    ended_utc: str | None
    because: str
    """What its last event says of why; mostly empty."""
    further: Mapping[str, float] = field(default_factory=dict)
    """Outcomes besides the first that could be measured, by name, in the order they are declared in."""
    by_hand: ByHand | None = None
    """None: the rig did it."""
    operated: bool = False
    """Whether it was a batch for production."""
    remark: str = ""
    """What a person has noted of it."""
    corrected: tuple[CorrectionRow, ...] = ()
    """In the order they were made; the values above are those after the last one."""
    awaited: AwaitedRow | None = None
    """None: its outcome was measured while it was under way, or it has none."""
    came: CorrectionRow | None = None
    """How an awaited outcome came, or was given up; None: it has not come."""

    @property
    def voided(self) -> bool:
        """Tell whether the policy is not to learn from it."""
        kinds = [correction.kind for correction in self.corrected if correction.kind != "amend"]
        return bool(kinds) and kinds[-1] == "void"

    @property
    def imported(self) -> bool:
        """Tell whether it is from before the campaign."""
        return self.by_hand is not None and self.by_hand.imported is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRow(Decision):
    """A decision that was handed to a person."""

    suggestion: int
    utc: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file of trials from before the campaign."""

    name: str
    digest: str
    """SHA-256 of its bytes."""
    noise_sd: float | None
    """Of its outcomes, own units; None: as the model learns it."""
    noise_factor: float
    """Its outcomes' noise sd over that of the campaign's own."""
    who: str
    """Imports it."""


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A file of trials from before the campaign."""

    imported: int
    source: str
    """The file's name."""
    digest: str
    """SHA-256 of its bytes."""
    trials: int
    noise_sd: float | None
    """Of its outcomes, own units; None: as the model learns it."""
    noise_factor: float
    """Its outcomes' noise sd over that of the campaign's own."""
    who: str
    utc: str


@dataclass(frozen=True, slots=True)
class ActRow:
    """What a person has done to the campaign, or tried to."""

    act: int
    verb: str
    argument: str
    """What it was done to."""
    who: str
    why: str
    outcome: str
    """What came of it."""
    utc: str
    at_s: float


UpkeepKind = Literal["out", "in", "refilled", "replaced", "calibrated"]
"""What a person has done to a device: taken it out of service, put it back; filled its bottle; replaced a part of it;
calibrated it."""


@dataclass(frozen=True, slots=True)
class UpkeepRow:
    """What a person has done to a device."""

    device: str
    kind: UpkeepKind
    part: str
    """What was replaced; else empty."""
    volume_ml: float | None
    """In the bottle after it was filled; None: as configured."""
    age_s: float
    """How long ago that was when it was said, rig seconds."""
    why: str
    who: str
    utc: str
    at_s: float
    epoch: str


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """What a device said of its calibration."""

    device: str
    points: int | None
    slopes: tuple[float, ...]
    detail: str
    utc: str
    at_s: float
    epoch: str


@dataclass(frozen=True, slots=True)
class DeciderRow:
    """Which code decided a trial."""

    trial: int
    version: str
    """Of rigctl."""
    code: Mapping[str, str] | None = None
    """See `rigctl.provenance.deciding_code`; None: it was not noted."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One step of a trial."""

    trial: int
    event: Event
    state: State
    utc: str
    at_s: float
    detail: str


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One reduced window of samples; value and spread are None when INVALID."""

    trial: int
    name: str
    is_outcome: bool
    value: float | None
    spread: float | None
    count: int
    invalid: int
    severity: Severity
    detail: str


@dataclass(frozen=True, slots=True)
class LookRow:
    """What one variable read before its trial was decided; value and spread are None when INVALID."""

    trial: int
    name: str
    value: float | None
    spread: float | None
    count: int
    invalid: int
    severity: Severity
    detail: str
    utc: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow(LedgerLine):
    """A line of a trial's cost, and which trial that was."""

    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRow(IdleLine):
    """A line of what no trial used, and when it was booked."""

    before_trial: int
    """The trial that came after it, or that it interrupted."""
    utc: str


@dataclass(frozen=True, slots=True)
class DoseRow:
    """One dose."""

    dose: int
    trial: int | None
    actuator: str
    volume_ml: float
    """Intended."""
    total_before_ml: float
    state: Literal["INTENT", "SENT", "DONE", "UNKNOWN"]
    dispensed_ml: float | None
    """None while open; the full volume when UNKNOWN."""
    utc: str
    at_s: float
    """Of the intent."""
    settled_s: float | None
    note: str


@dataclass(frozen=True, slots=True)
class AlarmRow:
    """One alarm."""

    trial: int | None
    severity: Severity
    source: str
    message: str
    utc: str
    at_s: float
    detail: str = ""
    """For whoever mends it: a traceback."""
    kind: str = ""
    """Its identity, together with `source`; empty in a journal of version 7 or before."""
    state: AlarmMark = "once"
    action: Action | Literal[""] = ""
    """What the watch did because of it."""
    alarm: int = 0
    """Its number, by which it is acknowledged."""
    acknowledged: str = ""
    """By whom; empty: by nobody yet."""
    acknowledged_utc: str = ""
    acknowledgement: str = ""
    """What that person noted."""


@dataclass(frozen=True, slots=True)
class Pin:
    """By what an instrument is known; two pins are equal if they are of the same one."""

    device: str
    model: str
    serial: str
    place: str
    """Stable name of its port, where it has no number of its own and the port has such a name."""
    utc: str = field(default="", compare=False)
    accepted: bool = field(default=False, compare=False)
    """By a person; False: as it was first found."""
    who: str = field(default="", compare=False)
    """That person."""

    def __str__(self) -> str:
        if self.serial:
            return f"{self.model} {self.serial}"
        return f"{self.model} without a number of its own" + (f" on {self.place}" if self.place else "")


@dataclass(frozen=True, slots=True)
class TripRow:
    """A trip that nobody has reset yet."""

    reason: str
    utc: str


@dataclass(frozen=True, slots=True)
class StartRow:
    """One process that ran the campaign."""

    start: int
    utc: str
    at_s: float
    version: str
    seen_s: float
    """Last heartbeat."""
    ended: str | None
    """Why; None while it runs, or if it died."""
    safe: bool | None
    """Whether it ended with everything safe and settled; None if it died, or never had the rig."""
