"""Trials from before the campaign: `rigctl trial import` takes them out of a table, as evidence alone."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rigctl.campaign.journal.reader import set_of
from rigctl.campaign.journal.rows import ImportRow
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import begin_by_hand, own_journal
from rigctl.console.benches.by_hand import IMPORTED, ManualRow, checked, doubts, manual_row, manual_trial
from rigctl.console.benches.ingest import recorded_so_far
from rigctl.console.options import TableFlags
from rigctl.console.output import ShownColumn, table
from rigctl.console.tables.numerals import is_empty
from rigctl.console.tables.reading import read_table, settled
from rigctl.console.tables.table import Headers, PeopleTable, Row, SheetColumn, key
from rigctl.core.experiment.money import to_units
from rigctl.errors import UsageError, counted
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.people import this_person
from rigctl.text import in_full, set_label

YES, NO = (
    frozenset({"yes", "y", "x", "1", "true", "on", "ja", "wahr", "oui", "vrai", "si", "✓", "✔", "☑"}),
    frozenset({"no", "n", "0", "false", "off", "nein", "falsch", "non", "faux", "☐"}),
)
NOTHING = frozenset({"nothing", "none", "-", "–", "", "0"})


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """Says what would be imported."""

    table: PeopleTable
    digest: str
    rows: tuple[ManualRow, ...]


def planned(loaded: LoadedConfig, path: Path, said: TableFlags, controlled: str | None = None) -> ImportPlan:
    """Read past trials from a table.

    `controlled` says what was controlled in every row: names joined by `+`, or `nothing`; None: columns say so.

    Raises:
        UsageError: the file is no table, or its columns are not what is needed.
        ConfigError: cells do not hold; carries them with line and column.
    """
    table = read_table(path, Headers(loaded), said, commas_part=False)
    _require(loaded, table, controlled)
    table = settled(table, said)
    read = _TrialRows(loaded, table, controlled).row
    rows = tuple(row for row in map(read, table.rows()) if row is not None)
    checked(rows, table.told())
    if not rows:
        header = table.sheet.cells((table.sheet.header_line, None))
        why = "; ".join(table.left_out) or f"{header} is its header, and no row follows"
        raise UsageError(f"{path}: has no trial of which anything can be learned; {why}")
    return ImportPlan(table, hashlib.sha256(path.read_bytes()).hexdigest(), rows)


def _require(loaded: LoadedConfig, table: PeopleTable, controlled: str | None) -> None:
    measured = (*loaded.problem.space.names, *loaded.rig.outcome_names)
    table.require([f"value:{name}" for name in measured])
    says = any(t == "control_set" or t.startswith(("setpoint:", "controlled:")) for t in table.has)
    if controlled is None and not says:
        first = loaded.problem.space.names[0]
        raise UsageError(
            f'{table.head}: no column says what was controlled; map one of names with --map "HEADER=control_set" or '
            f'of yes and no with --map "HEADER=controlled.{first}", or say it of all rows with --controlled a+b or '
            "nothing"
        )


@dataclass(frozen=True, slots=True)
class _TrialRows:
    """Reads rows; the table collects which are left out, and what is wrong with them."""

    loaded: LoadedConfig
    table: PeopleTable
    controlled: str | None

    def row(self, row: Row) -> ManualRow | None:
        """Return one row as a trial; None if it is left out, or does not hold."""
        numbers, before = row.numbers, len(self.table.mistakes)
        if numbers.get("cost", 0.0) < 0:
            self._add(row, "cost", got(row.texts["cost"], "must not be negative"))
        members = self._members(row)
        if not row.sound or len(self.table.mistakes) > before:
            return None
        variables, (first, *more) = self.loaded.problem.space.names, self.loaded.rig.outcome_names
        failed, cost = f"value:{first}" not in numbers, numbers.get("cost")
        missing = [n for n in (*variables, *(() if failed else more)) if f"value:{n}" not in numbers]
        if failed and (missing or (cost is None and f"value:{first}" not in row.crossed_out)):
            missing = [first]
        if missing:
            self.table.out.setdefault(f"no {', '.join(missing)}", []).append(row.line)
            return None
        apart = {f"setpoint:{n}" for n in variables if n not in members} | {f"value:{n}" for n in more if failed}
        told = {target: number for target, number in numbers.items() if target not in {*apart, "cost"}}
        told |= {"cost": 0.0} if cost is None else {"cost": 0.0, "cost_then": cost}
        evidence = replace(row, numbers=told, texts={**row.texts, "origin": IMPORTED})
        return manual_row(self.table, evidence, members)

    def _add(self, row: Row, target: str, flaw: Flaw) -> None:
        header = next((c.header for c in self.table.columns if c.target == target), target)
        self.table.add(row.line, header, flaw)

    def _members(self, row: Row) -> tuple[str, ...]:
        """Return what was controlled, in the configuration's order."""
        if self.controlled is not None:
            try:
                return self._named(self.controlled)
            except ValueError as error:
                raise UsageError(flaw_of(error).within("--controlled")) from None
        if "control_set" in self.table.has:
            try:
                return self._named(row.texts.get("control_set", ""))
            except ValueError as error:
                self._add(row, "control_set", flaw_of(error))
                return ()
        members = []
        for name in self.loaded.problem.space.names:
            cell = row.texts.get(f"controlled:{name}", "")
            if key(cell) in YES or (f"setpoint:{name}" in row.numbers and key(cell) not in NO):
                members.append(name)
            elif cell and key(cell) not in NO:
                self._add(row, f"controlled:{name}", got(cell, "must be yes or no"))
        return tuple(members)

    def _named(self, text: str) -> tuple[str, ...]:
        """Raise ValueError where a part is no variable."""
        if key(text) in NOTHING or is_empty(text):
            return ()
        names = {key(name): name for name in self.loaded.problem.space.names}
        found = []
        for part in re.split(r"[+,;/&|]|\band\b|\bund\b", text):
            if not part.strip():
                continue
            name = names.get(key(part)) or names.get(key(self._mapped(part)))
            if name is None:
                known = f"known: {', '.join(names.values())}"
                raise ValueError(got(part.strip(), "must be variables joined by +, or nothing", known))
            found.append(name)
        return tuple(name for name in self.loaded.problem.space.names if name in found)

    def _mapped(self, part: str) -> str:
        """Return the variable whose column has this header."""
        for column in self.table.columns:
            if column.target.startswith("value:") and key(column.header).startswith(key(part)):
                return column.target.removeprefix("value:")
        return ""


