"""What `rigctl journal verify`, `backup` and `recover` do, and how they tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rigctl.campaign.journal.backup import Backup, back_up, keep_newest, named
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.recovering import Loss, recover_journal, told
from rigctl.campaign.journal.stored import Caps
from rigctl.campaign.journal.verifying import Config, JournalVerdict, verified
from rigctl.config.load import load_text
from rigctl.core.experiment.money import to_units
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.flaws import Flaw
from rigctl.rig.spec import RigSpec

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
