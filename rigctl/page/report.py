"""A campaign as one offline document: what to run from now on, what that is worth, what was paid and learned."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import version
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final

from markupsafe import Markup

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.alarms import AlarmState
from rigctl.campaign.journal.glance import Fault, Version
from rigctl.campaign.journal.rows import ActRow, TrialRow
from rigctl.campaign.learned import remembering
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.core.advice.answer_words import AnswerWords
from rigctl.core.counterfactuals import Price, shown
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import JsonState
from rigctl.page import figures, words
from rigctl.page.facts import gather
from rigctl.page.figures import FILLS, Tracks, reads
from rigctl.page.render import asset, filled, worth_of
from rigctl.page.shown import Facts, Study
from rigctl.page.study import MOST_TRIALS, changes, past, study_of
from rigctl.page.svg import drawing
from rigctl.provenance import libraries
from rigctl.rig.dead_man import unguarded, unguarded_told
from rigctl.text import set_label, shown_name, shown_unit

MOST = 40
"""Lines of a list; what is left out is counted."""
STATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "RECORDED": "with an outcome",
        "AWAITING": "still without an outcome",
        "FAILED": "failed",
        "ABANDONED": "broken off by a person or a signal",
        "LOST": "lost when the process died",
    }
)


@dataclass(frozen=True, slots=True)
class Report:
    """Holds what the document says, gathered at one instant."""

    facts: Facts
    study: Study | None
    changes: tuple[str, ...]
    """What would change the recommendation; sentences."""
    drawings: tuple[Picture, ...]
    sets: tuple[SetSum, ...]
    """Those that cost most first."""
    states: Mapping[str, int]
    alarms: tuple[AlarmState, ...]
    """The worst first, then the most frequent."""
    alarm_count: int
    faults: tuple[Fault, ...]
    unguarded: str
    """Which actuators nothing makes safe should the computer die; a sentence."""
    acts: tuple[ActRow, ...]
    versions: tuple[Version, ...]
    code: Mapping[str, str]
    """Versions of what writes this, by name."""
    policy: str
    config: str
    author: str = ""
    logo: str = ""
    """A picture as a `data:` address; empty: none."""

    @property
    def period(self) -> tuple[str, str]:
        """Return when the first trial began and the last one changed, UTC; empty before there is one."""
        rows = self.facts.course.rows
        return (rows[0].started_utc, rows[-1].changed_utc) if rows else ("", "")


@dataclass(frozen=True, slots=True)
class SetSum:
    """What one control set was given, and what came of it."""

    control_set: tuple[str, ...]
    trials: int
    recorded: int
    """Trials with an outcome."""
    amount: float
    """Currency units."""
    each: float | None
    """Mean cost of those trials that cost anything; None: of none is the cost known."""


def _sets(rows: Sequence[TrialRow]) -> tuple[SetSum, ...]:
    found: dict[tuple[str, ...], list[TrialRow]] = {}
    for row in rows:
        found.setdefault(row.control_set, []).append(row)
    sums = []
    for control_set, mine in found.items():
        costs = [to_units(row.cost) for row in mine if row.cost]
        each = fmean(costs) if costs else None
        sums.append(SetSum(control_set, len(mine), sum(r.state is State.RECORDED for r in mine), sum(costs), each))
    return tuple(sorted(sums, key=lambda s: (-s.amount, s.control_set)))


def report(
    reader: Reader,
    loaded: LoadedConfig,
    now: datetime,
    *,
    author: str = "",
    logo: str = "",
    trials_a_month: float | None = None,
) -> Report:
    """Gather a report; takes as long as fitting the model does.

    `now` is by the wall clock, aware. `author` answers for the report (empty: nobody is named); `logo` is a picture as
    a `data:` address (empty: none). Without `trials_a_month`, a month has as many as the last trials' pace makes.

    Raises:
        UsageError: no campaign has been started in the journal.
        JournalError: it cannot be read.
    """
    problem, summary = loaded.problem, reader.glance
    facts = gather(reader, loaded, None, now)
    if trials_a_month is not None:
        facts = replace(facts, money=replace(facts.money, trials_a_month=trials_a_month))
    history, state = reader.history(problem.space, [f.name for f in problem.further]), reader.policy_state() or {}
    known = past(reader, loaded)
    # what would have changed the last choice is for those who watch; here it is the recommendation that counts
    with remembering(reader.directory, history):
        worked_out = study_of(loaded, history, state, replace(known, before=None))
        changed = () if worked_out.recommendation is None else _changes(loaded, history, state, known.prices)
    return Report(
        facts=facts,
        study=worked_out,
        changes=changed,
        drawings=drawings(facts, worked_out),
        sets=_sets(facts.course.rows),
        author=author,
        logo=logo,
        states=summary.states(),
        alarms=tuple(sorted(facts.alarms, key=lambda a: (-a.severity, -a.count, a.alarm)))[:MOST],
        alarm_count=reader.alarms.mark().alarm,
        faults=summary.faults(MOST),
        unguarded=_unguarded(loaded),
        acts=reader.people.acts()[-MOST:],
        versions=summary.versions(),
        code={"Python": platform.python_version(), "rigctl": version("rigctl"), **libraries()},
        policy=loaded.policy_name,
        config=reader.campaign().config_text or loaded.text,
    )


def _unguarded(loaded: LoadedConfig) -> str:
    names = unguarded(loaded.rig) if loaded.wired else ()
    return unguarded_told(names, loaded.rig)


def _changes(loaded: LoadedConfig, history: History, state: JsonState, priced: Sequence[Price]) -> tuple[str, ...]:
    """Return what would change the recommendation, found by deciding again; with many trials that takes too long."""
    if len(history) > MOST_TRIALS:
        return ()
    unit = shown_unit(loaded.outcome_unit)
    found, names = changes(loaded, history, state, priced), loaded.problem.space.units
    return shown(found, currency=loaded.currency, unit=unit, names=names)


def document(found: Report) -> str:
    """Return the report as one HTML file that needs nothing else."""
    style, _ = asset("page.css")
    say = words.answer_in(found.facts.labels, found.study)
    groups: dict[str, list[Picture]] = {}
    for one in found.drawings:
        groups.setdefault(one.group, []).append(one)
    return filled(
        "report.html",
        report=found,
        facts=found.facts,
        study=found.study,
        labels=found.facts.labels,
        groups=groups,
        style=style.decode(),
        words=words,
        worth=worth_of(found.facts, found.study),
        say=say,
        ways=figures.ways(say) if say is not None else None,
        best=found.facts.best,
        states=STATES,
        most=MOST,
        fills=FILLS,
        reads=reads(found.facts.why, found.facts.labels.units),
    )


# Drawings -------------------------------------------------------------------------------------------------------------


ROW = 24
"""Pixels that a way of running takes."""
NAMES = 32
"""Percent of a drawing that their names take."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Holds one drawing and the numbers it shows."""

    name: str
    """Of its files, without a suffix."""
    group: str
    """Which part of the report it belongs to."""
    title: str
    drawing: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def drawings(facts: Facts, study: Study | None) -> tuple[Picture, ...]:
    """Return every drawing there is something for."""
    found = [_money(facts)]
    if facts.course.rows:
        tracks = Tracks.of(facts.course.rows, facts.labels)
        found += [*_course(facts, tracks), *_readings(facts, study)]
    say = words.answer_in(facts.labels, study)
    if say is not None and study is not None:
        found += [_ways(say), *_model(facts, study)]
    front = _front(facts, study)
    return (*found, front) if front is not None else tuple(found)


