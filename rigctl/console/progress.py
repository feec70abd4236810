"""What a running campaign shows: a board of it that follows events, drawn again at a terminal, else as lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from rigctl.campaign import events
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.safe_file import standing
from rigctl.campaign.status import Status, StatusFold, StatusReading, TrialUnderWay
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.console.output import INDENT, ShownColumn, labelled, lines, number, redraws, table, wrapped
from rigctl.console.sink import LAST_MESSAGES_S, Sink
from rigctl.core.advice.explain import phase_word
from rigctl.core.experiment.money import to_units
from rigctl.core.multi_objective.trade_off import non_dominated
from rigctl.errors import counted
from rigctl.logs import logger
from rigctl.page.shown import ShownLabels
from rigctl.rig.spec import RigSpec
from rigctl.rig.values import Alarm
from rigctl.text import Names, lasting, settings, shown_name, shown_set, shown_unit, shown_value, shown_way, words_of

LAST_TRIALS = 8
LAST_ALARMS = 3


@dataclass(slots=True)
class Board:
    """Keeps the state of affairs; mutable, used in one thread only."""

    labels: ShownLabels
    rig: RigSpec
    now: Status
    """As last told."""
    before: int = 0
    """Trials of earlier runs, whose outcomes the board does not know."""
    best: TrialRow | None = None
    front: tuple[TrialRow, ...] = ()
    """Trials whose outcomes no other one's beat all together; empty where there is one outcome only."""
    recent: deque[TrialRow] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    alarms: list[Alarm] = field(default_factory=list)
    """The last of those that are not over."""
    took_s: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_TRIALS))
    """What the last trials took from the first move to the last reading, rig time."""
    _fold: StatusFold = field(init=False)
    _now_s: float = 0.0
    """Rig time, as last told."""

    def __post_init__(self) -> None:
        self._fold = StatusFold(self.now)

    @classmethod
    def of(cls, loaded: LoadedConfig) -> Board:
        budget = to_units(loaded.problem.budget)
        now = Status(rig=loaded.name, currency=loaded.currency, speedup=loaded.rig.speedup, spent=0.0, budget=budget)
        return cls(ShownLabels.of(loaded), loaded.rig, now)

    def hear(self, alarm: Alarm) -> None:
        """Show an alarm, the last few, until it is over."""
        key = None if alarm.state == "once" else (alarm.kind, alarm.source)
        others = [a for a in self.alarms if (a.kind, a.source) != key]
        self.alarms = [*others, alarm][-LAST_ALARMS:] if alarm.state != "over" else others

    def follow(self, event: events.CampaignEvent) -> None:
        self._fold.follow(event)
        self._now_s = getattr(event, "at_s", getattr(event, "now_s", self._now_s))
        self.now = self._fold.told(self._now_s)
        match event:
            case events.CampaignStarted():
                self.before = event.trials
            case events.TrialStep(state=State.MEASURED) if self.now.trial and self.now.trial.elapsed_s is not None:
                self.took_s.append(self.now.trial.elapsed_s)
            case events.TrialEnded() | events.OutcomeCame():
                self.take(event.row)
            case Alarm():
                self.hear(event)
            case _:
                pass

    def take(self, row: TrialRow) -> None:
        """Take in a trial that is over, or whose outcome has come later."""
        earlier = [place for place, known in enumerate(self.recent) if known.trial == row.trial]
        if earlier:
            self.recent[earlier[0]] = row
        else:
            self.recent.append(row)
        self._compare(row)

    @property
    def pausing(self) -> str:
        """Return why no trial goes on just now; empty while they do."""
        return "" if self.now.phase in ("starting", "running") else f"{self.now.phase}: {self.now.why}"

    @property
    def usual_s(self) -> float:
        """Return what a trial takes from its first move, wall seconds times the speedup."""
        least_s = self.rig.timing.takes_s
        return max(least_s, sum(self.took_s) / len(self.took_s)) if self.took_s else least_s

    @property
    def trial_left_s(self) -> float | None:
        """Return what the trial under way takes yet, wall seconds; None where none is."""
        trial = self.now.trial
        return None if trial is None else trial.takes_yet_s(self.usual_s) / self.now.speedup

    @property
    def trials_left(self) -> float | None:
        """Return how many more trials the budget buys at what they have cost so far; None before the first.

        None of production, too, which no budget bounds.
        """
        now = self.now
        if not now.spent or not now.budget or not now.trials or now.operating is not None:
            return None
        return max(0.0, (now.budget - now.spent) * now.trials / now.spent)

    def _compare(self, row: TrialRow) -> None:
        """Compare *observed* outcomes; the recommendation looks at expectations instead."""
        if row.state is not State.RECORDED or row.outcome is None:
            return
        if len(row.further) == len(self.labels.further) > 0:
            rows = (*self.front, row)
            values = np.array([[r.outcome, *(r.further[name] for name in self.labels.further)] for r in rows])
            kept = non_dominated(np.array(self.labels.signs) * values.astype(float))
            self.front = tuple(r for r, keep in zip(rows, kept, strict=True) if keep)
        if not self.labels.keeps(row):
            return
        best = None if self.best is None else self.best.outcome
        if best is None or self.labels.signs[0] * (row.outcome - best) > 0:
            self.best = row


