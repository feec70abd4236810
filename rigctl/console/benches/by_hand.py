"""Trials that a person did: read from a table, and asked about where they look mistyped.

A doubt is no mistake: whoever knows better says so, and it is recorded as it was written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.journal.reader import set_of
from rigctl.campaign.journal.rows import ByHand
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.trial import Decision, Looked, look_of
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.config.units import Units
from rigctl.console.options import TableFlags
from rigctl.console.tables.reading import read_table, settled
from rigctl.console.tables.table import SAID, Headers, PeopleTable, Row
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import Micros, to_micros, to_units
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.policy import Finished
from rigctl.core.experiment.problem import JsonState
from rigctl.core.experiment.space import Space, Variable
from rigctl.errors import ConfigError, Mistake, UsageError
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.text import in_full, set_label, set_members, shown_unit

VOID, IMPORTED = "void", "imported"
LOOK, LOOK_SD = "look", "look_sd"
"""Columns such as `look.ph`: what a variable read before the decision, and that reading's standard deviation."""
UNDECIDED = ("FAILED", "ABANDONED", "LOST")
"""States of trials that may have ended while they looked, so that nothing was controlled."""
GERMAN_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)")
EXPORTED: Final = MappingProxyType(
    {"hand.cost_then": "cost_then", "hand.noise_sd": "noise_sd", "hand.noise_factor": "noise_factor"}
    | {name: name for name in ("state", "origin", "corrected.void")}
)
"""Columns of an export that are read besides, with what they are."""
MOST_ROWS = 200
"""Longer lists leave the memory as it was: every row costs a decision, some 10 to 50 ms."""


@dataclass(frozen=True, slots=True)
class ManualRow:
    """Holds one trial as a person wrote it down."""

    control_set: tuple[str, ...]
    values: Mapping[str, float]
    """Measured, engineering units; all variables unless the trial failed."""
    outcome: float | None
    """None: the trial failed."""
    cost: Micros
    further: tuple[float, ...] = ()
    """Outcomes besides the first, in the order they are declared in; empty if the trial failed."""
    setpoints: Mapping[str, float] = field(default_factory=dict)
    """What was set, as the person says, engineering units; empty: not said."""
    known: ByHand = field(default_factory=ByHand)
    """Date, operator, batch and note; what an imported trial cost then."""
    origin: str = ""
    """In an export: `void` of a trial that teaches nothing, `imported` of one that is not charged; else empty."""
    noise: tuple[float | None, float] = (None, 1.0)
    """Of an imported trial's outcome, as in `Observation`: its sd where it is known, and its factor."""
    where: str = ""
    """File and line, for people."""
    looks: Mapping[str, Looked] = field(default_factory=dict)
    """What the variables read before it was decided, as in an export; nothing where nobody looked."""


def read_rows(loaded: LoadedConfig, path: Path, said: TableFlags | None = None) -> tuple[ManualRow, ...]:
    """Read every row of the file; columns it does not need are ignored.

    What is unclear is asked about where somebody says how it is to be read; else it does not hold.

    Raises:
        UsageError: it is no table, or a column is missing.
        ConfigError: rows do not hold; carries every problem with file, line and column.
    """
    space, outcomes = loaded.problem.space, loaded.rig.outcome_names
    looks = {f"{begin}.{name}": f"{begin}:{name}" for begin in (LOOK, LOOK_SD) for name in space.names}
    table = read_table(path, Headers(loaded, beside={**EXPORTED, **looks}), said or TableFlags())
    needed = [*(f"value:{name}" for name in space.names), "control_set", *(f"value:{n}" for n in outcomes)]
    needed += ["cost"] if loaded.problem.known_costs is None else []
    table.require(needed, "name the columns in the first line" if said is None else "")
    table = table if said is None else settled(table, said)
    sound = [(row, set_members(row.texts.get("control_set", ""))) for row in table.rows() if row.sound]
    return checked([manual_row(table, row, members) for row, members in sound], table.told())


def checked(rows: Sequence[ManualRow], mistakes: Sequence[Mistake]) -> tuple[ManualRow, ...]:
    """Return the rows, all of them; raise ConfigError with every mistake if there was one."""
    if mistakes:
        raise ConfigError(mistakes)
    return tuple(rows)


