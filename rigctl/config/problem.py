"""Second check, the experiment: variables, how they vary, control sets, outcome, model, reference -> `Problem`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rigctl.config.findings import CheckContext, unknown
from rigctl.config.schema import DeclaredNatural, LearnedNatural, OutcomeSection, VariableSection
from rigctl.config.shape import missing
from rigctl.config.wording import shown
from rigctl.core.asking import OFF_GRID
from rigctl.core.experiment.marginals.families import Empirical, Marginal
from rigctl.core.experiment.marginals.moments import largest_sd
from rigctl.core.experiment.marginals.stretched import natural_marginal, share_of
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.problem import FurtherOutcome, ModelOptions, Problem, ReferenceTrials, usual_kernel
from rigctl.core.experiment.space import MOST_STEPS, Space, Variable, last_level
from rigctl.errors import KeyPath
from rigctl.kinds import Kind
from rigctl.text import set_label, set_members, shown_unit

if TYPE_CHECKING:
    from rigctl.config.schema import ReferenceSection


MAX_CONTROL_SETS = 127
"""`all` of seven variables. Each set costs decision time and exploration money."""
COLUMNS = frozenset(
    {
        *("trial", "state", "phase", "control_set", "cost", "cost_estimated", "started", "ended", "origin", "because"),
        *("hand.date", "hand.operator", "hand.batch", "hand.note", "hand.suggested", "hand.departed"),
        *("hand.cost_then", "hand.noise_sd", "hand.noise_factor"),
        *("corrected.void", "corrected.amended", "corrected.why"),
    }
)
"""Of an export, beside those of the variables and outcomes, whose names must not be among them."""


MOST_SAMPLE = 10_000_000
"""Characters of a file with a sample of what varies naturally."""
_NEEDED = ("variables", "control_sets", "outcome", "further_outcomes", "model", "budget", "costs")
"""Sections that a problem is made of: where one has failed there is none, though others are checked on."""


def build_problem(context: CheckContext) -> Problem | None:
    """Return the problem, or None when something it needs does not hold."""
    config, findings = context.config, context.findings
    before = findings.count
    variables = [_variable(context, name, section) for name, section in config.variables.items()]
    if not config.variables and findings.whole("variables"):
        findings.add(("variables",), "must name at least one variable")
    sets = _control_sets(context)
    model = _model(context)
    budget, most = context.money(("budget",), config.budget["total"]), config.budget.get("max_per_trial")
    ceiling = None if most is None else to_units(context.money(("budget", "max_per_trial"), most))
    whole = [v for v in variables if v is not None]
    known = _known_costs(context, sets)
    floor = _floor(context, ("outcome",), config.outcome)
    further = _further(context)
    reference = build_reference(context, [v for v in variables if v is not None], sets)
    if findings.count > before or len(whole) < len(variables) or not all(map(findings.whole, _NEEDED)):
        return None
    return Problem(
        space=Space.of(whole, sets),
        budget=budget,
        maximise=config.outcome.direction == "maximise",
        floor=floor,
        model=model,
        cost_ceiling=ceiling,
        cost_model=config.costs,
        known_costs=known,
        further=further,
        looks=config.trial is not None and config.trial.look is not None,
        reference=reference,
    )


def build_today(context: CheckContext) -> Mapping[str, float] | None:
    """Return the setpoints of today's practice, engineering units; None where none is given."""
    section, findings = context.config.today, context.findings
    if section is None:
        return None
    for i, name in enumerate(section.control):
        if context.known(("today", "control", i), name, ["variables"], "variable: ") and name not in section.at:
            findings.add(("today", "at"), f"has no value for {name}, which is controlled today; give it")
    found = {}
    for name, value in section.at.items():
        path: KeyPath = ("today", "at", name)
        if name not in section.control:
            findings.add(path, f'got "{name}", must be among those in today.control')
        elif name in context.config.variables:
            unit = context.config.variables[name].unit
            found[name] = findings.attempt(path, 0.0, context.units.to, value, unit, f"in {unit}, like the variable")
    return found


