"""What the notifier's process does beside telling people: numbers for Prometheus, and the day's summary.

Both read the journal and ask the campaign how it is, as the page does. Neither is waited for by what tells people.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from rigctl.campaign.journal.alarms import pressing, worst
from rigctl.campaign.journal.integrity import log_of
from rigctl.campaign.journal.reader import FILE_NAME, at_one_instant
from rigctl.campaign.lock import campaign_here
from rigctl.campaign.status import Status, answered
from rigctl.campaign.trial import State
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.files import whole
from rigctl.notify.setup import Setup
from rigctl.notify.texts import SEVERITIES
from rigctl.page.facts import gather
from rigctl.page.shown import Facts
from rigctl.page.words import ending, number
from rigctl.rig.protocols import Severity
from rigctl.text import shown_set, told_utc

if TYPE_CHECKING:
    from prometheus_client import Metric


EVERY_S: Final = 15.0
"""Wall seconds between two writings of the metrics."""
STATUS_S: Final = 3.0
"""For the campaign to say how it is."""


@dataclass(slots=True)
class Looker:
    """Looks at a campaign, going on from its last look; mutable, used by one thread."""

    directory: Path
    facts: Facts | None = None
    numbers: Numbers | None = None
    """As last seen."""

    def numbers_now(self) -> Numbers:
        """Return what there is to be known now.

        Raises:
            UsageError, JournalError: there is no campaign here, or its journal cannot be read.
        """
        status = answered(self.directory, STATUS_S)
        now = datetime.now(UTC)
        with at_one_instant(self.directory) as reader:
            alive = campaign_here(self.directory) is not None
            self.facts = gather(reader, None, status, now, before=self.facts, alive=alive)
            dosed = dict(reader.doses.by_pump_ml(0.0))
        free = None
        with suppress(OSError):
            found = os.statvfs(self.directory)
            free = found.f_bavail * found.f_frsize
        self.numbers = Numbers(self.facts, dosed, status, free, self._size())
        return self.numbers

    def _size(self) -> int | None:
        journal = self.directory / FILE_NAME
        try:
            return sum(file.stat().st_size for file in (journal, log_of(journal)) if file.exists())
        except OSError:
            return None


def summary(setup: Setup) -> str:
    """Say in a few lines how the campaign stands: trials, spend, best so far, alarms, when it will end.

    Raises:
        RigctlError: the journal cannot be read.
    """
    spec = setup.telling.notify
    zone = ZoneInfo(spec.zone) if spec is not None and spec.zone else None
    return summary_of(Looker(Path(setup.state)).numbers_now(), zone)


def summary_of(numbers: Numbers, zone: tzinfo | None = None) -> str:
    """Say in a few lines how a campaign stands; times in this zone, None: the machine's."""
    facts = numbers.facts
    labels, money_, rows = facts.labels, facts.money, facts.course.rows
    day = (facts.now - timedelta(days=1)).isoformat()
    fresh = [row for row in rows if row.state.charged and row.changed_utc >= day]
    good = sum(row.recorded for row in fresh)
    lines = [
        f"It is {facts.phase.word}" + (f": {ending(facts.phase.why)}." if facts.phase.why else "."),
        f"Trials: {facts.charged}, {len(fresh)} of them in the last 24 h ({good} with an outcome).",
        f"Spent: {money_.spent:.2f} of {money_.budget:.2f} {labels.currency}."
        + (f" Production has cost {money_.operated:.2f} {labels.currency}." if money_.operated else ""),
    ]
    outcome = labels.outcome
    best = facts.best
    if best is not None:
        control_set = shown_set(best.control_set, labels.units) or "nothing"
        lines.append(
            f"Best so far: {number(best.outcome)} {outcome.unit}".rstrip()
            + f", trial {best.trial}, controlling {control_set}."
        )
    lines += _awaited_words(facts, zone)
    lines.append(_alarm_words(numbers))
    lines.append(_end_words(facts))
    return "\n".join(lines)


