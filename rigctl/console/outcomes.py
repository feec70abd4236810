"""`rigctl outcome`: read what a person says came of trials, hold it against what is known, and record it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rigctl.campaign.acts import Outcome
from rigctl.campaign.awaiting import told_utc
from rigctl.campaign.corrections import awaits, given_up
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.assemble import find_own_state, open_campaign, perform
from rigctl.console.by_hand import ManualRow, by_name
from rigctl.console.doubts import doubts
from rigctl.console.outcome_file import Said, given_in
from rigctl.console.spreadsheet import Decimals
from rigctl.core.aftermath import forecast
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.errors import ConfigError, Mistake, UsageError

FAR: Final = 6.0
"""Standard deviations from what was expected of a trial, beyond which an outcome is asked about..."""
FEWEST: Final = 8
"""...once so many outcomes are known: fewer do not teach what to expect."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds what the command line says."""

    config: Path | None
    said: tuple[Said, ...] = ()
    source: Path | None = None
    lost: bool = False
    decimals: Decimals | None = None
    """Of the file's numbers; None: as they say."""

    @property
    def nothing(self) -> bool:
        """Tell whether only a list of what is awaited is asked for."""
        return not self.said and self.source is None


def asked_of(
    which: Sequence[str], source: Path | None, values: str, decimals: Decimals | None = None, *, lost: bool
) -> Asked:
    """Read `[CONFIG] [TRIAL VALUE [UNIT]]` and what belongs to it.

    Raises:
        UsageError: it is nothing of the kind.
    """
    words = list(which)
    config = Path(words.pop(0)) if words and not words[0].isdecimal() else None
    got = " ".join(which) or "nothing"
    if source is not None:
        if words or values or lost:
            raise UsageError(f"outcome: got {got} and --from {source}; give either a file or one trial")
        return Asked(config, source=source, decimals=decimals)
    if decimals is not None:
        raise UsageError("--decimal: says how a file is to be read; give --from FILE, too, or leave it out")
    if not words:
        if values or lost:
            raise UsageError("outcome: give the trial's number, too: rigctl outcome TRIAL VALUE [UNIT]")
        return Asked(config)
    if not words[0].isdecimal() or len(words) > 3 or (len(words) == 1) != lost:
        wanted = "TRIAL --lost --why TEXT" if lost else "TRIAL VALUE [UNIT]"
        raise UsageError(f"outcome: got {got}, must be [CONFIG] {wanted}")
    said = Said(int(words[0]), " ".join(words[1:]), by_name("--values", values))
    return Asked(config, (said,), lost=lost)


def directory_of(config: Path | None, state: Path | None) -> Path:
    """Return the campaign's state directory."""
    return find_own_state(config, state)


# What is awaited ------------------------------------------------------------------------------------------------------


def waiting(directory: Path) -> list[Mapping[str, Any]]:
    """Return the trials that await their outcome, for programs."""
    with open_reader(directory) as reader:
        rows = [row for row in reader.trials() if row.state is State.AWAITING]
    return [
        {
            "trial": row.trial,
            "control_set": list(row.control_set),
            "setpoints": dict(row.setpoints),
            "since_utc": row.started_utc,
            "due_utc": None if row.awaited is None else row.awaited.due_utc,
            "how": None if row.awaited is None else row.awaited.how,
        }
        for row in rows
    ]


def lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which trials await their outcome."""
    if not found:
        return ["No outcome is awaited."]
    return [
        f"trial {row['trial']}: {'+'.join(row['control_set'])} at "
        f"{', '.join(f'{n} {v:g}' for n, v in row['setpoints'].items())}, awaited until {told_utc(row['due_utc'])}"
        for row in found
    ]


# What is said ---------------------------------------------------------------------------------------------------------


def record(
    directory: Path, asked: Asked, sure: Callable[[Sequence[str]], None], *, force: bool, why: str
) -> list[Mapping[str, Any]]:
    """Record outcomes; return what came of it, trial by trial. Of a file all or nothing; what it says twice once.

    Raises:
        UsageError: a trial awaits none, or what is said looks mistyped and nobody is sure.
        ConfigError: the file does not hold.
        RigctlError: the campaign that runs here refuses, or does not answer.
    """
    if asked.lost:
        return [perform(Outcome(why=why, trial=asked.said[0].trial, lost=True), directory)]
    known: list[Mapping[str, Any]] = []
    with open_campaign(asked.config, directory) as campaign:
        loaded, reader, said = campaign.loaded, campaign.reader, asked.said
        if asked.source is not None:
            given = given_in(loaded, asked.source, asked.decimals)
            said, so = _all_awaited(loaded, reader, given.said, force=force)
            known += [{"trial": n, "outcome": f"trial {n}: is recorded so already"} for n in so]
            known += [{"trial": n, "outcome": f"trial {n}: nothing is said of it here yet"} for n in given.empty]
            if given.unread:
                note = f"{asked.source}: not read: {', '.join(given.unread)}"
                known.insert(0, {"trial": None, "outcome": note})
        outcomes = {one.trial: _numbers(loaded, one) for one in said}
        found = [
            doubt
            for one in said
            for doubt in _doubts(loaded, reader, reader.trial(one.trial), outcomes[one.trial], one)
        ]
    if found:
        sure(found)
    for one in said:
        act = Outcome(why=one.why or why, trial=one.trial, outcomes=outcomes[one.trial], force=force)
        known.append(perform(act, directory))
    return known


def _all_awaited(
    loaded: LoadedConfig, reader: Reader, said: Sequence[Said], *, force: bool
) -> tuple[tuple[Said, ...], tuple[int, ...]]:
    """Return what a file says that is new, and the trials of which it says what is recorded already.

    Raises:
        ConfigError: what it says cannot be recorded; every line of it, and nothing was.
    """
    new, so, mistakes = [], [], []
    for one in said:
        try:
            row, outcomes = reader.trial(one.trial), _numbers(loaded, one)
            if _is_so(loaded, row, outcomes):
                so.append(one.trial)
                continue
            if not (force and given_up(row)):
                awaits(reader, row, outcomes)
            new.append(one)
        except UsageError as error:
            mistakes.append(Mistake(one.where, str(error).removeprefix(f"{one.where}: ").removeprefix("outcome: ")))
    if mistakes:
        raise ConfigError(mistakes)
    return tuple(new), tuple(so)


def judged(directory: Path, trial: int, said: Mapping[str, str]) -> tuple[Mapping[str, float], tuple[str, ...]]:
    """Return what is said of a trial, by outcome, in the outcomes' own units, and what looks mistyped.

    Raises:
        UsageError: it is no quantity of this kind, or there is no such trial.
        ConfigError: the configuration does not hold any more.
    """
    with open_campaign(None, directory) as campaign:
        loaded, reader = campaign.loaded, campaign.reader
        first = loaded.rig.outcome_name
        one = Said(trial, said.get(first, ""), {name: text for name, text in said.items() if name != first})
        outcomes = _numbers(loaded, one)
        return outcomes, tuple(_doubts(loaded, reader, reader.trial(trial), outcomes, one))


def _numbers(loaded: LoadedConfig, said: Said) -> Mapping[str, float]:
    """Return what is said in the outcomes' own units, by name.

    Raises:
        UsageError: it is no quantity that can be converted to that.
    """
    units, first = Units(loaded.currency), loaded.rig.outcome_name
    own = {first: loaded.outcome_unit, **{f.name: f.unit for f in loaded.problem.further}}
    found = {}
    for name, text in {first: said.value, **said.further}.items():
        where = f"{said.where or 'outcome'}: trial {said.trial}: {name}"
        if name not in own:
            raise UsageError(f"{where}: is no outcome of this campaign; known: {', '.join(own)}")
        try:
            found[name] = units.to(text, own[name], f"a quantity in {own[name]}")
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
    return found


def _is_so(loaded: LoadedConfig, row: TrialRow, outcomes: Mapping[str, float]) -> bool:
    known = {loaded.rig.outcome_name: row.outcome, **row.further}
    return row.state is State.RECORDED and all(known.get(name) == value for name, value in outcomes.items())


# What may be mistyped -------------------------------------------------------------------------------------------------


def _doubts(
    loaded: LoadedConfig, reader: Reader, row: TrialRow, outcomes: Mapping[str, float], said: Said
) -> Iterator[str]:
    """Say what looks mistyped: it is not plausible, far from all others, or far from what was expected."""
    where = f"{said.where}: " if said.where else ""
    history = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    first, *further = loaded.rig.outcome_names
    told = tuple(outcomes[name] for name in further if name in outcomes)
    mine = ManualRow(row.control_set, {}, outcomes.get(first), 0, further=told)
    for doubt in doubts(loaded, history, [mine], datetime.now(UTC)):
        yield f"{where}trial {row.trial}: {doubt}"
    if len(history.complete) >= FEWEST and row.proposal is not None and first in outcomes:
        known = Hyperparameters.remembered(reader.policy_state() or {})
        expected = forecast(loaded.problem, history, known, row.proposal.control_set, row.proposal.setting)
        if expected is not None and abs(outcomes[first] - expected.mean) > FAR * expected.sd:
            yield (
                f"{where}trial {row.trial}: {first}: {outcomes[first]:g} is far from what is expected of it, "
                f"{expected.low:.4g} to {expected.high:.4g}"
            )