def build_worth(context: CheckContext) -> float | None:
    """Return what one unit of the outcome is worth, currency units; None where it is not said."""
    findings, found = context.findings, None
    for path, section in context.outcomes:
        if section.worth is None:
            continue
        at, unit = (*path, "worth"), section.unit
        if section is not context.config.outcome:
            findings.add(at, f'got "{section.worth}", but only what the first outcome is worth is counted; remove it')
            continue
        per = f"/({unit})" if "/" in unit else f"/{unit}" if shown_unit(unit) else ""
        kind = Kind("a price of one unit of outcome", f"0.3 EUR{per}", shown_unit(unit))
        price = findings.attempt(at, None, context.units.price, section.worth, kind)
        if price == 0:
            findings.add(at, f'got "{section.worth}", must be more than nothing; leave it out where nobody knows')
        found = None if price is None else float(price)
    return found


def _variable(context: CheckContext, name: str, section: VariableSection) -> Variable | None:
    path: KeyPath = ("variables", name)
    natural, unit = section.natural, section.unit
    if context.findings.attempt((*path, "unit"), None, context.units.unit, unit) is None:
        return None
    bounds = context.pair((*path, "range"), section.range, unit)
    if bounds is None:
        return None
    alone = None
    if section.natural_range is not None:
        alone = context.pair((*path, "natural_range"), section.natural_range, unit)
        if alone is None:
            return None
    ranges = _Ranges(unit, bounds, alone)
    marginal: Marginal | None
    if section.doses is not None:
        marginal = Empirical((share_of(section.doses.otherwise, bounds),))
    elif natural is None:
        context.findings.add((*path, "natural"), missing((*path, "natural")))
        return None
    elif "learned" in natural.model_fields_set:
        learned = natural.learned or LearnedNatural()
        prior = _declared(context, (*path, "natural", "learned", "prior"), learned.prior, ranges)
        low, high = (share_of(v, bounds) for v in alone or bounds)
        marginal = None if prior is None else Learned(prior, learned.at_least, low, high)
    else:
        marginal = _declared(context, (*path, "natural"), natural, ranges)
    step = _step(context, path, section, bounds)
    return None if marginal is None else Variable(name, unit, *bounds, marginal, step)


def _step(context: CheckContext, path: KeyPath, section: VariableSection, bounds: tuple[float, float]) -> float | None:
    """Return the step in the variable's unit, which leads from the lowest setpoint to the highest."""
    if section.step is None:
        return None
    findings, unit, path = context.findings, section.unit, (*path, "step")
    step = findings.attempt(path, None, context.units.span, section.step, unit, f"in {unit}, like the variable")
    if step is None:
        return None
    low, high = bounds
    least, most = (high - low) / MOST_STEPS, high - low
    if not least <= step <= most:
        findings.add(path, f"got {step:g}, must be at most the range, {most:g} {unit}, and at least {least:g} {unit}")
        return None
    last = last_level(low, high, step)
    if last != high:
        what = f"must lead from {low:g} to {high:g} in whole steps; end the range at {last:g}, or take another step"
        findings.add(path, f"got {step:g}, {what}")
        return None
    return step


def _control_sets(context: CheckContext) -> list[list[str]]:
    config, findings = context.config, context.findings
    declared = context.declared["variables"]
    wired = bool(context.declared["devices"])
    if config.control_sets == "all":
        return _all_sets(context, wired)
    sets: list[list[str]] = []
    seen: dict[frozenset[str], int] = {}
    idle: set[str] = set()
    if not findings.whole("control_sets"):
        return []
    for i, members in enumerate(config.control_sets):
        path: KeyPath = ("control_sets", i)
        strangers = [m for m in members if not context.known(path, m, ["variables"], "variable: ")]
        if strangers:
            continue
        if len(set(members)) < len(members):
            findings.add(path, f"got {shown(members)}, must name each variable once")
        elif frozenset(members) in seen:
            findings.add(path, f"is the same as control_sets[{seen[frozenset(members)]}]; remove one")
        else:
            seen[frozenset(members)] = i
            sets.append([m for m in members if m in config.variables])
        for m in members:
            if wired and m in config.variables and not config.variables[m].actuators and m not in idle:
                idle.add(m)
                remedy = f"give variables.{m} an actuator, or take {m} out of the control sets"
                findings.add(path, f'got "{m}", which has no actuator; must have one: {remedy}')
    return [s for s in sets if s] if declared else []


def _all_sets(context: CheckContext, wired: bool) -> list[list[str]]:
    names = [n for n, v in context.config.variables.items() if v.actuators or not wired]
    count = 2 ** len(names) - 1
    if count > MAX_CONTROL_SETS:
        context.findings.add(
            ("control_sets",),
            f"all subsets of {len(names)} variables are {count} control sets, must be at most {MAX_CONTROL_SETS}; "
            f"list those worth trying",
        )
        return []
    if not names and context.config.variables:
        context.findings.add(("control_sets",), "no variable has an actuator, so there is nothing to control")
    return [list(c) for size in range(1, len(names) + 1) for c in combinations(names, size)]