BAR_WIDTH = 40
FRONT_TRIALS = 8
"""As many of the front are named."""
FRAME = 4
"""Columns that the frame takes."""
WORTH_A_LINE_S = 10.0
"""Wall seconds: what takes longer is told of in a pipe as it begins."""
STALE_S = 30.0
"""Wall seconds: a reading that is older is shown with its age."""
STEPS: Mapping[str, str] = {
    "decided": "getting ready",
    "prepare": "preparing",
    "look": "reading the variables",
    "decide": "deciding",
    "set": "bringing it to the setting",
    "settle": "settling",
    "measure": "measuring",
    "book": "booking",
}
"""What a step is called."""


@contextmanager
def watching(loaded: LoadedConfig, console: Console) -> Iterator[events.Listener]:
    """Give a listener that shows on this console what happens while the block runs, drawn in a thread of its own."""
    board = Board.of(loaded)
    if not redraws(console):

        def tell(event: events.CampaignEvent) -> None:
            board.follow(event)
            line = line_for(board, event)
            if line:
                print_whole(console, line)

        with _beside(tell, console) as listener:
            yield listener
        return

    with live(console) as draw:

        def show(event: events.CampaignEvent) -> None:
            board.follow(event)
            if isinstance(event, Alarm):
                print_whole(console, line_for(board, event))
            draw(board)

        draw(board)
        with _beside(show, console) as listener:
            yield listener


def print_whole(console: Console, line: str) -> None:
    """Print a line that is never broken within a word: in one piece in a pipe, at spaces in a dumb terminal."""
    lines(console, wrapped(line, console.width, INDENT))


@contextmanager
def live(console: Console) -> Iterator[Callable[[Board], None]]:
    """Give what draws a board in the place of the one before, until the block ends and leaves nothing of it behind."""
    # refreshed when told only: rich's own refreshing would be one more thread
    with Live(console=console, auto_refresh=False, transient=True) as display_:
        console.show_cursor()  # whoever leaves in a hurry leaves it as it is
        yield lambda board: display_.update(display(board, console.width), refresh=True)


@contextmanager
def _beside(show: events.Listener, console: Console) -> Iterator[events.Listener]:
    """Give a listener that never waits: a thread shows what it is told, while the block runs and shortly after."""

    def shown(event: events.CampaignEvent) -> None:
        try:
            show(event)
        except Exception:  # a display that fails must not stop the rig (fault 46)
            log = logger("rigctl.console")
            log.warning("not shown", campaign_event=type(event).__name__, exc_info=True)
            raise

    def lost(number: int) -> None:
        console.print(f"({counted(number, 'event')} not shown)")

    sink: Sink[events.CampaignEvent] = Sink("display", shown, lost)
    try:
        yield sink.put
    finally:
        sink.close(LAST_MESSAGES_S)


