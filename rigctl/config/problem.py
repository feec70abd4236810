"""Second check, the experiment: variables, how they vary, control sets, outcome, model, reference -> `Problem`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from rigctl.config.findings import CheckContext, unknown
from rigctl.config.schema import DeclaredNatural, LearnedNatural, RigConfig, VariableSection
from rigctl.core.experiment.marginals.conditional import natural_marginal, share_of
from rigctl.core.experiment.marginals.families import Discrete, Empirical, Marginal, Uniform
from rigctl.core.experiment.money import Micros, to_units
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.problem import FurtherOutcome, Problem, ReferenceTrials
from rigctl.core.experiment.space import OFF_GRID, Space, Variable
from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.options import missing
from rigctl.rig.spec import OutcomeSpec
from rigctl.text import in_full, set_label, set_members

if TYPE_CHECKING:
    from rigctl.config.schema import ReferenceSection, SettingSection


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


_EVERY_TRIAL = "trial"
"""Beside variables, none of which is named so, what adds to the cost of a trial."""
_NEEDED = ("variables", "control_sets", "outcome", "further_outcomes", "model", "budget", "costs")
"""Sections that a problem is made of: where one has failed there is none, though others are checked on."""


def build_problem(context: CheckContext) -> Problem | None:
    """Return the problem, or None when something it needs does not hold."""
    config, findings = context.config, context.findings
    before = findings.count
    variables = [_variable(context, name, section) for name, section in config.variables.items()]
    if not config.variables and findings.whole("variables"):
        findings.add(("variables",), Flaw("", "must name at least one variable"))
    sets = _control_sets(context)
    budget, most = config.budget
    whole = [v for v in variables if v is not None]
    known = _known_costs(context, sets)
    floor = _floor(context, ("outcome",), config.outcome)
    further = _further(context)
    _check_labels(context)
    reference = build_reference(context, [v for v in variables if v is not None], sets)
    looks = config.trial is not None and config.trial.look is not None
    if config.stop is not None and looks:
        lead = "judges one setting for all days, but trial.look seeks one for each reading"
        findings.add(("stop",), Flaw(lead, remedy="remove one of them"))
    changed = _changeovers(context, [v.name for v in whole], looks=looks)
    parts = (("budget",), ("known_costs",), ("changeovers",), ("outcome", "floor"), ("reference",), ("stop",))
    told = any(map(findings.told_below, parts))
    if told or findings.count > before or len(whole) < len(variables) or not all(map(findings.whole, _NEEDED)):
        return None
    return Problem(
        space=Space.of(whole, sets),
        budget=budget,
        maximise=config.outcome.direction == "maximise",
        floor=floor,
        model=config.model,
        cost_ceiling=None if most is None else to_units(most),
        cost_model=config.costs,
        known_costs=known,
        changeovers=changed,
        further=further,
        looks=looks,
        stop_worth=None if config.stop is None else config.stop.worth,
        reference=reference,
    )


def build_today(context: CheckContext) -> Mapping[str, float] | None:
    """Return the setpoints of today's practice, engineering units; None where none is given."""
    section, findings = context.config.today, context.findings
    if section is None:
        return None
    for i, name in enumerate(section.control):
        if context.known(("today", "control", i), name, ["variables"], "variable") and name not in section.at:
            findings.add(("today", "at"), Flaw(f"has no value for {name}, which is controlled today", remedy="give it"))
    _check_controlled(context, "today", section)
    return section.at


def _check_controlled(context: CheckContext, key: str, section: SettingSection) -> None:
    for name in section.at:
        if name not in section.control:
            context.add((key, "at", name), got(name, f"must be among those in {key}.control"))