def _ways(say: AnswerWords) -> Picture:
    """Return every way of running on one outcome axis, the one to run first."""
    run, ways, (rows, axis) = say.answer.run, say.answer.ways, figures.ways(say)
    names = [words.way_label(say, w, " + ") for w in ways]
    parts = [_row(name, i, row) for i, (name, row) in enumerate(zip((*names, ""), (*rows, axis), strict=True))]
    title = f"Expected {say.outcome} of each way to run"
    return Picture(
        "ways",
        "ways",
        title,
        drawing(len(ways) * ROW + 16, title, f"to run: {names[0]}, {say.expected(run)}", Markup().join(parts)),
        ("way", "expected", "low", "high", "cost_per_trial", "trials"),
        tuple((n, w.expected, w.low, w.high, w.cost, w.trials) for n, w in zip(names, ways, strict=True)),
    )


def _row(name: str, place: int, row: Markup) -> Markup:
    text = Markup('<text class="label" x="0" y="{}">{}</text>').format(place * ROW + 16, name)
    inner = Markup('<svg x="{}%" y="{}" width="{}%" height="{}">{}</svg>')
    return text + inner.format(NAMES, place * ROW, 100 - NAMES, ROW, row)


def _money(facts: Facts) -> Picture:
    columns = ("meter", "kind", "quantity", "unit", "amount", "partly_estimated")
    rows = tuple((p.meter, p.kind, p.quantity, p.unit, p.cost, p.estimated) for p in facts.money.parts)
    gauge = figures.fuel(facts.money, facts.labels.currency)
    return Picture("money", "money", "Money by meter", gauge, columns, rows)


