"""Going safe: `rigctl safe`, and the first thing `rigctl run` does; needs no journal, lock or valid configuration."""

# ruff: noqa: PLC0415  # what going safe does not need is imported only when it is reached for

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigctl.campaign import control, safe_file
from rigctl.campaign.lock import campaign_here, end_campaign
from rigctl.campaign.safe_file import Driven, SafeFile, go_safe, joined, recognisable, standing
from rigctl.console.options import STATES, require_devices, require_linux
from rigctl.console.output import told
from rigctl.errors import RigctlError, UsageError
from rigctl.logs import logger
from rigctl.people import this_person
from rigctl.rig.values import SafeReport
from rigctl.signals import NO_SECOND, Signals

ANSWER_S = 60.0
"""Wall seconds for a campaign that answers to make everything safe and say so; a slow bus may need many."""
END_S = 5.0
"""Wall seconds for one that does not answer to end by itself, and once more after it was killed."""
RIG = re.compile(r"""^rig\s*:\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\s#"'][^#\n]*))""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Done:
    """Says what came of going safe."""

    by: str
    report: SafeReport
    notes: tuple[str, ...] = ()
    """What could not be taken into account."""

    @property
    def exit_code(self) -> int:
        return 0 if self.report.ok else 1

    def to_json(self) -> Mapping[str, Any]:
        return {**safe_json(self.report), "by": self.by, "notes": self.notes}


NOBODY = "nobody"
"""Makes safe what needs it not."""
_NOTHING = Done(NOBODY, SafeReport(()), ("nothing was left driven",))


def safe_json(report: SafeReport) -> Mapping[str, Any]:
    return {"ok": report.ok, **told(report)}


def state_of(config: Path | None, state: Path | None) -> Path | None:
    """Return where a campaign's state is, also if its configuration does not hold; None: it cannot be told."""
    if state is not None:
        return state
    if config is not None:
        try:
            named = RIG.search(config.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        return None if named is None else STATES / next(filter(None, named.groups())).strip()
    found = [path.parent for path in STATES.glob(f"*/{safe_file.FILE_NAME}")]
    return found[0] if len(found) == 1 else None


# before anything else ---------------------------------------------------------------------------------------------


def safe_first(config: Path, state: Path | None) -> SafeReport | None:
    """Drive safe what a process that died has left driven; None: nothing was.

    Whatever else is wrong is told later: this never keeps anybody from starting.
    """
    log = logger("rigctl.console")
    try:
        left = _left_driven(config, state)
    except RigctlError as error:
        log.warning("what was last driven is not known", error=str(error))
        return None
    if left is None:
        return None
    report = go_safe(left.devices, left.speedup)
    level = logging.WARNING if report.ok else logging.ERROR
    log.log(level, f"an earlier process left the rig driven: {standing(report)}", **safe_json(report))
    return report


def _left_driven(config: Path | None, state: Path | None) -> SafeFile | None:
    """Return the word of a process that died and left a rig driven; None: there is none, or a campaign runs."""
    directory = state_of(config, state)
    left = None if directory is None or campaign_here(directory) else safe_file.read(directory)
    return left if left is not None and left.driven and not left.writer.alive else None


@contextmanager
def left_safe(config: Path, state: Path | None, signals: Signals | None) -> Iterator[SafeReport | None]:
    """Make safe what a process that died has left driven, as `safe_first`; then a campaign may begin within.

    If none begins and the rig is not confirmed safe, stay until it is or a second signal comes (fault 82).
    """
    left = safe_first(config, state)
    try:
        yield left
    except Exception as error:
        insisted = signals is not None and sum(name != NO_SECOND for name in signals.heard) > 1
        if left is not None and not left.ok and not insisted:
            report = make_left_safe(config, state, {}, signals).report
            if not report.ok and isinstance(error, RigctlError):
                error.extend(f"; {standing(report)}")
        raise


# `rigctl safe` ----------------------------------------------------------------------------------------------------


def make_safe(
    config: Path | None,
    state: Path | None,
    buses: Mapping[str, str],
    signals: Signals | None = None,
    *,
    force: bool = False,
) -> Done:
    """Bring everything to its safe state: by the running campaign, else by us. Takes no lock and writes nothing.

    What was last driven counts, and with it what a configuration names that is given. A campaign that does not answer
    is ended with `force`. With `signals` it is tried until it is confirmed, or until one comes.

    Raises:
        UsageError, ConfigError: nothing says what there is to drive, or this system cannot drive it.
        RigctlError: the campaign that runs does not answer.
    """
    directory = state_of(config, state)
    if directory is None:
        from rigctl.console.assemble import find_state

        directory = find_state(config, state)
    refused: list[str] = []
    told = _by_campaign(directory, refused, force=force)
    if told is not None:
        return Done("the running campaign", told)
    require_linux(str(config or directory))
    devices, speedup, notes = _what(config, directory, buses)
    return Done("rigctl safe", go_safe(devices, speedup, signals), (*refused, *notes))


def make_left_safe(
    config: Path | None, state: Path | None, buses: Mapping[str, str], signals: Signals | None = None
) -> Done:
    """Bring to its safe state what a campaign that died has left driven; a running one is left alone.

    What cannot be told counts as driven: where the word that was left cannot be read, all that is configured goes safe.
    """
    try:
        left = _left_driven(config, state)
    except RigctlError:
        return make_safe(config, state, buses, signals)
    return _NOTHING if left is None else Done("rigctl safe", go_safe(left.devices, left.speedup, signals))


def _by_campaign(directory: Path, refused: list[str], *, force: bool) -> SafeReport | None:
    """Return what the running campaign has confirmed, once it has; None: none runs, or any more.

    Who answers in its place is not asked, and told of in `refused`.
    """
    try:
        control.ask(directory, "status")  # one that hangs is found out soon
        answer = control.ask(directory, "safe", ANSWER_S, who=this_person())
    except RigctlError as error:
        pid = campaign_here(directory)
        if pid is None:
            if not isinstance(error, UsageError):
                refused.append(str(error))
            return None
        if force and end_campaign(directory, END_S):
            return None
        if isinstance(error, UsageError):
            raise RigctlError(
                f"{directory}: process {pid} runs this campaign, but does not listen here; `kill {pid}` makes "
                f"everything safe and ends it. If it does not end, `rigctl safe --force` ends it and makes all safe"
            ) from error
        raise
    return SafeReport(tuple(answer["reached"]), answer["failed"])


def _what(
    config: Path | None, directory: Path, buses: Mapping[str, str]
) -> tuple[Sequence[Driven], float, tuple[str, ...]]:
    """Return all that may be driven, and how fast rig time runs: as last driven, and as configured if that is given."""
    left: SafeFile | None = None
    notes: list[str] = []
    try:
        left = safe_file.read(directory)
    except RigctlError as error:
        notes.append(str(error))
    if left is not None and config is None:
        return left.devices, left.speedup, tuple(notes)
    try:
        from rigctl.console.assemble import loaded_here

        loaded = loaded_here(config, directory, buses)
        require_devices(loaded)
    except Exception as error:  # whatever is wrong with a configuration, it keeps nobody from going safe
        if left is None:
            raise
        return left.devices, left.speedup, (*notes, f"by what was last driven only: {error}")
    last = () if left is None else left.devices
    configured = recognisable(safe_file.driven_by(loaded.rig), last)
    return joined(configured, last if left is not None and left.driven else ()), loaded.rig.speedup, tuple(notes)