def _further(context: CheckContext) -> tuple[FurtherOutcome, ...]:
    """Return the outcomes besides the first; each has a name of its own, or they could not be told apart."""
    config, column = context.config, "a column of every history and export"
    for name in COLUMNS & set(context.declared["variables"]):
        context.findings.add(("variables", name), f"is {column}; rename it")
    taken = dict.fromkeys(COLUMNS, column) | dict.fromkeys(context.declared["variables"], "a variable")
    outcomes: list[FurtherOutcome] = []
    for path, section in context.outcomes:
        if section.name in taken:
            context.findings.add((*path, "name"), f'got "{section.name}", which is {taken[section.name]}; must differ')
        taken.setdefault(section.name, "another outcome")
        if section is not config.outcome:
            floor = _floor(context, path, section)
            outcomes.append(FurtherOutcome(section.name, section.unit, section.direction == "maximise", floor))
    return tuple(outcomes)


def _floor(context: CheckContext, path: KeyPath, outcome: OutcomeSection) -> float | None:
    findings, units = context.findings, context.units
    if findings.attempt((*path, "unit"), None, units.unit, outcome.unit) is None:
        return None
    floor = None
    if outcome.floor is not None:
        what = f"in {outcome.unit}, like the outcome"
        floor = findings.attempt((*path, "floor"), None, units.to, outcome.floor, outcome.unit, what)
    if outcome.plausible is None or floor is None:
        return floor
    bounds = context.pair((*path, "plausible"), outcome.plausible, outcome.unit)
    maximise = outcome.direction == "maximise"
    if bounds is not None and (floor >= bounds[1] if maximise else floor <= bounds[0]):
        worst = "below" if maximise else "above"
        findings.add(
            (*path, "floor"),
            f"got {floor:g}, must be {worst} the plausible outcomes {bounds[0]:g} to {bounds[1]:g}: "
            f"it is the worst value there can be",
        )
    return floor


def _known_costs(context: CheckContext, sets: Sequence[Sequence[str]]) -> tuple[float, ...] | None:
    given = context.config.known_costs
    if not given:
        return None
    if context.config.costs == "per-setting":
        context.findings.add(("costs",), 'got "per-setting" beside known_costs, which are per set; remove one of them')
    labels = {frozenset(s): set_label(s) for s in sets}
    costs: dict[frozenset[str], float] = {}
    for label, amount in given.items():
        path: KeyPath = ("known_costs", label)
        members = frozenset(set_members(label))
        if members not in labels and context.findings.whole("variables"):
            context.findings.add(path, unknown(label, sorted(labels.values()), "a control set: "))
        costs[members] = to_units(context.findings.attempt(path, 0, context.units.money, amount))
    missing = [label for members, label in labels.items() if members not in costs]
    if missing:
        if context.findings.whole("known_costs"):  # else its own mistake is told
            context.findings.add(("known_costs",), f"has no cost for {', '.join(missing)}; give all or none")
        return None
    return tuple(costs[frozenset(s)] for s in sets)


def _model(context: CheckContext) -> ModelOptions:
    section, findings = context.config.model, context.findings
    options = section.model_dump() | {"lengthscales": _lengthscales(context)}
    for key in ("lengthscales", "signal_sd", "noise_sd", "mean"):
        if section.hyperparameters == "fixed" and getattr(section, key) is None:
            findings.add(("model", key), 'is missing, must be given with "hyperparameters: fixed"')
    if section.kernel is None:
        options["kernel"] = usual_kernel(section.hyperparameters)
    return ModelOptions(**options)