def _awaited_words(facts: Facts, zone: tzinfo | None) -> list[str]:
    """Say how many outcomes are awaited, and until when the first of them; nothing where none is."""
    if not facts.awaited:
        return []
    first = facts.awaited[0]
    until = told_utc(first.due, zone)
    when = f"trial {first.trial} until {until}" if first.how == "hand" else f"trial {first.trial} is read at {until}"
    return [f"Awaited: {counted(len(facts.awaited), 'outcome')}, the first of {when}."]


def _alarm_words(numbers: Numbers) -> str:
    first, open_ = worst(numbers.facts.alarms), pressing(numbers.facts.alarms)
    if first is None:
        return "Alarms: none stands" + (f", {counted(len(open_), 'alarm')} to be acknowledged." if open_ else ".")
    standing = sum(a.standing for a in numbers.facts.alarms)
    word = SEVERITIES.get(first.severity, "note")
    return f"Alarms: {standing} standing, the worst a {word}: {first.source}: {first.message}."


def _end_words(facts: Facts) -> str:
    left, days = facts.money.trials_left, facts.money.days_left
    if left is None:
        return "When it will end cannot be said yet."
    few, many = left
    trials = counted(few, "trial") if few == many else f"{few} to {many} trials"
    if days is None:
        return f"The budget lasts for {trials} more."
    until = facts.now + timedelta(days=days / facts.speedup)
    return f"The budget lasts for {trials} more, until about {until.date()}."


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    """Gives the numbers of the last look to whoever collects them."""

    current: Callable[[], Numbers | None]

    def collect(self) -> Iterable[Metric]:
        numbers = self.current()
        return [] if numbers is None else families(numbers)


def registry_of(current: Callable[[], Numbers | None]) -> Any:
    """Return a registry of the library whose only metrics are these."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(current))
    return registry


def write_textfile(path: Path, registry: Any) -> None:
    """Write the metrics in one piece: whoever reads sees the old file or the new one.

    Raises:
        OSError: it cannot be written.
    """
    from prometheus_client import generate_latest  # noqa: PLC0415 - an extra

    with whole(path) as new:
        new.write_bytes(generate_latest(registry))


def require_prometheus() -> None:
    """Raise UsageError if the library is not installed."""
    try:
        import prometheus_client  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "metrics: needs `prometheus-client`, which is not installed: pip install 'rigctl[notify]'"
        ) from error


@dataclass(slots=True)
class Chores:
    """Gives numbers to Prometheus, if anybody wants them, in a thread of its own; mutable."""

    setup: Setup
    trouble: str = ""
    """Why it cannot; empty: it can."""
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin, if there is anything to be done."""
        if self.setup.telling.metrics is not None:
            self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
            self._thread.start()

    def end(self, within_s: float) -> None:
        """Give the last numbers: of a campaign that runs no more."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(within_s)

    def _run(self) -> None:
        metrics = self.setup.telling.metrics
        if metrics is None:
            return
        looker = Looker(Path(self.setup.state))
        try:
            require_prometheus()
            registry = registry_of(lambda: looker.numbers)
        except RigctlError as error:
            self.trouble = str(error)
            return
        deaf = _listen(metrics.port, registry) if metrics.port else ""
        last = False
        while not last:
            last = self._ending.is_set()
            self.trouble = "; ".join(filter(None, (deaf, _given(looker, metrics.textfile or "", registry))))
            self._ending.wait(0.0 if last else EVERY_S)


def _listen(port: int, registry: Any) -> str:
    """Give the numbers over HTTP; return why that cannot be, if it cannot."""
    from prometheus_client import start_http_server  # noqa: PLC0415 - an extra

    try:
        start_http_server(port, addr="127.0.0.1", registry=registry)
    except OSError as error:
        return f"metrics: port {port} of 127.0.0.1 cannot be listened at: {error.strerror}"
    return ""


def _given(looker: Looker, textfile: str, registry: Any) -> str:
    """Give the numbers; return what is wrong with that, if anything is."""
    try:
        looker.numbers_now()
    except RigctlError as error:
        return f"metrics: {error}"
    except Exception as error:  # noqa: BLE001 - the thread must go on; it is told
        return f"metrics: {type(error).__name__}: {error}"
    try:
        if textfile:
            write_textfile(Path(textfile), registry)
    except OSError as error:
        return f"metrics: {textfile}: cannot be written: {error.strerror}"
    return ""


# Metrics --------------------------------------------------------------------------------------------------------------


PHASES: Final = ("starting", "running", "holding", "paused", "waiting", "ended", "tripped", "not running")
LEVELS: Final = tuple(severity.name for severity in Severity if severity > Severity.NONE)
_WATCH: Final = (
    ("late_s", "rigctl_watch_late_seconds", "By how much the watch looked late, the last time."),
    ("worst_late_s", "rigctl_watch_late_max_seconds", "By how much the watch looked late at worst."),
    ("age_s", "rigctl_watch_age_seconds", "Time since the watch looked last."),
)
_EXCHANGES: Final = (
    ("failed", "rigctl_bus_failed_exchanges", "Exchanges without a good answer since the process began."),
    ("repeated", "rigctl_bus_repeated_reads", "Reads that were asked again since the process began."),
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Holds what the metrics are made of."""

    facts: Facts
    dosed_ml: Mapping[str, float] = field(default_factory=dict)
    """By pump, in the whole campaign."""
    status: Status | None = None
    """What the running campaign says; None: none answers."""
    disk_free_bytes: int | None = None
    journal_bytes: int | None = None