def manual_row(table: PeopleTable, row: Row, control_set: Sequence[str]) -> ManualRow:
    """Return one sound row as a trial; what does not hold is among the table's mistakes.

    A trial that says nothing of its cost has that of `known_costs`.
    """
    space, outcomes = table.loaded.problem.space, table.loaded.rig.outcome_names
    texts, members = row.texts, tuple(filter(None, map(str.strip, control_set)))
    imported = texts.get("origin") == IMPORTED
    row = replace(row, numbers={**_known_cost(table.loaded, members), **row.numbers})
    numbers = row.numbers
    _check(table, row, members, imported=imported)
    first, *further = (numbers.get(f"value:{name}") for name in outcomes)
    date, operator, batch, note = (" ".join(texts.get(name, "").split()) for name in SAID)
    then = numbers.get("cost_then")
    has, read = table.has, numbers.get
    looks = {n: Looked(read(f"{LOOK}:{n}"), read(f"{LOOK_SD}:{n}", 0.0)) for n in space.names if f"{LOOK}:{n}" in has}
    return ManualRow(
        control_set=members,
        values={n: numbers[f"value:{n}"] for n in space.names if f"value:{n}" in numbers},
        outcome=first,
        cost=to_micros(numbers.get("cost", 0.0)),
        further=tuple(y for y in further if y is not None),
        setpoints={n: numbers[f"setpoint:{n}"] for n in space.names if f"setpoint:{n}" in numbers},
        known=ByHand(iso_date(date), operator, batch, note, amount=None if then is None else to_micros(then)),
        origin=VOID if "corrected.void" in texts else IMPORTED if imported else "",
        noise=(numbers.get("noise_sd"), numbers.get("noise_factor") or 1.0),
        where=row.where,
        looks=looks if any(look.value is not None for look in looks.values()) else {},
    )


def _known_cost(loaded: LoadedConfig, members: tuple[str, ...]) -> Mapping[str, float]:
    """Return what the configuration says that such a trial costs, as a number of its row."""
    known, number = loaded.problem.known_costs, set_of(loaded.problem.space, members)
    return {} if known is None or number < 0 else {"cost": known[number]}


def _check(table: PeopleTable, row: Row, members: tuple[str, ...], *, imported: bool) -> None:
    """Find what is wrong with a trial beside its single numbers."""
    space, outcomes, numbers = table.loaded.problem.space, table.loaded.rig.outcome_names, row.numbers
    ended_looking = row.texts.get("state") in UNDECIDED and any(t.startswith(f"{LOOK}:") for t in table.has)
    # an imported one may have controlled what nobody controls any more
    if not imported and not (ended_looking and not members):
        try:
            space.index_of(members)
        except ValueError:
            labels = [c.label for c in space.control_sets]
            table.add(row.line, "control_set", unknown(set_label(members), labels, "a control set"))
    if any(f"value:{name}" in numbers for name in outcomes):
        for name in (name for name in (*space.names, *outcomes) if f"value:{name}" not in numbers):
            failed = f"leave {', '.join(outcomes)} out if it failed"
            table.add(row.line, name, Flaw("is missing, but the trial has an outcome", remedy=failed))
    for name in (name for name in space.names if f"setpoint:{name}" in numbers and name not in members):
        flaw = Flaw(f'is given, but {name} is not in "{set_label(members)}"')
        table.add(row.line, f"setpoint.{name}", flaw)
    if "cost" not in numbers:
        remedy = "give it, or known_costs in the configuration"
        table.add(row.line, "cost", Flaw("is missing", "must be an amount in the rig's currency", remedy))
    for target in ("cost", "cost_then"):
        if numbers.get(target, 0.0) < 0:
            table.add(row.line, target, got(row.texts[target], "must not be negative"))