def _variable(context: CheckContext, name: str, section: VariableSection) -> Variable | None:
    path: KeyPath = ("variables", name)
    findings, natural, bounds = context.findings, section.natural, section.range
    if any(findings.told_below((*path, key)) for key in ("unit", "range", "natural_range", "step")):
        return None
    label, levels = section.label or "", tuple(section.levels or ())
    whole: Variable | None = None
    marginal: Marginal | None
    try:
        whole = Variable(name, section.unit, *bounds, Uniform(), section.step, label, levels)
    except ValueError as error:  # others are told which variable it is
        findings.add((*path, "step"), replace(flaw_of(error), where=""))
    if section.doses is not None:
        marginal = Empirical((share_of(section.doses.otherwise_ml, bounds),))
    elif natural is None:
        findings.add((*path, "natural"), missing((*path, "natural"), RigConfig))
        return None
    elif "learned" in natural.model_fields_set:
        learned = natural.learned or LearnedNatural()
        prior = _declared(context, (*path, "natural", "learned", "prior"), learned.prior, section)
        low, high = (share_of(v, bounds) for v in section.natural_range or bounds)
        marginal = None if prior is None else Learned(prior, learned.at_least, low, high)
    else:
        marginal = _declared(context, (*path, "natural"), natural, section)
    return None if marginal is None or whole is None else replace(whole, marginal=marginal)


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
        strangers = [m for m in members if not context.known(path, m, ["variables"], "variable")]
        if strangers:
            continue
        if len(set(members)) < len(members):
            findings.add(path, got(members, "must name each variable once"))
        elif frozenset(members) in seen:
            findings.add(path, Flaw(f"is the same as control_sets[{seen[frozenset(members)]}]", remedy="remove one"))
        else:
            seen[frozenset(members)] = i
            sets.append([m for m in members if m in config.variables])
        for m in members:
            if wired and m in config.variables and not config.variables[m].actuators and m not in idle:
                idle.add(m)
                remedy = f"give variables.{m} an actuator, or take {m} out of the control sets"
                findings.add(path, got(m, "must have one", remedy, lead=", which has no actuator"))
    return [s for s in sets if s] if declared else []


def _all_sets(context: CheckContext, wired: bool) -> list[list[str]]:
    names = [n for n, v in context.config.variables.items() if v.actuators or not wired]
    count = 2 ** len(names) - 1
    if count > MAX_CONTROL_SETS:
        lead = f"all subsets of {len(names)} variables are {count} control sets"
        context.add(("control_sets",), Flaw(lead, f"must be at most {MAX_CONTROL_SETS}", "list those worth trying"))
        return []
    if not names and context.config.variables:
        context.add(("control_sets",), Flaw("no variable has an actuator, so there is nothing to control"))
    return [list(c) for size in range(1, len(names) + 1) for c in combinations(names, size)]


def _further(context: CheckContext) -> tuple[FurtherOutcome, ...]:
    """Return the outcomes besides the first; each has a name of its own, or they could not be told apart."""
    config, column = context.config, "a column of every history and export"
    for name in COLUMNS & set(context.declared["variables"]):
        context.add(("variables", name), Flaw(f"is {column}", remedy="rename it"))
    taken = dict.fromkeys(COLUMNS, column) | dict.fromkeys(context.declared["variables"], "a variable")
    outcomes: list[FurtherOutcome | None] = []
    for path, section in context.outcomes:
        if section.name in taken:
            context.add((*path, "name"), got(section.name, "must differ", lead=f", which is {taken[section.name]}"))
        taken.setdefault(section.name, "another outcome")
        if section is not config.outcome:
            outcomes.append(_further_outcome(context, path, section))
        elif section.at_most is not None or section.at_least is not None:
            lead = "has a limit, but it is made as large or as small as possible"
            context.add(path, Flaw(lead, remedy="remove the limit, or make it one of further_outcomes"))
    return tuple(outcome for outcome in outcomes if outcome is not None)