# at a terminal ----------------------------------------------------------------------------------------------------


def display(board: Board, width: int) -> RenderableType:
    """Return the board, framed; what is most urgent stands first, for a low window shows the head only.

    The last line is empty: what the terminal itself writes where the cursor stands (`^C`) then spoils nothing.
    """
    inside = width - FRAME
    alarms = (f"{a.severity.name} {a.source}: {a.message}" for a in board.alarms)
    group = Group(
        *(Text(line, style="bold red") for said in (*alarms, board.pausing) if said for line in wrapped(said, inside)),
        *(Text(line) for line in labelled(_now(board), inside, "")),
        _money_bar(board, inside),
        *(Text(line) for line in table(_recent(board), inside) if board.recent),
    )
    return Group(Panel(group, title=f"rigctl: {board.labels.rig}", title_align="left", width=width), Text(""))


def _now(board: Board) -> Mapping[str, str]:
    now, labels = board.now, board.labels
    operating = "" if now.operating is None else f"for production, {events.batched(now.operating.batches)} done"
    rows = {
        "operating": operating,
        **(_trial(board, now.trial) if now.trial else {"trial": "none" if board.pausing else "getting ready"}),
        "readings": readings_words(now.readings, board.labels.names),
        "best so far": _best(board) if now.operating is None else "",
        "trade-off": _front(board) if labels.further else "",
        "left": _left(board),
    }
    return {name: text for name, text in rows.items() if text}


def _trial(board: Board, trial: TrialUnderWay) -> Mapping[str, str]:
    units = board.labels.units
    return {
        "trial": f"{trial.trial}  {phase_word(trial.phase)}  {_step(board, trial)}",
        "read before": settings(trial.looks, units),
        "control": shown_set(trial.control_set, units),
        "at": settings(trial.setpoints, units),
        "doses": _doses(board, trial),
        "why": trial.reason,
    }


def step_words(trial: TrialUnderWay, speedup: float) -> str:
    """Say what is done now, and how long it takes yet."""
    words, left_s = STEPS.get(trial.step, trial.step), trial.step_left_s
    return words if left_s is None else f"{words}, {lasting(round(left_s / speedup))} left"


def _step(board: Board, trial: TrialUnderWay) -> str:
    words, left_s = step_words(trial, board.now.speedup), board.trial_left_s
    if left_s is None or left_s < WORTH_A_LINE_S or trial.step == "measure":
        return words
    return f"{words}; the trial takes about {lasting(round(left_s))} yet"


def state_line(board: Board) -> str:
    """Return one line that says how things stand."""
    now, trial = board.now, board.now.trial
    operating = "" if now.operating is None else f"operating, {events.batched(now.operating.batches)} done"
    parts = [board.pausing, operating, f"{counted(now.trials, 'trial')}, {_spent(now)} spent"]
    if trial is not None:
        doses, readings = _doses(board, trial), readings_words(now.readings, board.labels.names)
        control = f" controls {shown_set(trial.control_set, board.labels.units)}" if trial.control_set else ""
        parts += [f"trial {trial.trial}{control}: {_step(board, trial)}"]
        parts += [f"dosed {doses}" if doses else "", f"readings {readings}" if readings else ""]
    return "; ".join(filter(None, parts))


def _left(board: Board) -> str:
    trials = board.trials_left
    if trials is None:
        return ""
    told = f"about {counted(round(trials), 'trial')} at what they have cost so far"
    return f"{told}, {lasting(round(trials * board.usual_s / board.now.speedup))}"