def _lengthscales(context: CheckContext) -> tuple[float, ...] | None:
    given, names = context.config.model.lengthscales, list(context.config.variables)
    if given is None:
        return None
    if not isinstance(given, dict):
        return (given,) * len(names)
    for name in given:
        context.known(("model", "lengthscales", name), name, ["variables"], "variable: ")
    missing = [n for n in names if n not in given]
    if missing:
        context.findings.add(("model", "lengthscales"), f"has none for {', '.join(missing)}; give one per variable")
        return None
    return tuple(given[n] for n in names)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Hold where a variable can be."""

    unit: str
    """Of both."""
    setpoints: tuple[float, float]
    natural: tuple[float, float] | None
    """None: that of the setpoints."""


def _declared(context: CheckContext, path: KeyPath, section: DeclaredNatural, ranges: _Ranges) -> Marginal | None:
    """Return how a variable with these ranges varies; None when it does not hold."""
    unit = ranges.unit
    kind = next(iter(section.model_fields_set))
    path = (*path, kind)
    given = _parameters(context, path, section)
    if kind == "truncated_normal" and set(given) not in ({"mean", "sd"}, {"loc", "scale"}):
        what = f"got {' and '.join(map(str, given)) or 'nothing'}, must be mean and sd, or loc and scale"
        context.findings.add(path, f"{what}; write the spread of {path[1]} in {unit}, e.g. sd: ...")
        return None
    attempt, units = context.findings.attempt, context.units
    values = {
        k: attempt((*path, k), None, units.span if k in ("sd", "scale") else units.to, v, unit, f"in {unit}")
        for k, v in given.items()
    }
    whole = {k: v for k, v in values.items() if v is not None}
    if len(whole) < len(values) or (kind == "empirical" and not whole):
        return None
    wrong = misplaced(kind, whole, unit, ranges.setpoints, ranges.natural)
    for key, what in wrong.items():
        context.findings.add((*path, key) if key else path, what)
    if wrong:
        return None
    described = {"sample": list(whole.values())} if kind == "empirical" else whole
    return attempt(path, None, natural_marginal, kind, described, ranges.setpoints, ranges.natural)


def _parameters(context: CheckContext, path: KeyPath, section: DeclaredNatural) -> Mapping[Any, float | str]:
    """Return what is declared of a distribution, by parameter; of a sample, by place."""
    sample = section.empirical
    if sample is not None:
        return dict(enumerate(_column(context, sample, path) if isinstance(sample, dict) else sample))
    parameters = section.truncated_normal or section.uniform
    return {} if parameters is None else parameters.model_dump(exclude_none=True)


def _sample(file: Path) -> str:
    if file.exists() and not file.is_file():  # a pipe or a device may have no end, or never begin
        raise ValueError("it is no file")
    with file.open(newline="", encoding="utf-8-sig") as stream:
        text = stream.read(MOST_SAMPLE + 1)
    if len(text) > MOST_SAMPLE:
        raise ValueError(f"it is larger than {MOST_SAMPLE // 1_000_000} MB")
    return text


def _column(context: CheckContext, source: Mapping[str, str], path: KeyPath) -> list[float]:
    file, findings = context.folder / source["file"], context.findings
    try:
        rows = list(csv.DictReader(io.StringIO(_sample(file), newline="")))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        what = f'got "{source["file"]}", must be a CSV file that can be read: {why}'
        findings.add((*path, "file"), f"{what}; its path is from the configuration's folder")
        return []
    headers = list(rows[0]) if rows else []
    if source["column"] not in headers:
        findings.add((*path, "column"), unknown(source["column"], [h for h in headers if h], "a column: "))
        return []
    numbers = []
    for i, row in enumerate(rows, start=2):
        try:
            numbers.append(float(row[source["column"]] or ""))
        except ValueError:
            findings.add(path, f"{file}:{i}: got {row[source['column']]!r}, must be a number")
    return numbers


# a setting that is played again and again -------------------------------------------------------------------------


_TRIALS: Final = re.compile(r"\s*(\d{1,6})\s*trials?\s*")
FEWEST: Final = 5
"""Trials between two of them: more often they would take the place of what a campaign is for."""


def build_reference(
    context: CheckContext, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> ReferenceTrials | None:
    """Return the trials that are repeated; None where none are asked for, or something of them does not hold.

    Args:
        context: with the section.
        variables: those that hold.
        sets: the control sets, by name.
    """
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    before = findings.count
    every = _TRIALS.fullmatch(section.every)
    if every is None or int(every[1]) < FEWEST:
        what = f'got "{section.every}", must be a whole number of trials, at least "{FEWEST} trials"'
        findings.add(("reference", "every"), what)
    second = section.second_sensor or ""
    units = {f.name: f.unit for f in context.config.further_outcomes}
    if second and second not in units:
        findings.add(("reference", "second_sensor"), unknown(second, sorted(units), "one of further_outcomes: "))
    elif second and units[second] != context.config.outcome.unit:
        what = f'got "{second}" in {units[second]}, must have the outcome\'s unit, {context.config.outcome.unit}'
        findings.add(("reference", "second_sensor"), what)
    found = _setting(context, variables, sets)
    if findings.count > before or every is None:
        return None
    if found is None:
        return ReferenceTrials(int(every[1]), second_sensor=second)
    return ReferenceTrials(int(every[1]), *found, second)


def _setting(
    context: CheckContext, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> tuple[int, tuple[float, ...]] | None:
    """Return which control set it is, and where on the unit cube; None where none is given, or it does not hold."""
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    for name in section.at:
        if name not in section.control:
            findings.add(("reference", "at", name), f'got "{name}", must be among those in reference.control')
    if not section.control:
        return None
    labels = [set_label(s) for s in sets]
    if sets and frozenset(section.control) not in map(frozenset, sets):
        got = set_label(section.control)
        findings.add(("reference", "control"), unknown(got, labels, "a control set: "))
        return None
    by_name = {v.name: v for v in variables}
    if not sets or not all(name in by_name for name in section.control):
        return None  # told where they stand
    places = {name: _place(context, section, by_name[name]) for name in section.control}
    space = Space.of(variables, sets)
    index = space.index_of(section.control)
    found = [places[name] for name in space.control_sets[index].names]
    whole = tuple(u for u in found if u is not None)
    return (index, whole) if len(whole) == len(found) else None


def _place(context: CheckContext, section: ReferenceSection, v: Variable) -> float | None:
    """Return where a setpoint is, unit interval; None where it is missing or cannot be set."""
    findings, path = context.findings, ("reference", "at", v.name)
    if v.name not in section.at:
        findings.add(path[:2], f"has no value for {v.name}, which is controlled in it; give it")
        return None
    value = findings.attempt(path, None, context.units.to, section.at[v.name], v.unit, f"in {v.unit}, like {v.name}")
    if value is None:
        return None
    u = (value - v.low) / (v.high - v.low)
    if not v.low <= value <= v.high:
        findings.add(path, f"got {value:g}, must be within {v.low:g} to {v.high:g} {v.unit}")
        return None
    if v.steps and abs(u * v.steps - round(u * v.steps)) > OFF_GRID * v.steps:
        findings.add(path, f"got {value:g}, must be on a step of {v.step:g} {v.unit}; {v.setpoint(u):g} is the nearest")
        return None
    return u


# what a distribution's parameters must be -------------------------------------------------------------------------


WIDEST = 1 - 1e-6
"""Of the spread that no truncated normal reaches."""


def misplaced(
    kind: str,
    given: Mapping[Any, float],
    unit: str,
    setpoints: tuple[float, float],
    natural: tuple[float, float] | None = None,
) -> dict[str, str]:
    """Return what is wrong with the parameters of a distribution, by parameter (empty: with all of them).

    Args:
        kind: `uniform`, `truncated_normal` or `empirical`.
        given: by name, in `unit`.
        unit: the variable's.
        setpoints: its lowest and highest setpoint, in `unit`.
        natural: its lowest and highest value when left alone, in `unit`; None: those of the setpoints.
    """
    low, high = natural or setpoints
    name = "range" if natural is None else "natural_range"
    within = f"within the {name}, {low:g} to {high:g} {unit}"
    apart = "" if natural else "; if it is elsewhere when left alone, say where: natural_range: [low, high]"
    if kind == "uniform":
        return _uneven(given.get("low", low), given.get("high", high), (low, high), unit, within + apart)
    if kind == "truncated_normal" and "mean" in given:
        mean, sd, span = given["mean"], given["sd"], high - low
        if not low < mean < high:
            return {"mean": f"got {mean:g} {unit}, must lie {within}{apart}"}
        most = largest_sd((mean - low) / span) * span
        if not 0 < sd < most * WIDEST:
            must = f"must be more than 0 and less than {most:.3g} {unit} for a mean of {mean:g} {unit}"
            return {"sd": f"got {sd:g} {unit}, {must}; for a wider spread write natural: uniform"}
    elif kind == "truncated_normal" and not given["scale"] > 0:
        return {"scale": f"got {given['scale']:g} {unit}, must be more than nothing"}
    return {}


def _uneven(first: float, last: float, bounds: tuple[float, float], unit: str, within: str) -> dict[str, str]:
    if not first < last:
        remedy = f"; write {{low: {last:g}, high: {first:g}}}" if first > last else ""
        return {"": f"got {first:g} to {last:g} {unit}, must rise from low to high{remedy}"}
    if first < bounds[0] or last > bounds[1]:
        return {"": f"got {first:g} to {last:g} {unit}, must lie {within}"}
    return {}
