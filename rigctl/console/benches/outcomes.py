"""What came of trials, and what is corrected of them: read as it is said, held against what is known, recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rigctl.campaign.acts import Outcome, awaits, given_up
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import Amendment, TrialRow
from rigctl.campaign.trial import State
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.assemble import open_campaign, perform
from rigctl.console.benches.by_hand import ManualRow, by_name, doubts
from rigctl.console.options import AmendFlags, TableFlags
from rigctl.console.tables.reading import read_table, settled
from rigctl.console.tables.table import Headers
from rigctl.core.advice.aftermath import forecast
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import Micros, to_micros
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.errors import ConfigError, Mistake, UsageError
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.text import in_full, set_label, settings, told_utc
from rigctl.wording import number_meant

FAR: Final = 6.0
"""Standard deviations from what was expected of a trial, beyond which an outcome is asked about..."""
FEWEST: Final = 8
"""...once so many outcomes are known: fewer do not teach what to expect."""
BESIDE: Final = MappingProxyType({name: name for name in ("trial", "unit", "why")})
"""Columns besides the outcomes."""


@dataclass(frozen=True, slots=True)
class SaidOutcome:
    """Holds what is said of one trial, as it was written."""

    trial: int
    value: str = ""
    """Of the first outcome, with or without a unit."""
    further: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, float] | None = None
    """Of a file: by outcome, in the outcomes' own units."""
    why: str = ""
    where: str = ""
    """File and line, for people."""
    line: int = 0


@dataclass(frozen=True, slots=True)
class OutcomeFile:
    """Holds what a file says."""

    said: tuple[SaidOutcome, ...]
    empty: tuple[int, ...]
    """Trials of which it says nothing yet."""
    unread: tuple[str, ...]
    """Headers of columns that are not read."""
    mistakes: tuple[Mistake, ...] = ()


