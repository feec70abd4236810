"""The journal's rows: each kind is declared once, as a table (see `table`); and what is read of several together.

Money is whole micro-units, floats are SQLite's 8-byte reals (exact both ways), NaN is NULL, times are campaign seconds
(rig time made continuous across boots, see `past`) beside UTC for people. Whoever changes anything here raises VERSION:
a file of another version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from rigctl.campaign.journal.table import Column, Table, column, table, table_of
from rigctl.campaign.ledger.lines import IdleLine, LedgerLine
from rigctl.campaign.trial import Decision, Event, State
from rigctl.core.experiment.money import Micros
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action
from rigctl.rig.values import AlarmMark
from rigctl.text import Names, shown_unit

VERSION: Final = 11
"""The only version that this rigctl reads and writes."""

Phase = Literal["before", "after"]
"""When a meter was read: before the first actuator moved, or after the last reading."""

CampaignPhase = Literal["RUNNING", "HOLDING", "PAUSED", "WAITING", "ENDED"]
"""The campaign's own state, beside the trial's: trials go on; all is safe until something is in order again, until a
person says so, or until a certain time; over."""

Kind = Literal["void", "restore", "amend"]
"""A correction leaves the trial out of what the policy learns from, takes it in again, or changes its record."""

UpkeepKind = Literal["out", "in", "refilled", "replaced", "calibrated"]
"""What a person has done to a device: taken it out of service, put it back; filled its bottle; replaced a part of it;
calibrated it."""

BEGUN: Final = (Event.LOOK, Event.ARM)
"""From either of them on something may have moved, and is charged."""
INGESTED: Final = (Event.INGEST, Event.INGEST_FAILED)
_AT_S: Final = Column("at_s", "REAL", float)
_EPOCH: Final = "as in starts"


@table("campaign", key=("id",), without=("spent", "config_text", "operated", "batches"), kw_only=True)
class CampaignRow:
    """The campaign this journal is about."""

    id: int = column(check="id = 1", default=1)
    rig: str
    policy: str
    policy_options: Mapping[str, Any]
    seed: int
    currency: str
    budget: Micros
    outcome: str
    """Name of the first."""
    identity: Mapping[str, str] = column("what must not change, dotted key -> JSON")
    created_utc: str
    spent: Micros = 0
    """Sum of all ledger and idle lines, as amended; but for what is `operated`."""
    config_text: str = ""
    """As last started; empty before the first start."""
    operated: Micros = 0
    batches: int = 0
    """The same sum of batches for production, no part of `spent`; and how many of these have begun."""

    @property
    def names(self) -> Names:
        """The variables and outcomes with their units, and the words of categories; labels are not kept."""
        known = {tuple(key.split(".")): json.loads(value) for key, value in self.identity.items()}
        units, words = {self.outcome: ""}, {}
        for key, value in known.items():
            if key[0] in ("variables", "further", "outcome") and key[-1] == "unit":
                units[key[1] if len(key) > 2 else self.outcome] = shown_unit(value)
            if key[0] == "variables" and key[-1] == "levels":
                low, step = (known[*key[:-1], end] for end in ("low", "step"))
                words[key[1]] = {low + k * step: word for k, word in enumerate(value)}
        return Names(units, {}, words)


@table("starts", "one per process that opened the campaign to run it", kw_only=True)
class StartRow:
    """One process that ran the campaign."""

    start: int = column(name="id")
    utc: str
    at_s: float
    epoch: str = column("boot and clock factor; the offset holds within one epoch")
    offset_s: float = column("campaign seconds = rig seconds + offset")
    pid: int
    version: str
    config: str
    budget: Micros
    seen_utc: str = column("heartbeat")
    seen_s: float
    ended: str | None = column("why; NULL while it runs, or if it died", default=None)
    safe: bool | None = column("1: it ended with everything safe and settled; NULL if it had no rig", default=None)
    closed: bool = column("1: the file was closed in good order", default=False)
    code: Mapping[str, str] | None = column("which code decides in this process", default=None)


_START: Final = Column("start", "INTEGER", int, "of the process that wrote it", StartRow, nullable=True)


@table(
    "trials",
    key=("trial",),
    without=("looks", "traceback"),
    remarks={
        "control_set": "names",
        "setpoints": "name -> engineering units",
        "proposal": "NULL when done by hand",
        "policy_state": "after the decision; NULL when no policy took part",
        "history_length": "charged trials the decision knew",
        "budget_micros": "budget the decision knew",
        "corrections": "the last one that the decision knew; 0: none",
        "unavailable": "control sets that could not be chosen, and why",
    },
    # at most one trial is under way; one that only awaits its outcome is not
    indexes=(
        "CREATE UNIQUE INDEX trials_open ON trials ((1)) "
        "WHERE state IN ('LOOKING', 'PROPOSED', 'ARMED', 'RUNNING', 'MEASURED')",
    ),
    kw_only=True,
)
class TrialRecord(Decision):
    """A decision as it was made, and how far its trial has come."""

    trial: int = column(check="trial > 0")
    state: State


@table("events", beside=(_START,), indexes=("CREATE INDEX events_trial ON events (trial)",))
class EventRow:
    """One step of a trial."""

    trial: int = column(names=TrialRecord)
    event: Event
    state: State = column("after the event")
    utc: str
    at_s: float
    detail: str


@table(
    "states",
    "what the actuators said once the setpoints were imposed",
    key=("trial", "variable"),
    written_by=(Event.RUN,),
)
class StateRow:
    """An actuator's read-back."""

    trial: int = column(names=TrialRecord)
    variable: str
    controlled: bool
    setpoint: float | None