def observation(trial: int, row: ManualRow, space: Space) -> Observation:
    """Return the trial as a policy sees it, and as the journal will give it back.

    What a trial cost that ended before anything was measured says nothing about what a whole one costs.
    """
    whole = all(name in row.values for name in space.names)
    x = tuple(float(u) for u in space.to_unit(np.array([row.values[n] for n in space.names]))) if whole else None
    charged = row.origin != IMPORTED
    # one that ended while it looked had none yet
    number = space.index_of(row.control_set) if charged and row.control_set else set_of(space, row.control_set)
    if row.origin == VOID:
        return Observation(trial, number, None, None, row.cost, cost_known=False)
    return Observation(
        trial=trial,
        control_set=number,
        x=x,
        y=row.outcome,
        cost=row.cost if charged else row.known.amount or 0,
        cost_known=bool(row.values) and (charged or row.known.amount is not None),
        further=row.further,
        charged=charged,
        noise_sd=row.noise[0],
        noise_factor=row.noise[1],
        look=look_of(space, row.looks),
    )


def manual_trial(
    loaded: LoadedConfig, trial: int, row: ManualRow, corrections: int, state: JsonState | None = None
) -> ManualTrial:
    """Return the trial as the journal keeps it; `state`: what the policy remembers of it, if it took part."""
    problem = loaded.problem
    decision = Decision(
        trial=trial,
        control_set=row.control_set,
        setpoints=row.setpoints,
        origin="manual",
        proposal=None,
        policy_state=state,
        seed=loaded.seed,
        history_length=trial - 1,
        budget=problem.budget,
        corrections=corrections,
        looks=row.looks,
    )
    further = dict(zip((f.name for f in problem.further), row.further, strict=False))  # none if it failed
    return ManualTrial(decision, row.values, row.outcome, row.cost, further, row.known)


def by_name(option: str, given: str) -> Mapping[str, str]:
    """Return the texts of `a=1.2,b=3` by name; raises UsageError if it has another form, or a name stands twice."""
    found: dict[str, str] = {}
    last = ""
    for part in filter(None, (p.strip() for p in given.split(","))):
        last, (name, equals, text) = part if "=" in part else last, (p.strip() for p in part.partition("="))
        if not equals and last[-1:].isdigit() and part[:1].isdigit():
            raise UsageError(
                Flaw("", "must have a decimal point", f'write "{last}.{part}"', got=f'"{last},{part}"', where=option)
            )
        if not equals:
            raise UsageError(got(part, "must be name=value, separated by commas", where=option))
        if name in found:
            raise UsageError(f"{option}: {name} stands more than once; give one value")
        found[name] = text
    return found


def quantities(loaded: LoadedConfig, option: str, given: str) -> Iterator[tuple[Variable, str, float]]:
    """Yield each variable of `ph=6.1,ca=3.3 mM`, what is said of it, and that as a number in its own unit.

    Raises:
        UsageError: a name is no variable, or a value no quantity that converts to its variable's unit.
    """
    variables, units = {v.name: v for v in loaded.problem.space.variables}, Units(loaded.currency)
    for name, text in by_name(option, given).items():
        if name not in variables:
            raise UsageError(unknown(name, list(variables), "a variable", where=option))
        v = variables[name]
        try:
            must = f"a number in {v.unit}" if shown_unit(v.unit) else "a number"
            yield v, text, v.number(text) if v.levels else units.to(text, v.unit, must)
        except ValueError as error:
            raise UsageError(flaw_of(error).within(option if v.levels else f"{option}: {name}")) from None


def iso_date(written: str) -> str:
    """Return a date written as 24.12.2026 in ISO 8601; any other as it is written."""
    found = GERMAN_DATE.fullmatch(written)
    if found is None:
        return written
    day, month, year, rest = found.groups()
    return f"{year}-{int(month):02}-{int(day):02}{rest}"


def memories(
    loaded: LoadedConfig,
    known: History,
    state: JsonState | None,
    rows: Sequence[Observation],
    suggested: Decision | None = None,
) -> Iterator[JsonState | None]:
    """Yield, per row, what the policy remembers after it; None: what it did before.

    A row moves the memory on if its control set is what the policy proposes for that trial. Otherwise a person has
    decided, and the policy took no part. `state` is its memory after the trials `known` before the rows; `suggested` is
    what it has proposed for the first of them, where that was kept.
    """
    long = len(rows) > MOST_ROWS
    for row in rows:
        if suggested is not None:
            followed = suggested.control_set == loaded.problem.space.control_sets[row.control_set].names
            after, suggested = (suggested.policy_state if followed else None), None
        else:
            # before the campaign there was no policy to follow
            after = None if long or not row.charged else _after(loaded, known, state, row.control_set)
        yield after
        state = after or state
        known = known.append(row)