def doubted(loaded: LoadedConfig, directory: Path, plan: ImportPlan) -> tuple[str, ...]:
    """Return what looks mistyped, beside what has been recorded so far."""
    return doubts(loaded, recorded_so_far(loaded, directory), plan.rows, datetime.now().astimezone())


def record(
    loaded: LoadedConfig,
    directory: Path,
    plan: ImportPlan,
    noise: tuple[float | None, float],
    sure: Callable[[Sequence[str]], None],
    *,
    again: bool = False,
) -> Mapping[str, Any]:
    """Put past trials into the journal, made if missing: all of them, or none if anything goes wrong.

    `noise` is the outcomes' sd in own units (None: not known), and then its factor. `sure` is told what looks mistyped,
    and raises if it shall not be recorded. With `again` a file is taken that was imported before.

    Raises:
        UsageError: it was imported before, a trial is under way, or the journal is of another configuration.
        Locked: a campaign is running here.
        JournalError: the journal cannot be used.
    """
    sure(doubted(loaded, directory, plan))
    with own_journal(directory, loaded.rig.speedup) as journal:
        for done in journal.read.people.imports().values():
            if done.digest == plan.digest and not again:
                raise UsageError(
                    f"{plan.table.sheet.path}: has been imported already, {done.utc[:16]} by {done.who} "
                    f"({counted(done.trials, 'trial')}); with --force it is imported once more"
                )
        begin_by_hand(loaded, journal)
        first, who = len(journal.read.trials()) + 1, this_person()
        corrections = journal.read.people.last_correction()
        manuals = [manual_trial(loaded, n, row, corrections) for n, row in enumerate(plan.rows, start=first)]
        source = ImportRow(0, plan.table.sheet.path.name, plan.digest, len(manuals), *noise, who, utc="")
        journal.ingest(manuals, loaded.rig.outcome_names, source)
        journal.beat(ended="import")
        spent = journal.read.campaign().spent
    return {
        "trials": list(range(first, first + len(manuals))),
        "left_out": list(plan.table.left_out),
        "spent": to_units(spent),
        "budget": to_units(loaded.problem.budget),
    }


