"""`rigctl amend`: read what a person says is to be corrected of a trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import Amendment, TrialRow
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.config.wording import number_meant
from rigctl.console.assemble import open_campaign
from rigctl.console.by_hand import ManualRow, by_name
from rigctl.console.doubts import doubts
from rigctl.core.experiment.history import History
from rigctl.core.money import Micros, to_micros
from rigctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Change:
    """Holds what options say is to be amended."""

    outcome: str | None = None
    failed: bool = False
    values: str = ""
    """`a=1.2,b=3`; further outcomes among them."""
    cost: str | None = None
    note: str | None = None


def asked(
    directory: Path, trial: int, change: Change, config: Path | None, sure: Callable[[Sequence[str]], None]
) -> Amendment:
    """Return what is to be amended, told by a configuration.

    `sure` is told what looks mistyped, if anything does, and raises if it shall not be recorded.

    Raises:
        UsageError: something does not hold, or there is no such trial.
    """
    with open_campaign(config, directory) as campaign:
        loaded, reader = campaign.loaded, campaign.reader
        becomes = amendment(change, loaded.problem.space.names, loaded.rig.outcome_names, loaded.currency)
        found = _doubts(loaded, reader, reader.trial(trial), becomes)
    if found:
        sure(found)
    return becomes


def amendment(change: Change, variables: tuple[str, ...], outcomes: tuple[str, ...], currency: str) -> Amendment:
    """Return what is to be amended, by name.

    Raises:
        UsageError: something does not hold, or nothing is to be amended.
    """
    first, *further = outcomes
    values: dict[str, float | None] = {}
    said = change.outcome
    measured: dict[str, float | None] = {} if said is None else {first: _number("--outcome", said)}
    for name, text in by_name("--values", change.values).items():
        if name not in (*variables, *further):
            raise UsageError(f"--values: {unknown(name, (*variables, *further), 'a variable or further outcome: ')}")
        (values if name in variables else measured)[name] = _number(f"--values: {name}", text)
    if change.failed:
        if measured:
            raise UsageError(f"amend: --failed and {', '.join(measured)}: give an outcome, or say that there was none")
        measured = dict.fromkeys(outcomes)
    amount = None if change.cost is None else _amount(change.cost, currency)
    if not (values or measured or amount is not None or change.note is not None):
        raise UsageError("amend: give --outcome, --failed, --values, --cost or --note")
    return Amendment(values, measured, amount, change.note)


def _doubts(loaded: LoadedConfig, reader: Reader, row: TrialRow, becomes: Amendment) -> Sequence[str]:
    """Return what looks mistyped of what is amended, held against all other trials."""
    known = reader.history(loaded.problem.space, [f.name for f in loaded.problem.further])
    others = History.of(o for o in known.observations if o.trial != row.trial)
    first, *further = (becomes.outcomes.get(name) for name in loaded.rig.outcome_names)
    values = {name: value for name, value in becomes.values.items() if value is not None}
    told = tuple(math.nan if value is None else value for value in further)  # each has its place
    mine = ManualRow(row.control_set, values, first, becomes.amount or 0, further=told)
    return doubts(loaded, others, [mine], datetime.now(UTC))


def _number(where: str, given: str) -> float:
    try:
        if math.isfinite(value := float(given)):
            return value
    except ValueError:
        pass
    raise UsageError(f'{where}: got "{given}", must be a finite number{number_meant(given)}')


def _amount(given: str, currency: str) -> Micros:
    try:
        return to_micros(Decimal(given.removesuffix(currency).strip()))
    except (InvalidOperation, ValueError):
        raise UsageError(f'--cost: got "{given}", must be an amount in {currency}{number_meant(given)}') from None