def readings_words(readings: Mapping[str, StatusReading], names: Names | None = None) -> str:
    """Say what was last read."""
    told = []
    for name, seen in readings.items():
        if seen.value is None:
            told += [f"{shown_name(name, names)} no reading"] if seen.stale_after_s is not None else []
            continue
        since = ", none since" if seen.detail else ""
        age_s = seen.age_s or 0.0
        age = f" ({lasting(round(age_s))} ago{since})" if since or age_s > STALE_S else ""
        value = f"{number(seen.value)} {shown_unit(seen.unit)}".rstrip()
        value = shown_value(name, seen.value, names) if words_of(name, names) else value
        told.append(f"{shown_name(name, names)} {value}{age}")
    return ", ".join(told)


def _doses(board: Board, trial: TrialUnderWay) -> str:
    told = []
    for pump, doses in trial.doses.items():
        dosing, limits = board.rig.dosing.get(pump), board.rig.limits.get(pump)
        of = "" if dosing is None else f" of at most {dosing.max_doses}"
        cap_ml = None if limits is None else limits.per_day_ml
        day = "" if cap_ml is None else f", {number(doses.day_ml)} of {number(cap_ml)} mL in 24 h"
        told.append(f"{pump} {doses.count}{of}, {number(doses.volume_ml)} mL{day}")
    return "; ".join(told)


def _since(board: Board) -> str:
    return f", since trial {board.before + 1}" if board.before else ""


def _front(board: Board) -> str:
    trials = ", ".join(str(row.trial) for row in board.front[-FRONT_TRIALS:])
    if not trials:
        return "none yet"
    more = len(board.front) - FRONT_TRIALS
    earlier = f" and {counted(more, 'earlier one')}" if more > 0 else ""
    return f"trials {trials}{earlier}: none beats them in every outcome{_since(board)}"


def _best(board: Board) -> str:
    best, labels = board.best, board.labels
    if best is None:
        return "none yet"
    value = f"{labels.outcome.label} {number(best.outcome)} {labels.outcome.unit}".rstrip()
    return f"{value} (trial {best.trial}, {shown_set(best.control_set, labels.units)}{_since(board)})"


def _compared(board: Board, row: TrialRow) -> str:
    """Say what an outcome is to be held against: of a batch what was expected; the best is the luckiest one."""
    if board.now.operating is None:
        return f"; best: {_best(board)}"
    reports = row.proposal.sets if row.proposal is not None else ()
    if not reports or reports[0].mean is None:
        return ""
    name = board.labels.outcome.name
    return f"; expected: {settings({name: reports[0].mean}, board.labels.outcome_units)}"


def _money_bar(board: Board, width: int) -> RenderableType:
    if board.now.operating is not None:
        return Text(f"spent        {_spent(board.now)}")
    spent, budget = board.now.spent or 0.0, board.now.budget or 0.0
    share = min(1.0, spent / budget) if budget else 0.0
    label, told = "spent        ", f"  {_spent(board.now)} ({share:.0%})"
    room = max(min(BAR_WIDTH, width - len(label) - len(told)), 0)
    filled = round(room * share)
    text = Text(label)
    text.append("█" * filled, style="green" if share < 0.9 else "yellow")
    text.append("░" * (room - filled), style="dim")
    return text.append(told)


def _spent(now: Status) -> str:
    own = f"{now.spent or 0.0:.2f} of {now.budget or 0.0:.2f} {now.currency}"
    return own if now.operating is None else f"{now.operating.spent:.2f} {now.currency} for production, and {own}"


def _recent(board: Board) -> tuple[ShownColumn, ...]:
    labels, rows = board.labels, board.recent
    costs = [f"{to_units(r.cost):.3f}{'~' if r.estimated else ''}" for r in rows]
    notes = ["" if r.state is State.RECORDED else r.state.value.lower() for r in rows]
    first, *further = labels.outcomes
    values = [(first, [number(r.outcome) for r in rows])]
    values += [(one, [number(r.further.get(one.name)) for r in rows]) for one in further]
    return (
        ShownColumn("controlled", [shown_set(r.control_set, labels.units) for r in rows], left=True),
        ShownColumn("trial", [str(r.trial) for r in rows]),
        *(ShownColumn(f"{one.label}\n{one.unit}".strip(), cells) for one, cells in values),
        ShownColumn(f"cost\n{labels.currency}", costs),
        ShownColumn("", notes, left=True),
    )


