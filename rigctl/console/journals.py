"""What `rigctl journal verify`, `backup`, `recover` and `export` do, and how they tell it.

Trials and ledger go to other programs as CSV or JSON lines; the CSV of trials is what `--history` reads.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TextIO

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.backup import Backup, back_up, keep_newest, named
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.recovering import Loss, recover_journal
from rigctl.campaign.journal.recovering import told as told_loss
from rigctl.campaign.journal.rows import (
    ActRow,
    AlarmRow,
    Amendment,
    ByHand,
    DoseRow,
    EventRow,
    ImportRow,
    LedgerRow,
    MeasurementRow,
    SuggestionRow,
    TrialRow,
)
from rigctl.campaign.journal.stored import Caps
from rigctl.campaign.journal.verifying import Config, JournalVerdict, verified
from rigctl.campaign.trial import State
from rigctl.config.load import load_text
from rigctl.console.assemble import OpenCampaign
from rigctl.console.benches.by_hand import IMPORTED, LOOK, LOOK_SD, VOID
from rigctl.console.options import Records
from rigctl.console.output import told
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_units
from rigctl.core.experiment.space import Space, Variable
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.files import whole
from rigctl.flaws import Flaw, got
from rigctl.printable import cell
from rigctl.rig.spec import RigSpec
from rigctl.text import set_label

BACKUPS: Final = "backups"
"""In the state directory."""


def _rig(text: str) -> RigSpec | None:
    try:
        return load_text(text, Path(f"{FILE_NAME} (configuration)")).rig
    except RigctlError:
        return None


@dataclass(frozen=True, slots=True)
class Verification:
    """What `rigctl journal verify` found."""

    path: Path
    verdict: JournalVerdict
    unread: tuple[int, ...]
    """Processes whose doses could not be held against caps."""

    @property
    def ok(self) -> bool:
        return not self.verdict.violations


def verify(path: Path) -> Verification:
    """Look at everything in the journal at `path`, a file or a state directory.

    Raises:
        UsageError: there is none.
        JournalVersion: another version of rigctl wrote it.
    """
    file = path / FILE_NAME if path.is_dir() else path
    unread: list[int] = []

    def allowed(starts: Sequence[Config]) -> Caps:
        rigs = {text: _rig(text) for text in {start.config for start in starts}}
        found = {start.start: rigs[start.config] for start in starts}
        unread.extend(number for number, rig in found.items() if rig is None)
        return {number: rig for number, rig in found.items() if rig is not None}

    try:
        verdict = verified(file, allowed)
    except UsageError as error:
        must = "must be a journal's file, its state directory, or the configuration of a rig that has run"
        raise UsageError(Flaw(", which is no journal", must, got=str(path), where="verify")) from error
    return Verification(file, verdict, tuple(unread))


def verification_json(found: Verification) -> Mapping[str, Any]:
    held = found.verdict.held
    known = {} if held is None else {"trials": held.trials, "charged": to_units(held.spent), "rows": held.rows}
    return {
        "file": found.path,
        "ok": found.ok,
        **known,
        "violations": found.verdict.violations,
        "caps_not_checked_of_processes": found.unread,
    }


def verification_lines(found: Verification) -> Sequence[str]:
    """Say what is wrong, and in one last line how much was looked at."""
    held, lines = found.verdict.held, [str(violation) for violation in found.verdict.violations]
    if found.unread:
        numbers = ", ".join(map(str, found.unread))
        lines.append(f"caps not checked for process {numbers}: its configuration does not load here any more")
    size = "" if held is None else f"{counted(held.trials, 'trial')}, {counted(sum(held.rows.values()), 'row')}: "
    wrong = len(found.verdict.violations)
    return [*lines, f"{found.path}: {size}{'everything holds' if not wrong else counted(wrong, 'violation')}"]


def backup(directory: Path, to: Path | None, keep: int | None, now: datetime) -> Backup:
    """Copy a state directory's journal, by default to `backups` in it; remove all but the newest if `keep` says so.

    Raises:
        UsageError: there is no journal, or something has the name already.
        JournalError: it is damaged, or cannot be copied.
    """
    target = directory / BACKUPS if to is None else to
    if to is None and (directory / FILE_NAME).exists():
        target.mkdir(mode=0o700, exist_ok=True)
    is_folder = target.is_dir()
    if to is not None and not to.suffix and not to.exists():  # a stick that is not mounted, as often as not
        raise UsageError(f"--to {to}: there is no such directory; make it, mount it, or name a file: {to}.sqlite")
    if keep is not None and not is_folder:
        raise UsageError(f"--keep {keep}: {target} is no directory; give one, in which backups are named by their time")
    made = back_up(directory / FILE_NAME, named(target, now) if is_folder else target)
    return made if keep is None else replace(made, removed=keep_newest(made.file, keep))


def backup_json(made: Backup) -> Mapping[str, Any]:
    return {
        "file": made.file,
        "bytes": made.size,
        "trials": made.holds.trials,
        "charged": to_units(made.holds.spent),
        "last_event": made.holds.last_event,
        "verified": True,
        "removed": made.removed,
    }


def backup_lines(made: Backup) -> Sequence[str]:
    gone = f"; {counted(len(made.removed), 'older backup')} removed" if made.removed else ""
    return [f"{made.file}: {made.size / 1e6:.1f} MB, {counted(made.holds.trials, 'trial')}, verified{gone}"]


def recover(path: Path, directory: Path, who: str, now: datetime) -> Loss:
    """Make a new journal in `directory` of what can be read of a damaged one, a file or a state directory.

    Raises:
        UsageError: there is no such file, or the directory holds something.
        JournalCorrupt: nothing of it can be read.
    """
    file = path / FILE_NAME if path.is_dir() else path
    return recover_journal(file, directory, who, now.isoformat(timespec="milliseconds"))


def loss_json(loss: Loss) -> Mapping[str, Any]:
    return {
        "file": loss.file,
        "ok": not loss.left,
        "lost": told_loss(loss) if not loss.nothing else [],
        "trials": loss.trials,
        "tables": loss.tables,
        "trials_closed": loss.closed,
        "trials_without_record": loss.undecided,
        "estimated": to_units(loss.estimated),
        "booked_ml": loss.booked_ml,
        "end_missing": loss.tail,
        "violations": loss.left,
    }


def loss_lines(loss: Loss, directory: Path) -> Sequence[str]:
    """Say what is lost, one thing per line, and what to do next."""
    new = directory / FILE_NAME
    held = (
        "everything holds"
        if not loss.left
        else f"{counted(len(loss.left), 'violation')}; `rigctl journal verify {new}`"
    )
    following = f"look at what it holds, then go on: `rigctl run CONFIG --state {directory}`"
    return [
        *(f"{loss.file}: {phrase}" for phrase in told_loss(loss)),
        f"{new}: {counted(loss.trials, 'trial')}, {held}",
        following,
    ]


# records for other programs -------------------------------------------------------------------------------------------


def export(campaign: OpenCampaign, what: str, form: str, out: Path | None) -> None:
    """Write all records of one kind to a file or standard output; raises UsageError if it cannot be written."""
    if out is None:
        write(campaign, what, form, sys.stdout)
        return
    try:
        with whole(out) as new, new.open("w", encoding="utf-8", newline="") as stream:
            write(campaign, what, form, stream)
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}; choose another place") from error


def write(campaign: OpenCampaign, what: str, form: str, out: TextIO) -> None:
    """Write all records of one kind, as `csv` or `jsonl`."""
    rows = list(records(campaign, what))
    if form == "jsonl":
        out.writelines(json.dumps(told(row), allow_nan=False) + "\n" for row in rows)
        return
    loaded = campaign.loaded
    bare = _trial_columns(loaded.problem.space, loaded.rig.outcome_names) if what == Records.TRIALS else _columns(what)
    writer = csv.DictWriter(out, list(rows[0]) if rows else bare, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)


def records(campaign: OpenCampaign, what: str) -> Iterator[Mapping[str, Any]]:
    """Yield all records of one kind, by column; raises UsageError if there is no such kind."""
    if what not in list(Records):
        raise UsageError(got(what, f"must be one of {', '.join(Records)}", where="records"))
    reader, loaded = campaign.reader, campaign.loaded
    if what == Records.TRIALS:
        space, outcomes = loaded.problem.space, loaded.rig.outcome_names
        columns = _of_trials(space, outcomes, Handed(reader.people.suggestions(), reader.people.imports()))
        over = [row for row in reader.trials() if row.state.charged]
        looked = _of_looks(space) if any(row.looks for row in over) else {}
        yield from ({name: cell_of(row) for name, cell_of in {**columns, **looked}.items()} for row in over)
        return
    for row in _RECORDS[what][1](reader):
        cells = told(row)
        if what == Records.LEDGER:
            cells = {"trial": cells.pop("trial"), **cells, "amount": exact(row.amount)}
        yield cells


def _ledger(reader: Reader) -> Iterator[LedgerRow]:
    """Yield the ledger with what amended costs add or take, and what no trial used: its sum is what was spent.

    What no trial used is of the kind `idle`, with the trial that came after it.
    """
    yield from reader.ledger()
    imported = {row.trial for row in reader.trials() if row.imported}
    for made in reader.people.corrections():
        if made.becomes.amount is not None and made.trial not in imported:
            difference = made.becomes.amount - (made.was.amount or 0)
            yield LedgerRow("amended", "amended", None, "trial", difference, note=made.why, trial=made.trial)
    for row in reader.idle.rows():
        yield LedgerRow(row.meter, "idle", row.quantity, row.unit, row.amount, note=row.note, trial=row.before_trial)


_RECORDS: Final[Mapping[str, tuple[type[Any], Callable[[Reader], Iterable[Any]]]]] = MappingProxyType(
    {
        "ledger": (LedgerRow, _ledger),
        "measurements": (MeasurementRow, lambda reader: reader.measurements()),
        "events": (EventRow, lambda reader: reader.events()),
        "doses": (DoseRow, lambda reader: reader.doses.rows()),
        "alarms": (AlarmRow, lambda reader: reader.alarms.rows()),
        "acts": (ActRow, lambda reader: reader.people.acts()),
    }
)
"""Records that are no trials: what each is, and where they are read."""


def _columns(what: str) -> Sequence[str]:
    """Return the columns of records that are no trials."""
    names = [field.name for field in fields(_RECORDS[what][0])]
    return ["trial", *(n for n in names if n != "trial")] if what == Records.LEDGER else names


@dataclass(frozen=True, slots=True)
class Handed:
    """Holds what a person was handed, or has brought, by number."""

    suggestions: Mapping[int, SuggestionRow] = field(default_factory=dict)
    imports: Mapping[int, ImportRow] = field(default_factory=dict)


Cell = Callable[[TrialRow], object]
"""What stands of a trial in one column."""


def _trial_columns(space: Space, outcomes: Sequence[str]) -> Sequence[str]:
    return list(_of_trials(space, outcomes, Handed()))


def _of_trials(space: Space, outcomes: Sequence[str], handed: Handed) -> Mapping[str, Cell]:

    def part(of: str, name: str) -> Cell:
        return lambda row: getattr(row, of).get(name)

    def worded(of: str, name: str) -> Cell:
        return lambda row: space.worded(getattr(row, of)).get(name)

    def outcome(name: str) -> Cell:
        mine = (lambda row: row.outcome) if name == outcomes[0] else part("further", name)
        return lambda row: mine(row) if row.state is State.RECORDED else None

    return {
        "trial": lambda row: row.trial,
        "state": lambda row: row.state.value,
        "phase": lambda row: "" if row.proposal is None else row.proposal.phase,
        "control_set": lambda row: set_label(row.control_set),
        **{f"setpoint.{name}": worded("setpoints", name) for name in space.names},
        **{name: worded("measured", name) for name in space.names},
        **{name: outcome(name) for name in outcomes},
        "cost": lambda row: exact(row.cost),
        "cost_estimated": lambda row: row.estimated,
        "started": lambda row: row.started_utc,
        "ended": lambda row: row.ended_utc,
        "origin": lambda row: IMPORTED if row.imported else row.origin,
        "because": lambda row: row.because,
        **_of_people(handed, space),
    }


def _of_looks(space: Space) -> Mapping[str, Cell]:
    """Return columns of what the variables read before the decision, and those readings' standard deviation."""

    def value(v: Variable) -> Cell:
        return lambda row: v.worded(getattr(row.looks.get(v.name), "value", None))

    def error(v: Variable) -> Cell:
        return lambda row: getattr(row.looks.get(v.name), "sd", None)

    return {f"{LOOK}.{v.name}": value(v) for v in space.variables} | {
        f"{LOOK_SD}.{v.name}": error(v) for v in space.variables
    }