def memory(loaded: LoadedConfig, history: History) -> JsonState | None:
    """Return what the policy remembers of a history that somebody else kept; None: nothing."""
    states = [s for s in memories(loaded, History(), None, history.observations) if s is not None]
    return states[-1] if states else None


def _after(loaded: LoadedConfig, known: History, state: JsonState | None, control_set: int) -> JsonState | None:
    try:
        decision = decide(Question(loaded.policy, loaded.problem, loaded.seed, known, state))
    except Finished:  # a person may go on all the same
        return None
    proposed = decision.control_set == loaded.problem.space.control_sets[control_set].names
    return decision.policy_state if proposed else None


MARGIN = 0.25
"""Of the range's width: so far beyond it a reading raises no doubt, for what is left alone drifts."""
SLIP = 0.01
"""The same of what was set: an actuator cannot leave its range."""
FEWEST = 3
"""From so many other trials on they say what is usual."""
FAR, FAR_OF_FEW = 3.0, 30.0
"""Outcomes may lie so many times the width of those seen beyond them; the second, while these are fewer than `ENOUGH`:
a handful of trials at like settings lie close together, and the next suggestion may be at an edge."""
ENOUGH = 8
COSTS_FAR = 100.0
"""A cost may be so many times the usual one, or so small a part of it."""
ANYTHING = (-math.inf, math.inf)
LIKELY = 0.999
"""Share of what a variable left alone is declared to do that raises no doubt."""


def doubts(loaded: LoadedConfig, known: History, rows: Sequence[ManualRow], today: datetime) -> tuple[str, ...]:
    """Return what looks mistyped, a sentence each; each row is held against all others, those of the list too."""
    usual = _Usual.of(loaded, known, rows)
    found = []
    for row in rows:
        here = [*_out_of_range(loaded, row), *_far_outcome(loaded, usual, row), *_odd_cost(loaded, usual, row)]
        odd = _odd_date(row.known.date, today) if row.known.date else ""
        if odd:
            here.append(f"date: {row.known.date} {odd}")
        found += [f"{row.where}: {what}" if row.where else what for what in here]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Usual:
    """Says what is usual."""

    outcomes: tuple[FloatArray, ...]
    """Of each outcome all that were seen, rising."""
    costs: tuple[int, float]
    """How many are known, and their median, currency units."""

    @classmethod
    def of(cls, loaded: LoadedConfig, known: History, rows: Sequence[ManualRow]) -> _Usual:
        seen = []
        for k in range(len(loaded.rig.outcome_names)):
            before = known.outcomes[:, k] if len(known.complete) and known.outcomes.shape[1] > k else np.empty(0)
            here = [y for y in (_outcome(row, k) for row in rows) if y is not None]
            pool = np.concatenate([before, here])
            seen.append(np.sort(pool[np.isfinite(pool)]))
        costs = [to_units(o.cost) for o in known.observations if o.cost_known and o.cost > 0]
        costs += [to_units(amount) for amount in map(_amount, rows) if amount > 0]
        return cls(tuple(seen), (len(costs), float(np.median(costs)) if costs else 0.0))


def _outcome(row: ManualRow, k: int) -> float | None:
    mine = (row.outcome, *row.further)
    return mine[k] if k < len(mine) else None


def _amount(row: ManualRow) -> Micros:
    return row.known.amount if row.known.amount is not None else row.cost


