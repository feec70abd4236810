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
from rigctl.campaign.status import Status, answered, ending
from rigctl.campaign.trial import State
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.files import whole
from rigctl.notify.setup import Setup
from rigctl.notify.texts import SEVERITIES
from rigctl.page.facts import gather
from rigctl.page.shown import Facts
from rigctl.page.words import number
from rigctl.plugins import need
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
    numbers: Numbers | None = None
    """As last seen."""

    def numbers_now(self) -> Numbers:
        """Return what there is to be known now.

        Raises:
            UsageError, JournalError: there is no campaign here, or its journal cannot be read.
        """
        status, before = answered(self.directory, STATUS_S), None if self.numbers is None else self.numbers.facts
        now, journal = datetime.now(UTC), self.directory / FILE_NAME
        with at_one_instant(self.directory) as reader:
            alive = campaign_here(self.directory) is not None
            facts = gather(reader, None, status, now, before=before, alive=alive)
            dosed = dict(reader.doses.by_pump_ml(0.0))
        free = size = None
        with suppress(OSError):
            found = os.statvfs(self.directory)
            free = found.f_bavail * found.f_frsize
            size = sum(file.stat().st_size for file in (journal, log_of(journal)) if file.exists())
        self.numbers = Numbers(facts, dosed, status, free, size)
        return self.numbers


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
        return "Alarms: none active" + (f", {counted(len(open_), 'alarm')} to be acknowledged." if open_ else ".")
    active = sum(a.active for a in numbers.facts.alarms)
    word = SEVERITIES.get(first.severity, "note")
    return f"Alarms: {active} active, the worst a {word}: {first.source}: {first.message}."


def _end_words(facts: Facts) -> str:
    left, days = facts.money.trials_left, facts.money.days_left
    if left is None:
        return "The end cannot be estimated yet."
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


@dataclass(slots=True)
class Chores:
    """Gives numbers to Prometheus, if anybody wants them, in a thread of its own; mutable."""

    setup: Setup
    trouble: str = ""
    """Why it cannot; empty: it can."""
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
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
            need("prometheus_client", "notify")
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
    except UsageError:
        return ""  # the campaign has not begun yet: there are no numbers
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
_DOSED: Final = "rigctl_dosed_milliliters"
_COUNTERS: Final = (_DOSED, *(name for _, name, _ in _EXCHANGES))
"""Metrics that only rise; all others are gauges."""
Description = tuple[str, str, Sequence[str], Iterable[tuple[Sequence[str], float]]]
"""A metric's name, help text, names of its labels, and samples: values of the labels, and the number."""


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
    """Yield every metric; those whose value is not known have no sample."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - an extra

    for name, help_, labels, samples in (*_campaign(numbers), *_process(numbers.status or Status()), *_host(numbers)):
        kind = CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily
        family: Any = kind(name, help_, labels=labels)
        for values, number_ in samples:
            family.add_metric([str(value) for value in values], float(number_))
        yield family


def _campaign(numbers: Numbers) -> Iterator[Description]:
    facts = numbers.facts
    money, outcome, best, word = facts.money, facts.labels.outcome, facts.best, facts.phase.word
    states = Counter(row.state for row in facts.course.rows)
    active = Counter(a.severity.name for a in facts.alarms if a.active)
    phases = [((phase,), phase == word) for phase in dict.fromkeys((*PHASES, word))]
    measured = None if best is None else best.outcome
    yield "rigctl_trials", "Trials by state.", ("state",), [((s,), states[s]) for s in State]
    for name, help_, amount in (
        ("rigctl_money_spent", "Cost of the campaign so far.", money.spent),
        ("rigctl_money_budget", "Budget of the campaign.", money.budget),
        ("rigctl_money_production", "Cost of production batches so far.", money.operated or None),
    ):
        if amount is not None:
            yield name, help_, ("currency",), [((facts.labels.currency,), amount)]
    labels = ("outcome", "unit")
    yield "rigctl_best_outcome", "Best outcome measured so far.", labels, _one(measured, outcome.name, outcome.unit)
    by_severity = [((name,), active[name]) for name in LEVELS]
    yield "rigctl_alarms_active", "Active alarms, by severity.", ("severity",), by_severity
    yield "rigctl_alarms_unacknowledged", "Warnings that nobody has acknowledged.", (), _one(facts.unseen)
    yield "rigctl_phase", "State of the campaign: 1 for the current one, else 0.", ("phase",), phases
    yield _DOSED, "Volume dispensed, by pump.", ("pump",), [((p,), ml) for p, ml in numbers.dosed_ml.items()]


def _process(status: Status) -> Iterator[Description]:
    for key, name, help_ in _WATCH:
        yield name, help_, (), _one(status.watch.get(key))
    yield "rigctl_decision_seconds", "How long the last decision took.", (), _one(status.decision_s)
    for key, name, help_ in _EXCHANGES:
        yield name, help_, ("bus",), [((url,), counts[key]) for url, counts in status.buses.items()]
    read = {name: seen for name, seen in status.readings.items() if seen.value is not None}
    values = [sample for name, seen in read.items() for sample in _one(seen.value, name, seen.unit)]
    ages = [sample for name, seen in read.items() for sample in _one(seen.age_s, name)]
    yield "rigctl_reading", "Last reading of the watch.", ("name", "unit"), values
    yield "rigctl_reading_age_seconds", "Age of the last reading.", ("name",), ages


def _host(numbers: Numbers) -> Iterator[Description]:
    yield "rigctl_up", "Whether the campaign runs and answers.", (), _one(numbers.status is not None)
    free, size = numbers.disk_free_bytes, numbers.journal_bytes
    yield "rigctl_disk_free_bytes", "Free space on the disk of the state directory.", (), _one(free)
    yield "rigctl_journal_bytes", "Size of the journal and its log.", (), _one(size)


def _one(value: float | None, *labels: str) -> list[tuple[Sequence[str], float]]:
    """Return the one sample of a metric; none where its value is not known."""
    return [] if value is None else [(labels, value)]
