"""What `rigctl verify`, `backup` and `recover` do, and how they tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.stored import Caps
from rigctl.campaign.journal.verifying import Config, Verdict, verified
from rigctl.config.load import load_text
from rigctl.core.money import to_units
from rigctl.errors import RigctlError, counted
from rigctl.rig.spec import ActuatorLimits


@dataclass(slots=True)
class Allowed:
    """Works out what pumps were allowed, each configuration once; mutable, for what it could not read."""

    unread: list[int] = field(default_factory=list)
    """Processes whose configuration does not hold any more."""
    _known: dict[str, Mapping[str, ActuatorLimits] | None] = field(default_factory=dict)

    def of(self, starts: Sequence[Config]) -> Caps:
        found: dict[int, Mapping[str, ActuatorLimits]] = {}
        for start in starts:
            if start.config not in self._known:
                self._known[start.config] = _limits(start.config)
            limits = self._known[start.config]
            if limits is None:
                self.unread.append(start.start)
            else:
                found[start.start] = limits
        return found


def _limits(text: str) -> Mapping[str, ActuatorLimits] | None:
    try:
        return load_text(text, Path(f"{FILE_NAME} (configuration)")).rig.limits
    except RigctlError:
        return None


@dataclass(frozen=True, slots=True)
class Verification:
    """What `rigctl verify` found."""

    path: Path
    verdict: Verdict
    unread: tuple[int, ...]
    """Processes whose doses could not be held against caps."""

    @property
    def ok(self) -> bool:
        return not self.verdict.violations


def verify(path: Path) -> Verification:
    """Look at everything in the journal at `path`, a file or a state directory.

    Raises:
        UsageError: there is none.
        JournalNewer: a newer rigctl wrote it.
    """
    file, allowed = (path / FILE_NAME if path.is_dir() else path), Allowed()
    verdict = verified(file, allowed.of)
    return Verification(file, verdict, tuple(allowed.unread))


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