@table("measurements", key=("trial", "name"), written_by=(Event.MEASURE, *INGESTED))
class MeasurementRow:
    """One reduced window of samples; value and spread are None when INVALID."""

    trial: int = column(names=TrialRecord)
    name: str
    is_outcome: bool = column("0: a variable; 1, 2, ...: the outcomes, in order", name="outcome")
    value: float | None
    spread: float | None
    count: int
    invalid: int
    severity: Severity
    detail: str


@table("meter_readings", key=("trial", "meter", "phase"), written_by=BEGUN)
class MeterRow:
    """What a meter said before or after a trial; None: it could not be read."""

    trial: int = column(names=TrialRecord)
    meter: str
    phase: Phase
    value: float | None
    unit: str
    time_s: float = column(name="at_s")
    severity: Severity
    detail: str


@table("ledger", unique=("trial", "meter"), kw_only=True)
class LedgerRow(LedgerLine):
    """A line of a trial's cost, and which trial that was; nothing is charged twice."""

    trial: int = column(names=TrialRecord)


@table("doses", indexes=("CREATE INDEX doses_actuator ON doses (actuator, at_s)",))
class DoseRow:
    """One dose."""

    dose: int = column(name="id")
    trial: int | None = column(names=TrialRecord)
    actuator: str
    volume_ml: float = column("intended; of a FOUND one, given")
    total_before_ml: float
    state: Literal["INTENT", "SENT", "DONE", "UNKNOWN", "FOUND"] = column("FOUND: the pump gave it unasked")
    dispensed_ml: float | None = column("NULL while open; the full volume when UNKNOWN")
    utc: str
    at_s: float = column("when it was intended")
    settled_s: float | None
    note: str


@table("alarms", without=("acknowledged", "acknowledged_utc", "acknowledgement"))
class AlarmRow:
    """One alarm, and who has acknowledged it."""

    trial: int | None = column(names=TrialRecord)
    severity: Severity
    source: str
    message: str
    utc: str
    at_s: float
    detail: str = column("a traceback, for whoever mends it", default="")
    kind: str = column("with source: which alarm it is", default="")
    state: AlarmMark = "once"
    action: Action | Literal[""] = column("what the watch did", default="")
    alarm: int = column(name="id", default=0)
    """Its number, by which it is acknowledged."""
    acknowledged: str = ""
    """By whom; empty: by nobody yet."""
    acknowledged_utc: str = ""
    acknowledgement: str = ""
    """What that person noted."""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.source


@table(
    "trips",
    beside=(_AT_S, Column("reset_utc", "TEXT", str, "by a person; NULL while it is latched", nullable=True)),
    # at most one trip is latched
    indexes=("CREATE UNIQUE INDEX trips_latched ON trips ((1)) WHERE reset_utc IS NULL",),
)
class TripRow:
    """A trip; one that nobody has reset yet is latched."""

    reason: str
    utc: str