def _out_of_range(loaded: LoadedConfig, row: ManualRow) -> list[str]:
    found = []
    for variable in loaded.problem.space.variables:
        value, low, high = row.values.get(variable.name), *_usual(variable)
        margin, (least, most) = MARGIN * (high - low), loaded.plausible.get(variable.name, ANYTHING)
        if value is not None and not max(low - margin, least) <= value <= min(high + margin, most):
            found.append(_beyond(variable, value, low, high, variable.name))
        value, slip = row.setpoints.get(variable.name), SLIP * (variable.high - variable.low)
        if value is not None and not variable.low - slip <= value <= variable.high + slip:
            found.append(_beyond(variable, value, variable.low, variable.high, f"setpoint of {variable.name}"))
    return found


def _usual(variable: Variable) -> tuple[float, float]:
    """Return the range of setpoints, and what it does when it is left alone; engineering units."""
    low, high = variable.low, variable.high
    marginal, tail = variable.marginal, (1 - LIKELY) / 2
    ends = (
        np.array([marginal.low, marginal.high])
        if isinstance(marginal, Learned)
        else marginal.quantile(np.array([tail, 1 - tail]))
    )
    left, right = (float(end) for end in low + (high - low) * ends)
    return min(low, left), max(high, right)


def _beyond(variable: Variable, value: float, low: float, high: float, name: str) -> str:
    far = value - high if value > high else low - value
    side, unit = ("above" if value > high else "below"), f" {variable.unit}".rstrip()
    likely = [v for v in (value / 10, value / 100, value / 1000, value * 10) if low <= v <= high]
    meant = f"; was {in_full(likely[0])} meant?" if likely else ""
    range_ = f"{in_full(low)} to {in_full(high)}{unit}"
    return f"{name}: {in_full(value)}{unit} is {in_full(far, 3)}{unit} {side} the range of {range_}{meant}"


def _far_outcome(loaded: LoadedConfig, usual: _Usual, row: ManualRow) -> list[str]:
    found = []
    floors = [loaded.problem.floor, *(f.floor for f in loaded.problem.further)]
    maximise = [loaded.problem.maximise, *(f.maximise for f in loaded.problem.further)]
    for k, name in enumerate(loaded.rig.outcome_names):
        value, floor, seen = _outcome(row, k), floors[k], usual.outcomes[k]
        if value is None:
            continue
        least, most = loaded.plausible.get(name, ANYTHING)
        if value < least or value > most:
            found.append(f"{name}: {in_full(value)} is outside the plausible {in_full(least)} to {in_full(most)}")
        if floor is not None and (value < floor if maximise[k] else value > floor):
            found.append(f"{name}: {in_full(value)} is worse than the configured floor of {in_full(floor)}")
        if len(seen) <= FEWEST:  # itself is among them
            continue
        low, high = (float(v) for v in (seen[1 if value <= seen[0] else 0], seen[-2 if value >= seen[-1] else -1]))
        width, far = high - low, max(low - value, value - high)
        if width > 0 and far > (FAR if len(seen) > ENOUGH else FAR_OF_FEW) * width:
            found.append(
                f"{name}: {in_full(value)} is {in_full(far / width, 3)} times the width of the {len(seen) - 1} others "
                f"({in_full(low)} to {in_full(high)}) away from them"
            )
    return found


def _odd_cost(loaded: LoadedConfig, usual: _Usual, row: ManualRow) -> list[str]:
    cost, currency = to_units(_amount(row)), loaded.currency
    count, middle = usual.costs
    told, usually = f"cost: {in_full(cost, 6)} {currency} is", f"the usual {in_full(middle, 6)} {currency}"
    if count > FEWEST and cost > COSTS_FAR * middle:
        return [f"{told} {in_full(cost / middle, 3)} times {usually}"]
    if count > FEWEST and 0 < cost < middle / COSTS_FAR:
        return [f"{told} {in_full(middle / cost, 3)} times less than {usually}"]
    budget = to_units(loaded.problem.budget)
    if cost > budget:
        return [f"{told} more than the whole budget of {in_full(budget, 6)} {currency}"]
    return []


def _odd_date(written: str, today: datetime) -> str:
    try:
        return "is yet to come" if datetime.fromisoformat(written).date() > today.date() else ""
    except ValueError:  # or written in another way
        return "is no day of the calendar" if re.match(r"\d{4}-\d\d-\d\d", written) else ""