def given_in(loaded: LoadedConfig, path: Path, flags: TableFlags) -> OutcomeFile:
    """Read the columns trial, the first outcome's name, and perhaps unit, further outcomes, why.

    Raises:
        UsageError: it is no table, a column is missing, or it is not clear which mark is before its fractions.
    """
    first, *more = loaded.rig.outcome_names
    table = read_table(path, Headers(loaded, beside=BESIDE), flags)
    table.require(("trial", f"value:{first}"))
    table = settled(table, flags, asks=("hidden", "totals", "inexact"))
    said: dict[int, SaidOutcome] = {}
    empty = []
    for row in table.rows():
        number = row.texts.get("trial", "")
        if not number.isdecimal():
            table.add(row.line, "trial", got(number, "must be a number of a trial"))
            continue
        trial = int(number)
        if trial in said or trial in empty:
            before = said[trial].where if trial in said else "a line without an outcome"
            table.add(row.line, f"trial {trial}", Flaw(f"stands here twice, first in {before}"))
        elif not any(f"value:{name}" in row.texts for name in (first, *more)):
            empty.append(trial)
        elif row.sound:
            known = {name: row.numbers[f"value:{name}"] for name in (first, *more) if f"value:{name}" in row.numbers}
            said[trial] = SaidOutcome(
                trial, numbers=known, why=row.texts.get("why", ""), where=row.where, line=row.line
            )
    of_use = {"trial", "unit", "why", *(f"value:{name}" for name in (first, *more))}
    unread = tuple(c.header for c in table.columns if c.header and c.target not in of_use)
    return OutcomeFile(tuple(said.values()), tuple(empty), unread, table.told())


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds what the command line says."""

    config: Path | None
    said: tuple[SaidOutcome, ...] = ()
    source: Path | None = None
    lost: bool = False
    flags: TableFlags = field(default_factory=TableFlags)

    @property
    def nothing(self) -> bool:
        """Tell whether only a list of what is awaited is asked for."""
        return not self.said and self.source is None


def asked_of(which: Sequence[str], source: Path | None, values: str, flags: TableFlags, *, lost: bool) -> Asked:
    """Read `[CONFIG] [TRIAL VALUE [UNIT]]` and what belongs to it; raises UsageError if they have another form."""
    words = list(which)
    config = Path(words.pop(0)) if words and not words[0].isdecimal() else None
    got = " ".join(which) or "nothing"
    if source is not None:
        if words or values or lost:
            raise UsageError(f"outcome: got {got} and --from {source}; give either a file or one trial")
        return Asked(config, source=source, flags=flags)
    if flags != TableFlags():
        raise UsageError("outcome: options say how a table is to be read; give --from FILE, too, or leave them out")
    if not words:
        if values or lost:
            raise UsageError("outcome: give the trial's number, too: rigctl trial outcome TRIAL VALUE [UNIT]")
        return Asked(config)
    if not words[0].isdecimal() or len(words) > 3 or (len(words) == 1) != lost:
        wanted = "TRIAL --lost --why TEXT" if lost else "TRIAL VALUE [UNIT]"
        raise UsageError(Flaw("", f"must be [CONFIG] {wanted}", got=got, where="outcome"))
    said = SaidOutcome(int(words[0]), " ".join(words[1:]), by_name("--values", values))
    return Asked(config, (said,), lost=lost)


# What is awaited ------------------------------------------------------------------------------------------------------


def waiting(directory: Path) -> list[Mapping[str, Any]]:
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
        f"trial {row['trial']}: {set_label(row['control_set'])} at "
        f"{settings(row['setpoints'])}, awaited until {told_utc(row['due_utc'])}"
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
            given = given_in(loaded, asked.source, asked.flags)
            said, so = _all_awaited(loaded, reader, given, force=force)
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
    sure(found)
    for one in said:
        act = Outcome(why=one.why or why, trial=one.trial, outcomes=outcomes[one.trial], force=force)
        known.append(perform(act, directory))
    return known


def _all_awaited(
    loaded: LoadedConfig, reader: Reader, given: OutcomeFile, *, force: bool
) -> tuple[tuple[SaidOutcome, ...], tuple[int, ...]]:
    """Return what a file says that is new, and the trials of which it says what is recorded already.

    Raises:
        ConfigError: what it says cannot be recorded; every line of it, and nothing was.
    """
    new, so, mistakes = [], [], list(given.mistakes)
    for one in given.said:
        try:
            row, outcomes = reader.trial(one.trial), _numbers(loaded, one)
            if _is_so(loaded, row, outcomes):
                so.append(one.trial)
                continue
            if not (force and given_up(row)):
                awaits(reader, row, outcomes)
            new.append(one)
        except UsageError as error:
            mistakes.append(Mistake(one.where, error.flaw, line=one.line))
    if mistakes:
        raise ConfigError(sorted(mistakes, key=lambda mistake: mistake.line))
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
        one = SaidOutcome(trial, said.get(first, ""), {name: text for name, text in said.items() if name != first})
        outcomes = _numbers(loaded, one)
        return outcomes, tuple(_doubts(loaded, reader, reader.trial(trial), outcomes, one))


def _numbers(loaded: LoadedConfig, said: SaidOutcome) -> Mapping[str, float]:
    """Return what is said in the outcomes' own units, by name.

    Raises:
        UsageError: it is no quantity that can be converted to that.
    """
    if said.numbers is not None:
        return said.numbers
    units, first = Units(loaded.currency), loaded.rig.outcome_name
    own = {first: loaded.outcome_unit, **{f.name: f.unit for f in loaded.problem.further}}
    found = {}
    for name, text in {first: said.value, **said.further}.items():
        where = f"outcome: trial {said.trial}: {name}"
        if name not in own:
            raise UsageError(f"{where}: is no outcome of this campaign; known: {', '.join(own)}")
        try:
            found[name] = units.to(text, own[name], f"a quantity in {own[name]}")
        except ValueError as error:
            raise UsageError(flaw_of(error).within(where)) from None
    return found


def _is_so(loaded: LoadedConfig, row: TrialRow, outcomes: Mapping[str, float]) -> bool:
    known = {loaded.rig.outcome_name: row.outcome, **row.further}
    return row.state is State.RECORDED and all(known.get(name) == value for name, value in outcomes.items())


# What may be mistyped -------------------------------------------------------------------------------------------------


def _doubts(
    loaded: LoadedConfig, reader: Reader, row: TrialRow, outcomes: Mapping[str, float], said: SaidOutcome
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
                f"{where}trial {row.trial}: {first}: {in_full(outcomes[first])} is far from what is expected of it, "
                f"{in_full(expected.low, 4)} to {in_full(expected.high, 4)}"
            )


def asked(
    directory: Path, trial: int, change: AmendFlags, config: Path | None, sure: Callable[[Sequence[str]], None]
) -> Amendment:
    """Return what is to be amended, told by a configuration.

    `sure` is told what looks mistyped, if anything does, and raises if it shall not be recorded.

    Raises:
        UsageError: something does not hold, or there is no such trial.
    """
    with open_campaign(config, directory) as campaign:
        loaded, reader = campaign.loaded, campaign.reader
        becomes = amendment(change, loaded.problem.space, loaded.rig.outcome_names, loaded.currency)
        found = _amendment_doubts(loaded, reader, reader.trial(trial), becomes)
    sure(found)
    return becomes


def amendment(change: AmendFlags, space: Space, outcomes: tuple[str, ...], currency: str) -> Amendment:
    """Return what is to be amended, by name.

    Raises:
        UsageError: something does not hold, or nothing is to be amended.
    """
    first, *further = outcomes
    variables = {v.name: v for v in space.variables}
    values: dict[str, float | None] = {}
    said = change.outcome
    measured: dict[str, float | None] = {} if said is None else {first: _number("--outcome", said)}
    for name, text in by_name("--values", change.values).items():
        if name not in (*variables, *further):
            raise UsageError(unknown(name, (*variables, *further), "a variable or further outcome", where="--values"))
        variable = variables.get(name)
        level = None if variable is None or not variable.levels else _level("--values", variable, text)
        value = _number(f"--values: {name}", text) if level is None else level
        (measured if variable is None else values)[name] = value
    if change.failed:
        if measured:
            raise UsageError(f"amend: --failed and {', '.join(measured)}: give an outcome, or say that there was none")
        measured = dict.fromkeys(outcomes)
    amount = None if change.cost is None else _amount(change.cost, currency)
    if not (values or measured or amount is not None or change.note is not None):
        raise UsageError("amend: give --outcome, --failed, --values, --cost or --note")
    return Amendment(values, measured, amount, change.note)


def _amendment_doubts(loaded: LoadedConfig, reader: Reader, row: TrialRow, becomes: Amendment) -> Sequence[str]:
    """Return what looks mistyped of what is amended, held against all other trials."""
    known = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    others = History.of(o for o in known.observations if o.trial != row.trial)
    first, *further = (becomes.outcomes.get(name) for name in loaded.rig.outcome_names)
    values = {name: value for name, value in becomes.values.items() if value is not None}
    told = tuple(math.nan if value is None else value for value in further)  # each has its place
    mine = ManualRow(row.control_set, values, first, becomes.amount or 0, further=told)
    return doubts(loaded, others, [mine], datetime.now(UTC))


def _level(where: str, category: Variable, word: str) -> float:
    try:
        return category.number(word)
    except ValueError as error:
        raise UsageError(flaw_of(error).within(where)) from None


def _number(where: str, given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(got(given, "must be a finite number", number_meant(given), where=where))
    return value


def _amount(given: str, currency: str) -> Micros:
    try:
        return to_micros(Decimal(given.removesuffix(currency).strip()))
    except (InvalidOperation, ValueError):
        raise UsageError(got(given, f"must be an amount in {currency}", number_meant(given), where="--cost")) from None