@table("phases", "the campaign's own states", beside=(_AT_S, _START))
class PhaseRow:
    """A change of the campaign's own state."""

    phase: CampaignPhase
    why: str
    until_s: float | None = column("campaign seconds, where it is known how long")
    utc: str


@table("pins", "which instrument stands where; the last row of a device counts")
class Pin:
    """By what an instrument is known; two pins are equal if they are of the same one."""

    device: str
    model: str
    serial: str
    place: str = column("stable name of the port, where the instrument has no number of its own")
    utc: str = column(default="", compare=False)
    accepted: bool = column("1: by a person; 0: as first found", default=False, compare=False)
    who: str = column("that person", default="", compare=False)

    @property
    def seen(self) -> Seen:
        return Seen(self.model, self.serial, self.place)

    def __str__(self) -> str:
        if self.serial:
            return str(self.seen)
        return f"{self.model} without a number of its own" + (f" on {self.place}" if self.place else "")


@table("idle", "what was used while no trial was under way", beside=(_AT_S,), kw_only=True)
class IdleRow(IdleLine):
    """A line of what no trial used, and when it was booked."""

    before_trial: int = column("the trial that came after it, or that it interrupted")
    utc: str


@table("answers", "what a dose did to the reading that judges it", key=("dose",))
class AnswerRow:
    """What a dose did."""

    dose: int = column(names=DoseRow)
    probe: str
    moved: float = column("change of the reading, sensor's unit")
    expected: float
    answered: bool
    forgiven: bool = column("1: a person has found the cause since", default=False)


@table(
    "acts",
    "audit: what people have done to the campaign",
    beside=(
        Column("alarm", "INTEGER", int, "the alarm it was done to; NULL if it was none", nullable=True),
        Column("seconds", "REAL", float, "for which that alarm is shelved", nullable=True),
        _START,
    ),
    kept=True,
    kw_only=True,
)
class ActRow:
    """What a person has done to the campaign, or tried to."""

    act: int = column(name="id")
    verb: str = column("pause, resume, void, amend, ack, finish, safe, ..., wrong token")
    argument: str = column("what it was done to, e.g. trial 12")
    who: str
    why: str
    outcome: str = column("what came of it, in words")
    utc: str
    at_s: float


@table("acknowledgements", "a person has seen the alarm", key=("alarm",), kept=True, act=("ack", "alarm {alarm}"))
class AcknowledgementRow:
    """Who has seen an alarm."""

    alarm: int = column(names=AlarmRow)
    who: str
    note: str
    utc: str
    at_s: float


@table(
    "suggestions",
    "decisions handed to a person; columns as in trials",
    without=("traceback",),
    remarks={"looks": "what a person read before asking, name -> engineering units"},
    beside=(_AT_S, _START),
    kw_only=True,
)
class SuggestionRow(Decision):
    """A decision that was handed to a person."""

    trial: int = column("the number it was made for; the last one made for it counts")
    suggestion: int = column(name="id")
    utc: str


@table("imports", "files of trials from before the campaign", kept=True, beside=(_AT_S,))
class ImportRow:
    """A file of trials from before the campaign."""

    imported: int = column(name="id")
    source: str = column("the file's name")
    digest: str = column("SHA-256 of its bytes")
    trials: int
    noise_sd: float | None = column("noise of its outcomes, own units; NULL: as the model learns it")
    noise_factor: float = column("its outcomes' noise sd over that of the campaign's own")
    who: str
    utc: str


@table(
    "by_hand",
    "what is known besides of a trial that a person did",
    key=("trial",),
    beside=(Column("trial", "INTEGER", int, names=TrialRecord),),
)
class ByHand:
    """What is known besides of a trial that a person did."""

    date: str = column("when it was done, as the person wrote it; empty: not said", default="")
    operator: str = ""
    batch: str = ""
    note: str = ""
    who: str = column("who recorded it", default="")
    suggestion: int | None = column(names=SuggestionRow, default=None)
    """Which it followed, or departed from; None: none had been asked for."""
    departed: str = column("in what it was not as suggested, in words; empty: as suggested", default="")
    imported: int | None = column("it is from before the campaign, and was not charged", names=ImportRow, default=None)
    amount: Micros | None = column("what an imported trial cost then: evidence, never charged", default=None)


