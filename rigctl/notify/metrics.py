"""A campaign's numbers as Prometheus has them: made of its journal and of what it says of itself (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rigctl.campaign.alarms import AlarmState
from rigctl.campaign.trial import State
from rigctl.page.shown import Facts
from rigctl.rig.protocols import Severity

if TYPE_CHECKING:
    from prometheus_client import Metric

PHASES: Final = ("starting", "running", "holding", "paused", "waiting", "ended", "tripped", "not running")
SEVERITIES: Final = tuple(severity.name for severity in Severity if severity > Severity.NONE)
_EXCHANGES: Final = (
    ("failed", "rigctl_bus_failed_exchanges", "Exchanges without a good answer since the process began."),
    ("repeated", "rigctl_bus_repeated_reads", "Reads that were asked again since the process began."),
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Holds what the metrics are made of."""

    facts: Facts
    alarms: Sequence[AlarmState] = ()
    dosed_ml: Mapping[str, float] = field(default_factory=dict)
    """By pump, in the whole campaign."""
    status: Mapping[str, Any] | None = None
    """What the running campaign says; None: none answers."""
    disk_free_bytes: int | None = None
    journal_bytes: int | None = None


def families(numbers: Numbers) -> Iterator[Metric]:
    """Yield every metric; those whose value is not known are left out."""
    yield from _campaign(numbers)
    yield from _process(numbers)
    yield from _readings(numbers.status or {})


def _campaign(numbers: Numbers) -> Iterator[Metric]:
    facts = numbers.facts
    currency, outcome = facts.labels.currency, facts.labels.outcome
    states = Counter(row.state for row in facts.course.rows)
    yield _gauge("rigctl_trials", "Trials by state.", ("state",), [((s,), states[s]) for s in State])
    spent, budget = (((currency,), facts.money.spent),), (((currency,), facts.money.budget),)
    yield _gauge("rigctl_money_spent", "What the campaign has cost so far.", ("currency",), spent)
    yield _gauge("rigctl_money_budget", "What it may cost.", ("currency",), budget)
    if facts.money.operated:
        operated = (((currency,), facts.money.operated),)
        yield _gauge(
            "rigctl_money_production", "What batches for production have cost so far.", ("currency",), operated
        )
    outcomes = [row.outcome for row in facts.recorded if row.outcome is not None]
    best = [((outcome.name, outcome.unit), (max if outcome.maximise else min)(outcomes))] if outcomes else []
    yield _gauge("rigctl_best_outcome", "Best outcome measured so far.", ("outcome", "unit"), best)
    standing = Counter(a.severity.name for a in numbers.alarms if a.standing)
    yield _gauge(
        "rigctl_alarms_standing",
        "Alarms whose cause has not gone, by severity.",
        ("severity",),
        [((name,), standing[name]) for name in SEVERITIES],
    )
    unseen = sum(a.condition in ("stands", "over") and not a.note for a in numbers.alarms)
    yield _gauge("rigctl_alarms_unacknowledged", "Warnings that nobody has acknowledged.", (), [((), unseen)])
    word = facts.phase.word
    phases = [((phase,), float(phase == word)) for phase in dict.fromkeys((*PHASES, word))]
    yield _gauge("rigctl_phase", "What the campaign does: 1 for that, else 0.", ("phase",), phases)
    doses = [((pump,), ml) for pump, ml in numbers.dosed_ml.items()]
    yield _counter("rigctl_dosed_milliliters", "What pumps have given, by pump.", ("pump",), doses)


def _process(numbers: Numbers) -> Iterator[Metric]:
    status = numbers.status
    yield _gauge("rigctl_up", "Whether the campaign runs and answers.", (), [((), float(status is not None))])
    told = status or {}
    watch = told.get("watch") or {}
    for key, name, help_ in (
        ("late_s", "rigctl_watch_late_seconds", "By how much the watch looked late, the last time."),
        ("worst_late_s", "rigctl_watch_late_max_seconds", "By how much the watch looked late at worst."),
        ("age_s", "rigctl_watch_age_seconds", "Time since the watch looked last."),
    ):
        yield _gauge(name, help_, (), [((), watch[key])] if key in watch else [])
    decision_s = [((), told["decision_s"])] if "decision_s" in told else []
    yield _gauge("rigctl_decision_seconds", "How long the last decision took.", (), decision_s)
    for key, name, help_ in _EXCHANGES:
        by_bus = [((url,), counts[key]) for url, counts in (told.get("buses") or {}).items()]
        yield _counter(name, help_, ("bus",), by_bus)
    free, size = numbers.disk_free_bytes, numbers.journal_bytes
    disk = "Free space on the disk of the state directory."
    yield _gauge("rigctl_disk_free_bytes", disk, (), [] if free is None else [((), free)])
    yield _gauge("rigctl_journal_bytes", "Size of the journal and its log.", (), [] if size is None else [((), size)])


def _readings(status: Mapping[str, Any]) -> Iterator[Metric]:
    known = {name: r for name, r in (status.get("readings") or {}).items() if r.get("value") is not None}
    values = [((name, str(r.get("unit", ""))), r["value"]) for name, r in known.items()]
    yield _gauge("rigctl_reading", "What the watch has read last.", ("name", "unit"), values)
    ages = [((name,), r["age_s"]) for name, r in known.items() if r.get("age_s") is not None]
    yield _gauge("rigctl_reading_age_seconds", "How old that is.", ("name",), ages)


Samples = Iterable[tuple[Sequence[str], float]]


def _gauge(name: str, help_: str, labels: Sequence[str], samples: Samples) -> Metric:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

    return _filled(GaugeMetricFamily(name, help_, labels=labels), samples)


def _counter(name: str, help_: str, labels: Sequence[str], samples: Samples) -> Metric:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - an extra

    return _filled(CounterMetricFamily(name, help_, labels=labels), samples)


def _filled(family: Any, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric([str(label) for label in labels], float(value))
    metric: Metric = family
    return metric