def families(numbers: Numbers) -> Iterator[Metric]:
    """Yield every metric; those whose value is not known are left out."""
    yield from _campaign(numbers)
    yield from _process(numbers)
    yield from _readings(numbers.status)


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
    first = facts.best
    best = [] if first is None or first.outcome is None else [((outcome.name, outcome.unit), first.outcome)]
    yield _gauge("rigctl_best_outcome", "Best outcome measured so far.", ("outcome", "unit"), best)
    standing = Counter(a.severity.name for a in numbers.facts.alarms if a.standing)
    yield _gauge(
        "rigctl_alarms_standing",
        "Alarms whose cause has not gone, by severity.",
        ("severity",),
        [((name,), standing[name]) for name in LEVELS],
    )
    yield _gauge("rigctl_alarms_unacknowledged", "Warnings that nobody has acknowledged.", (), [((), facts.unseen)])
    word = facts.phase.word
    phases = [((phase,), float(phase == word)) for phase in dict.fromkeys((*PHASES, word))]
    yield _gauge("rigctl_phase", "What the campaign does: 1 for that, else 0.", ("phase",), phases)
    doses = [((pump,), ml) for pump, ml in numbers.dosed_ml.items()]
    yield _counter("rigctl_dosed_milliliters", "What pumps have given, by pump.", ("pump",), doses)


def _process(numbers: Numbers) -> Iterator[Metric]:
    status = numbers.status
    yield _gauge("rigctl_up", "Whether the campaign runs and answers.", (), [((), float(status is not None))])
    watch = {} if status is None else status.watch
    for key, name, help_ in _WATCH:
        yield _gauge(name, help_, (), [((), watch[key])] if key in watch else [])
    decision_s = [] if status is None or status.decision_s is None else [((), status.decision_s)]
    yield _gauge("rigctl_decision_seconds", "How long the last decision took.", (), decision_s)
    for key, name, help_ in _EXCHANGES:
        by_bus = [((url,), counts[key]) for url, counts in ({} if status is None else status.buses).items()]
        yield _counter(name, help_, ("bus",), by_bus)
    free, size = numbers.disk_free_bytes, numbers.journal_bytes
    disk = "Free space on the disk of the state directory."
    yield _gauge("rigctl_disk_free_bytes", disk, (), [] if free is None else [((), free)])
    yield _gauge("rigctl_journal_bytes", "Size of the journal and its log.", (), [] if size is None else [((), size)])


def _readings(status: Status | None) -> Iterator[Metric]:
    known = [] if status is None else [(n, r) for n, r in status.readings.items() if r.value is not None]
    values = [((name, reading.unit), reading.value or 0.0) for name, reading in known]
    yield _gauge("rigctl_reading", "What the watch has read last.", ("name", "unit"), values)
    ages = [((name,), reading.age_s) for name, reading in known if reading.age_s is not None]
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