@dataclass(frozen=True, slots=True)
class Amendment:
    """What is amended of a trial, or was before; what is not amended is left out."""

    values: Mapping[str, float | None] = field(default_factory=dict)
    """Variables, engineering units; None: not measured."""
    outcomes: Mapping[str, float | None] = field(default_factory=dict)
    """All that are amended, by name; None: the trial failed."""
    amount: Micros | None = None
    """Its cost; of an imported trial, what it cost then."""
    note: str | None = None


@table(
    "corrections",
    "nothing is erased: the last void or restore and the last value count",
    beside=(_AT_S,),
    kept=True,
    indexes=("CREATE INDEX corrections_trial ON corrections (trial)",),
    act=("{kind}", "trial {trial}"),
)
class CorrectionRow:
    """One correction: nothing is erased, so it stands beside the trial's own record."""

    correction: int = column(name="id")
    trial: int = column(names=TrialRecord)
    kind: Kind
    was: Amendment = column("what is amended, as it was before")
    becomes: Amendment = column("the same from now on")
    who: str
    why: str
    utc: str


@table(
    "upkeep",
    "what people have done to the instruments; audit: acts",
    kept=True,
    indexes=("CREATE INDEX upkeep_device ON upkeep (device, kind)",),
    act=("", "{device} {part}"),
)
class UpkeepRow:
    """What a person has done to a device."""

    device: str
    kind: UpkeepKind
    part: str = column("what was replaced, e.g. tubing")
    volume_ml: float | None = column("refilled: what is in the bottle now; NULL: as configured")
    age_s: float = column("how long ago that was when it was said")
    why: str
    who: str
    utc: str
    at_s: float
    epoch: str = column(_EPOCH)


@table(
    "calibrations",
    "what instruments say of their calibration, as read at starts and daily",
    beside=(Column("changed", "INTEGER", bool, "1: not as it was read the last time"),),
    kept=True,
)
class CalibrationRow:
    """What a device said of its calibration."""

    device: str
    points: int | None = column("points of its calibration; 0: none; NULL: it does not say")
    slopes: tuple[float, ...] = column("percent of an ideal probe's, as the instrument lists them")
    detail: str = column("its own words")
    utc: str
    at_s: float
    epoch: str = column(_EPOCH)


@table(
    "looks",
    "what the variables read before the trial was decided",
    key=("trial", "name"),
    written_by=(Event.LOOK, *INGESTED),
)
class LookRow:
    """What one variable read before its trial was decided; value and spread are None when INVALID."""

    trial: int = column(names=TrialRecord)
    name: str
    value: float | None
    spread: float | None
    count: int
    invalid: int
    severity: Severity
    detail: str
    utc: str
    at_s: float


@table("awaited", "trials whose rig part is over, and whose outcome comes later", key=("trial",))
class AwaitedRow:
    """A trial whose outcome comes, or came, after the rig had done its part."""

    trial: int = column(names=TrialRecord)
    how: Literal["hand", "sensor"] = column("a person says it, or it is read then")
    due_s: float = column("when it is read, or given up")
    due_utc: str
    epoch: str = column(_EPOCH)


_KINDS: Final = (
    *(CampaignRow, StartRow, TrialRecord, EventRow, StateRow, MeasurementRow, MeterRow, LedgerRow, DoseRow, AlarmRow),
    *(TripRow, PhaseRow, Pin, IdleRow, AnswerRow, ActRow, AcknowledgementRow, SuggestionRow, ImportRow, ByHand),
    *(CorrectionRow, UpkeepRow, CalibrationRow, LookRow, AwaitedRow),
)
TABLES: Final[Mapping[str, Table]] = MappingProxyType({one.name: one for one in map(table_of, _KINDS)})
"""Every table that holds something, by name, each after those that it names."""


# Read of several tables -----------------------------------------------------------------------------------------------


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
    changed_utc: str = ""
    changed_s: float = 0.0
    """When that was: its end, once it is over."""
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
    def recorded(self) -> bool:
        """Tell whether it has an outcome that the policy learns from."""
        return self.state is State.RECORDED and self.outcome is not None and not self.voided

    @property
    def imported(self) -> bool:
        """Tell whether it is from before the campaign."""
        return self.by_hand is not None and self.by_hand.imported is not None