def _course(facts: Facts, tracks: Tracks) -> Iterator[Picture]:
    name, label = facts.labels.outcome.name, facts.labels.outcome.label
    sets = [set_label(tracks.sets[i]) for i in tracks.played]
    columns = ("trial", "cost", "money", "hours", name, "best", "control_set")
    series = (tracks.trial, tracks.cost, tracks.money, tracks.time_h, tracks.outcome, tracks.best)
    rows = tuple(zip(*(values.tolist() for values in series), sets, strict=True))
    axis = figures.axes(tracks)[0]
    against = figures.AXES[axis]
    drawn = (
        (f"course-{axis}", f"{label} against {against}", figures.course(facts, tracks, axis)),
        (f"cost-{axis}", f"Cost of a trial against {against}", figures.costs(facts, tracks, axis)),
        ("played", f"Control set of each trial against {against}", figures.strip(tracks, axis, facts.labels.units)),
        ("by-set", f"{label} by control set, every trial", figures.by_set(facts, tracks)),
    )
    yield from (Picture(file, "course", title, drawing, columns, rows) for file, title, drawing in drawn if drawing)


def _readings(facts: Facts, study: Study | None) -> Iterator[Picture]:
    rows = facts.course.rows
    bands = facts.bands if study is None else study.bands
    supplies = () if study is None else study.supplies
    names = facts.labels.units
    for name in names:
        drawing_ = figures.reading(rows, name, names, bands.get(name), supplies)
        told = tuple((r.trial, r.measured.get(name), name in r.control_set) for r in rows)
        yield Picture(
            f"reading-{name}", "readings", shown_name(name, names), drawing_, ("trial", name, "controlled"), told
        )


def _model(facts: Facts, study: Study) -> Iterator[Picture]:
    for s in study.slices:
        rows = tuple(zip(s.at, s.mean, s.low, s.high, s.tried, strict=True))
        columns = (s.variable, "expected", "low", "high", "tried")
        yield Picture(
            f"model-{s.variable}",
            "model",
            shown_name(s.variable, facts.labels.units),
            figures.model_slice(s, facts.labels),
            columns,
            rows,
        )


def _front(facts: Facts, study: Study | None) -> Picture | None:
    expected = None if study is None or study.recommendation is None else study.recommendation.front
    shown = figures.front(facts, expected)
    if shown is None:
        return None
    one, other = facts.labels.outcomes[:2]
    first, second = one.name, other.name
    rows = tuple((r.trial, set_label(r.control_set), r.outcome, r.further.get(second)) for r in facts.recorded)
    return Picture(
        "trade-off", "front", f"{one.label} against {other.label}", shown, ("trial", "control_set", first, second), rows
    )
