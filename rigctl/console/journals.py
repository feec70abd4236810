"""What `rigctl journal verify`, `backup`, `recover` and `export` do, and how they tell it.

Trials and ledger go to other programs as CSV or JSON lines; the CSV of trials is what `--history` reads.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TextIO

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.backup import Backup, back_up, keep_newest, named
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.recovering import Loss, recover_journal, told
from rigctl.campaign.journal.rows import (
    ActRow,
    AlarmRow,
    Amendment,
    ByHand,
    DoseRow,
    EventRow,
    IdleRow,
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
from rigctl.core.experiment.space import Space
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
        "trials": made.trials,
        "charged": to_units(made.charged),
        "last_event": made.last_event,
        "verified": True,
        "removed": made.removed,
    }


def backup_lines(made: Backup) -> Sequence[str]:
    gone = f"; {counted(len(made.removed), 'older backup')} removed" if made.removed else ""
    return [f"{made.file}: {made.size / 1e6:.1f} MB, {counted(made.trials, 'trial')}, verified{gone}"]


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
        "lost": told(loss) if not loss.nothing else [],
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
        *(f"{loss.file}: {phrase}" for phrase in told(loss)),
        f"{new}: {counted(loss.trials, 'trial')}, {held}",
        following,
    ]


# records for other programs ----------------------------------------------------------------------------------------------


def export(campaign: OpenCampaign, what: str, form: str, out: Path | None) -> None:
    """Write all records of one kind to a file or standard output.

    Raises:
        UsageError: the file cannot be written.
    """
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
    space, outcomes = campaign.loaded.problem.space, campaign.loaded.rig.outcome_names
    rows = list(records(campaign, what))
    if form == "jsonl":
        out.writelines(json.dumps(told(row), allow_nan=False) + "\n" for row in rows)
        return
    bare = _trial_columns(space, outcomes) if what == Records.TRIALS else _columns(what)
    header = list(rows[0]) if rows else bare
    writer = csv.DictWriter(out, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _cell(v) for k, v in row.items()} for row in rows)


def records(campaign: OpenCampaign, what: str) -> Iterator[Mapping[str, Any]]:
    """Yield all records of one kind, by column.

    Raises:
        UsageError: there is no such kind.
    """
    if what not in list(Records):
        raise UsageError(got(what, f"must be one of {', '.join(Records)}", where="records"))
    reader, loaded = campaign.reader, campaign.loaded
    if what == Records.TRIALS:
        space, outcomes = loaded.problem.space, loaded.rig.outcome_names
        handed = Handed(reader.people.suggestions(), reader.people.imports())
        over = [row for row in reader.trials() if row.state.charged]
        looked = any(row.looks for row in over)
        yield from ({**_trial(row, space, outcomes, handed), **(_looks(row, space) if looked else {})} for row in over)
        return
    sources: Mapping[str, Iterable[Any]] = {
        "ledger": (*reader.ledger(), *_amended(reader), *map(_idle, reader.idle.rows())),
        "measurements": reader.measurements(),
        "events": reader.events(),
        "doses": reader.doses.rows(),
        "alarms": reader.alarms.rows(),
        "acts": reader.people.acts(),
    }
    for row in sources[what]:
        cells = told(row)
        if what == Records.LEDGER:
            cells = {"trial": cells.pop("trial"), **cells, "amount": exact(row.amount)}
        yield cells


def _amended(reader: Reader) -> Iterator[LedgerRow]:
    """Yield what amended costs add to the ledger or take from it, so that its sum is what was spent."""
    imported = {row.trial for row in reader.trials() if row.imported}
    for made in reader.people.corrections():
        if made.becomes.amount is not None and made.trial not in imported:
            difference = made.becomes.amount - (made.was.amount or 0)
            yield LedgerRow("amended", "amended", None, "trial", difference, note=made.why, trial=made.trial)


def _idle(row: IdleRow) -> LedgerRow:
    """Return what no trial used in the ledger's columns: of the kind `idle`, with the trial that came after it."""
    return LedgerRow(row.meter, "idle", row.quantity, row.unit, row.amount, note=row.note, trial=row.before_trial)


def _columns(what: str) -> Sequence[str]:
    """Return the columns of records that are no trials."""
    names = [field.name for field in fields(_ROWS[what])]
    return ["trial", *(n for n in names if n != "trial")] if what == Records.LEDGER else names


def _trial_columns(space: Space, outcomes: Sequence[str]) -> tuple[str, ...]:
    setpoints = (f"setpoint.{name}" for name in space.names)
    others = ("cost_estimated", "started", "ended", "origin", "because")
    return ("trial", "state", "phase", "control_set", *setpoints, *space.names, *outcomes, "cost", *others, *OF_PEOPLE)


_ROWS: Final = MappingProxyType(
    {
        "ledger": LedgerRow,
        "measurements": MeasurementRow,
        "events": EventRow,
        "doses": DoseRow,
        "alarms": AlarmRow,
        "acts": ActRow,
    }
)


@dataclass(frozen=True, slots=True)
class Handed:
    """Holds what a person was handed, or has brought, by number."""

    suggestions: Mapping[int, SuggestionRow]
    imports: Mapping[int, ImportRow]


OF_PEOPLE = (
    *("hand.date", "hand.operator", "hand.batch", "hand.note", "hand.suggested", "hand.departed", "hand.cost_then"),
    *("hand.noise_sd", "hand.noise_factor"),
    *("corrected.void", "corrected.amended", "corrected.why"),
)


def _trial(row: TrialRow, space: Space, outcomes: Sequence[str], handed: Handed) -> Mapping[str, Any]:
    recorded = row.state is State.RECORDED
    values = (
        row.trial,
        row.state.value,
        "" if row.proposal is None else row.proposal.phase,
        set_label(row.control_set),
        *(row.setpoints.get(name) for name in space.names),
        *(row.measured.get(name) for name in space.names),
        row.outcome if recorded else None,
        *(row.further.get(name) if recorded else None for name in outcomes[1:]),
        exact(row.cost),
        row.estimated,
        row.started_utc,
        row.ended_utc,
        IMPORTED if row.imported else row.origin,
        row.because,
        *_of_people(row, handed),
    )
    return dict(zip(_trial_columns(space, outcomes), values, strict=True))


def _looks(row: TrialRow, space: Space) -> Mapping[str, float | None]:
    """Return what the variables read before the decision, and those readings' standard deviation, in columns."""
    looks = {name: row.looks.get(name) for name in space.names}
    values = {f"{LOOK}.{name}": None if look is None else look.value for name, look in looks.items()}
    sds = {f"{LOOK_SD}.{name}": None if look is None else look.sd for name, look in looks.items()}
    return values | sds


def _of_people(row: TrialRow, handed: Handed) -> tuple[object, ...]:
    known = row.by_hand or ByHand()
    source = None if known.imported is None else handed.imports[known.imported]
    return (
        known.date,
        known.operator,
        known.batch,
        row.remark,
        "" if known.suggestion is None else set_label(handed.suggestions[known.suggestion].control_set),
        known.departed,
        None if known.amount is None else exact(known.amount),
        None if source is None else source.noise_sd,
        None if source is None else source.noise_factor,
        VOID if row.voided else "",
        "; ".join(was for c in row.corrected for was in _was(c.was)),
        "; ".join(f"{c.kind} by {c.who} {c.utc}: {c.why}" for c in row.corrected),
    )


def _was(before: Amendment) -> Iterator[str]:
    """Say what was amended, as it was before: the columns have what it is now."""
    for name, value in {**before.values, **before.outcomes}.items():
        yield f"{name} was {'nothing' if value is None else repr(value)}"
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