def _further_outcome(context: CheckContext, path: KeyPath, section: OutcomeSpec) -> FurtherOutcome | None:
    """Return a further outcome, of which less is better where its one limit is an upper one; None: a mistake."""
    bounded = section.at_most is not None and section.at_least is None
    maximise, floor = section.direction == "maximise" and not bounded, _floor(context, path, section)
    limits = section.at_most, section.at_least, section.probability
    make = (FurtherOutcome, section.name, section.unit, maximise, floor, *limits)
    return context.findings.attempt((*path, "at_least"), None, *make)


def _check_labels(context: CheckContext) -> None:
    """Find labels by which people would take one variable or outcome for another."""
    variables = [(("variables", name), name, section.label) for name, section in context.config.variables.items()]
    measured = [*variables, *((path, outcome.name, outcome.label) for path, outcome in context.outcomes)]
    taken = {name: name for _, name, _ in measured}
    for path, name, label in measured:
        if label is not None and taken.setdefault(label, name) != name:
            context.add((*path, "label"), got(label, "must differ", lead=f", which people read for {taken[label]}"))


def _floor(context: CheckContext, path: KeyPath, outcome: OutcomeSpec) -> float | None:
    floor, bounds = outcome.floor, outcome.plausible
    if floor is None or bounds is None or context.findings.told((*path, "floor")):
        return floor
    maximise = outcome.direction == "maximise"
    side = "below" if maximise else "above"
    if not context.findings.told_below((*path, "plausible")) and (
        floor >= bounds[1] if maximise else floor <= bounds[0]
    ):
        low, high = map(in_full, bounds)
        must = f"must be {side} the plausible outcomes {low} to {high}: it is the worst there can be"
        context.add((*path, "floor"), got(floor, must))
    return floor


def _known_costs(context: CheckContext, sets: Sequence[Sequence[str]]) -> tuple[float, ...] | None:
    given = context.config.known_costs
    if not given:
        return None
    if context.config.costs == "per-setting":
        flaw = Flaw(", which are per set", remedy="remove one of them", got='"per-setting" beside known_costs')
        context.add(("costs",), flaw)
    labels = {frozenset(s): set_label(s) for s in sets}
    costs: dict[frozenset[str], Micros] = {}
    for label, amount in given.items():
        path: KeyPath = ("known_costs", label)
        members = frozenset(set_members(label))
        if isinstance(amount, Mapping):
            costs = _sums(context, path, amount, labels) | costs
        elif members not in labels and context.findings.whole("variables"):
            context.add(path, unknown(label, sorted(labels.values()), "a control set"))
        else:
            costs[members] = amount
    missing = [label for members, label in labels.items() if members not in costs]
    if missing:
        if not context.findings.told_below(("known_costs",)):
            flaw = Flaw(f"has no cost for {', '.join(missing)}", remedy="give all or none")
            context.add(("known_costs",), flaw)
        return None
    return tuple(to_units(costs[frozenset(s)]) for s in sets)


def _changeovers(context: CheckContext, names: Sequence[str], *, looks: bool) -> tuple[int, ...]:
    """Return the columns of the variables that are dear to change."""
    given, path = context.config.changeovers, ("changeovers",)
    if given and (looks or context.config.known_costs):
        beside, why = (
            ("trial.look", "lets everything go before each trial")
            if looks
            else ("known_costs", "is all that a trial costs")
        )
        context.add(path, Flaw(f"has no meaning beside {beside}, which {why}", remedy="remove one of them"))
    known = [n for i, n in enumerate(given) if context.known((*path, i), n, ["variables"], "variable")]
    return tuple(sorted({names.index(n) for n in known if n in names}))


def _sums(
    context: CheckContext, path: KeyPath, each: Mapping[str, Micros], sets: Iterable[frozenset[str]]
) -> dict[frozenset[str], Micros]:
    """Return what trials cost of which each controlled variable adds its own amount; of other control sets nothing."""
    names = [_EVERY_TRIAL, *context.config.variables]
    for name in each:
        if name not in names and context.findings.whole("variables"):
            context.add((*path, name), unknown(name, names, "a variable or the trial"))
    return {s: each.get(_EVERY_TRIAL, 0) + sum(each[n] for n in s) for s in sets if s <= each.keys()}