# in a pipe or a log -----------------------------------------------------------------------------------------------


def line_for(board: Board, event: events.CampaignEvent) -> str:
    """Return one line for an event that the board has followed; of steps within a trial only for those that last."""
    match event:
        case events.CampaignStarted():
            resumed = f", {counted(event.trials, 'trial')} done" if event.trials else ""
            lost = f", trial {event.lost} was lost and is charged" if event.lost is not None else ""
            operating = "" if event.batches is None else f"operating, {events.batched(event.batches.count)} so far; "
            line = f"rig {event.rig}: {operating}{_spent(board.now)} spent{resumed}{lost}"
        case events.TrialProposed():
            way = shown_way(event.control_set, event.setpoints, board.labels.units)
            phase = phase_word(event.proposal.phase)
            line = f"trial {event.trial} {phase}: control {way}; {event.proposal.reason}"
        case events.TrialStep():
            line = _step_line(board, event)
        case events.TrialLooked():
            line = _looked_line(board, event)
        case events.OutcomeCame():
            return _came_line(board, event)
        case events.TrialEnded():
            line = _ended_line(board, event)
        case events.PhaseChanged():
            line = board.pausing or f"going on: {event.why}"
        case Alarm():
            line = f"alarm {'over:' if event.state == 'over' else event.severity.name} {event.source}: {event.message}"
        case events.CampaignResult():
            line = _end_line(board, event)
        case _:
            line = ""
    return line


def _step_line(board: Board, event: events.TrialStep) -> str:
    left_s, trial = board.trial_left_s, board.now.trial
    if trial is None or left_s is None or left_s < WORTH_A_LINE_S:
        return ""
    doses = _doses(board, trial)
    return f"trial {event.trial} {_step(board, trial)}{f'; dosed {doses}' if doses else ''}"


def _looked_line(board: Board, event: events.TrialLooked) -> str:
    read = {name: found.value for name, found in event.found.items() if found.count}
    unread = [
        f"{shown_name(name, board.labels.units)} not read" for name, found in event.found.items() if not found.count
    ]
    told = ", ".join(filter(None, (settings(read, board.labels.units), *unread)))
    return f"trial {event.trial} looked: {told}"


def _end_line(board: Board, result: events.CampaignResult) -> str:
    unsafe = "" if result.safe.ok else f"; {standing(result.safe)}"
    spent = f"{counted(result.trials, 'trial')}, {_spent(board.now)} spent"
    return f"ended ({result.ending}): {result.reason}; {spent}{unsafe}"


def _came_line(board: Board, event: events.OutcomeCame) -> str:
    row, labels = event.row, board.labels
    outcome = settings({labels.outcome.name: row.outcome, **row.further}, labels.outcome_units)
    if row.state is not State.RECORDED:
        outcome = f"given up: {row.because}"
    left = counted(event.awaited, "outcome") if event.awaited else "no outcome"
    return f"trial {row.trial} {row.state.value.lower()}: {outcome}; {left} still awaited{_compared(board, row)}"


def _ended_line(board: Board, event: events.TrialEnded) -> str:
    row, labels = event.row, board.labels
    outcome = settings({labels.outcome.name: row.outcome, **row.further}, labels.outcome_units)
    if row.state is not State.RECORDED:
        outcome = row.because or ("its outcome comes later" if row.state is State.AWAITING else "no outcome")
    about = " (estimated)" if row.estimated else ""
    cost = f"cost {to_units(row.cost):.4f} {labels.currency}{about}"
    ended = f"trial {row.trial} {row.state.value.lower()}: {outcome}"
    return f"{ended}; {cost}; spent {_spent(board.now)}{_compared(board, row)}"