def noise_of(loaded: LoadedConfig, sd: float | None, factor: float) -> tuple[float | None, float]:
    """Return what is said of the noise of past outcomes.

    Raises:
        UsageError: it is no noise; or an sd is given where there are several outcomes, each in a unit of its own.
    """
    for option, value in (("--noise", sd), ("--noise-factor", factor)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(got(value, "must be more than 0", where=option))
    if sd is not None and factor != 1.0:
        raise UsageError("--noise, --noise-factor: give one of them")
    if sd is not None and loaded.problem.further:
        names = ", ".join(loaded.rig.outcome_names)
        raise UsageError(f"--noise: there are several outcomes ({names}); give --noise-factor, which holds for all")
    return sd, factor


def to_json(loaded: LoadedConfig, plan: ImportPlan) -> Mapping[str, Any]:
    return {
        "file": str(plan.table.sheet.path),
        "encoding": plan.table.sheet.grid.kind,
        "separator": plan.table.sheet.grid.separator,
        "sheet": plan.table.sheet.grid.name,
        "other_sheets": list(plan.table.sheet.grid.others),
        "header_line": plan.table.sheet.header_line,
        "decimal": plan.table.decimals or "point",
        "columns": [
            {"header": c.header, "is": c.target.split(":")[-1] if c.target else None, "unit": c.unit or c.into}
            for c in plan.table.columns
        ],
        "trials": len(plan.rows),
        "control_sets": dict(_sets(loaded, plan)),
        "without_cost": sum(row.known.amount is None for row in plan.rows),
        "failed": sum(row.outcome is None for row in plan.rows),
        "left_out": list(plan.table.left_out),
    }


def _sets(loaded: LoadedConfig, plan: ImportPlan) -> Counter[str]:
    strange = " (no control set of this campaign)"
    found: Counter[str] = Counter()
    for row in plan.rows:
        label = set_label(row.control_set) or "nothing"
        found[label + (strange if set_of(loaded.problem.space, row.control_set) == -1 else "")] += 1
    return found


def preview(loaded: LoadedConfig, plan: ImportPlan, width: int) -> Sequence[str]:
    """Return what would be imported, line by line, for people; the table of columns is at most so wide."""
    decimal = plan.table.decimals or "point"
    sheet = plan.table.sheet
    separator = {"\t": "tab"}.get(sheet.grid.separator, sheet.grid.separator)
    form = f"sheet {sheet.grid.name}" if sheet.grid.name else f"columns separated by {separator}, decimal {decimal}"
    lines = [
        f"{plan.table.sheet.path}: {sheet.grid.kind}, {form}; {sheet.cells((sheet.header_line, None))} is the header"
    ]
    lines += [f"not read: {', '.join(sheet.grid.others)} (--sheet NAME)"] if sheet.grid.others else []
    _, first = sheet.rows[0]
    told = [
        (c.header, _is(c), cell, _becomes(c, cell, plan)) for c, cell in zip(plan.table.columns, first, strict=True)
    ]
    heads = ("column", "is", "first value", "becomes")
    lines += table([ShownColumn(h, cells, left=True) for h, *cells in zip(heads, *told, strict=True)], width)
    sets = ", ".join(f"{label} {count}" for label, count in _sets(loaded, plan).items())
    unpaid = sum(row.known.amount is None for row in plan.rows)
    failed = sum(row.outcome is None for row in plan.rows)
    said = [f"{counted(len(plan.rows), 'trial')}; controlled: {sets}."]
    said += [f"Cost was not recorded for {counted(unpaid, 'trial')}."] if unpaid else []
    said += [f"{counted(failed, 'trial')} without an outcome: taken in as failed."] if failed else []
    lines.append(" ".join([*said, "None counts against the budget."]))
    lines += [f"left out: {what}" for what in plan.table.left_out]
    return lines


def _is(column: SheetColumn) -> str:
    kind, _, name = column.target.partition(":")
    if not kind:
        return "not used"
    return {"value": name, "setpoint": f"setpoint of {name}", "controlled": f"{name} controlled?"}.get(kind, kind)


def _becomes(column: SheetColumn, cell: str, plan: ImportPlan) -> str:
    if not column.numeric:
        return next((word for word in column.levels if key(word) == key(cell)), "")
    try:
        return "nothing" if is_empty(cell) else f"{in_full(plan.table.number(column, cell))} {column.into}".rstrip()
    except ValueError:
        return ""