def _declared(
    context: CheckContext, path: KeyPath, section: DeclaredNatural, variable: VariableSection
) -> Marginal | None:
    """Return how a variable varies; None when it does not hold."""
    kind = next(iter(section.model_fields_set))
    path = (*path, kind)
    if context.findings.told_below(path):
        return None
    if variable.levels or kind == "shares":
        return _discrete(context, path, section, variable.levels or {})
    parameters = section.truncated_normal or section.uniform
    given = {} if parameters is None else parameters.model_dump(exclude_none=True)
    described = list(section.empirical or ()) if kind == "empirical" else given
    make = (natural_marginal, kind, described, variable.range, variable.natural_range, variable.unit)
    return context.findings.attempt(path, None, *make)


def _discrete(
    context: CheckContext, path: KeyPath, section: DeclaredNatural, levels: Mapping[str, float]
) -> Marginal | None:
    """Return the share of each level of a category; None when it does not hold."""
    if not levels or path[-1] == "truncated_normal":
        lead, other = ("number", "shares") if levels else ("category, which has levels", "another distribution")
        context.add(path, Flaw(f"is for a {lead}", remedy=f"give {other}, uniform or learned"))
        return None
    for word in section.shares or ():
        if word not in levels:
            context.add((*path, word), unknown(word, list(levels), "a level"))
            return None
    shares = {n: (section.shares or {}).get(word, 0.0) for word, n in levels.items()}
    if path[-1] == "uniform":
        shares = dict.fromkeys(shares, 1.0)
    for number in section.empirical or ():
        shares[number] += 1
    return context.findings.attempt(path, None, Discrete.levels, list(shares.values()))


# a setting that is played again and again -------------------------------------------------------------------------


def build_reference(
    context: CheckContext, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> ReferenceTrials | None:
    """Return the trials that are repeated; None where none are asked for, or something of them does not hold."""
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    before = findings.count
    second = section.second_sensor or ""
    units = {f.name: f.unit for f in context.config.further_outcomes}
    if second and second not in units:
        findings.add(("reference", "second_sensor"), unknown(second, sorted(units), "one of further_outcomes"))
    elif second and units[second] != context.config.outcome.unit:
        flaw = got(second, f"must have the outcome's unit, {context.config.outcome.unit}", lead=f" in {units[second]}")
        findings.add(("reference", "second_sensor"), flaw)
    found = _setting(context, variables, sets)
    if findings.count > before:
        return None
    control_set, setting = found or (None, ())
    return ReferenceTrials(section.every, control_set, setting, second)


def _setting(
    context: CheckContext, variables: Sequence[Variable], sets: Sequence[Sequence[str]]
) -> tuple[int, tuple[float, ...]] | None:
    """Return which control set it is, and where on the unit cube; None where none is given, or it does not hold."""
    section, findings = context.config.reference, context.findings
    if section is None:
        return None
    _check_controlled(context, "reference", section)
    if not section.control:
        return None
    labels = [set_label(s) for s in sets]
    if sets and frozenset(section.control) not in map(frozenset, sets):
        findings.add(("reference", "control"), unknown(set_label(section.control), labels, "a control set"))
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
        findings.add(path[:2], Flaw(f"has no value for {v.name}, which is controlled in it", remedy="give it"))
        return None
    value = section.at[v.name]
    if findings.told(path):
        return None
    u = (value - v.low) / (v.high - v.low)
    if not v.low <= value <= v.high:
        findings.add(path, got(value, f"must be within {in_full(v.low)} to {in_full(v.high)} {v.unit}"))
        return None
    if v.steps and abs(u * v.steps - round(u * v.steps)) > OFF_GRID * v.steps:
        nearest = f"{in_full(v.setpoint(u))} is the nearest"
        findings.add(path, got(value, f"must be on a step of {in_full(v.step or 0.0)} {v.unit}", nearest))
        return None
    return u