def _of_people(handed: Handed, space: Space) -> Mapping[str, Cell]:
    """Return columns of what people did and said."""

    def known(of: Callable[[ByHand], object]) -> Cell:
        return lambda row: of(row.by_hand or ByHand())

    def suggested(by_hand: ByHand) -> str:
        return "" if by_hand.suggestion is None else set_label(handed.suggestions[by_hand.suggestion].control_set)

    def source(part: str) -> Cell:
        return known(lambda by_hand: getattr(handed.imports[by_hand.imported], part) if by_hand.imported else None)

    return {
        "hand.date": known(lambda by_hand: by_hand.date),
        "hand.operator": known(lambda by_hand: by_hand.operator),
        "hand.batch": known(lambda by_hand: by_hand.batch),
        "hand.note": lambda row: row.remark,
        "hand.suggested": known(suggested),
        "hand.departed": known(lambda by_hand: by_hand.departed),
        "hand.cost_then": known(lambda by_hand: None if by_hand.amount is None else exact(by_hand.amount)),
        "hand.noise_sd": source("noise_sd"),
        "hand.noise_factor": source("noise_factor"),
        "corrected.void": lambda row: VOID if row.voided else "",
        "corrected.amended": lambda row: "; ".join(was for c in row.corrected for was in _was(c.was, space)),
        "corrected.why": lambda row: "; ".join(f"{c.kind} by {c.who} {c.utc}: {c.why}" for c in row.corrected),
    }


def _was(before: Amendment, space: Space) -> Iterator[str]:
    """Say what was amended, as it was before: the columns have what it is now."""
    for name, value in {**space.worded(before.values), **before.outcomes}.items():
        yield f"{name} was {'nothing' if value is None else value}"
    if before.amount is not None:
        yield f"cost was {exact(before.amount):f}"
    if before.note is not None:
        yield f'note was "{before.note}"'


def exact(amount: Micros) -> Decimal:
    """Return an amount in currency units, every micro-unit kept."""
    return (Decimal(amount) / MICROS_PER_UNIT).normalize() + 0


def _cell(value: Any) -> Any:
    """Return what stands in a CSV cell; floats in the shortest form that reads back the same."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return cell(value)
    return "" if value is None else repr(value) if isinstance(value, float) else value
