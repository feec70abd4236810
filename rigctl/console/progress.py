"""Shows a running campaign: a live display at a terminal, one line per step elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rigctl.campaign import events
from rigctl.campaign.patience import standing
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.console.board import Board, Labels
from rigctl.console.output import number, settings
from rigctl.console.sink import LAST_MESSAGES_S, Sink
from rigctl.core.money import to_units
from rigctl.errors import counted

BAR_WIDTH = 40
FRONT_TRIALS = 8
"""As many of the front are named."""


@contextmanager
def watching(loaded: LoadedConfig, console: Console) -> Iterator[events.Listener]:
    """Give a listener that shows on this console what happens while the block runs, drawn in a thread of its own."""
    board = Board(Labels.of(loaded), loaded.problem.budget)
    if not console.is_terminal:

        def tell(event: events.CampaignEvent) -> None:
            board.follow(event)
            if line := line_for(board, event):
                console.print(line, markup=False, emoji=False)

        with _beside(tell, console) as listener:
            yield listener
        return

    # refreshed by events only: rich's own refreshing would be one more thread
    with Live(display(board), console=console, auto_refresh=False, transient=True) as live:

        def show(event: events.CampaignEvent) -> None:
            board.follow(event)
            live.update(display(board), refresh=True)

        with _beside(show, console) as listener:
            yield listener


@contextmanager
def _beside(show: events.Listener, console: Console) -> Iterator[events.Listener]:
    """Give a listener that never waits: a thread shows what it is told, while the block runs and shortly after."""

    def shown(event: events.CampaignEvent) -> None:
        try:
            show(event)
        except Exception:  # a display that fails must not stop the rig (fault 46)
            log = structlog.get_logger("rigctl.console")
            log.warning("not shown", campaign_event=type(event).__name__, exc_info=True)
            raise

    sink: Sink[events.CampaignEvent] = Sink(
        "display", shown, lambda n: console.print(f"({counted(n, 'event')} not shown)")
    )
    try:
        yield sink.put
    finally:
        sink.close(LAST_MESSAGES_S)


# at a terminal ----------------------------------------------------------------------------------------------------


def display(board: Board) -> RenderableType:
    group: Group = Group(
        _now(board),
        _money_bar(board),
        _recent(board),
        *(Text(f"{a.severity.name} {a.source}: {a.message}", style="bold red") for a in board.alarms),
    )
    return Panel(group, title=f"rigctl: {board.labels.rig}", title_align="left")


def _now(board: Board) -> Table:
    grid = Table.grid(padding=(0, 2))
    proposed = board.proposed
    if proposed is None:
        grid.add_row("trial", "getting ready")
        return grid
    labels = board.labels
    state = board.state.value.lower() if board.state is not None else ""
    rows = {
        "trial": Text(f"{proposed.trial}  {proposed.proposal.phase}  {state}", style="bold"),
        "control": Text("+".join(proposed.control_set), style="bold"),
        "at": Text(settings(proposed.setpoints, labels.units)),
        "why": Text(proposed.proposal.reason),
        "best so far": Text(_best(board)),
    }
    if labels.further:
        rows["trade-off"] = Text(_front(board))
    if board.pausing:
        rows = {"campaign": Text(board.pausing, style="bold red"), **rows}
    for name, shown in rows.items():
        grid.add_row(name, shown)
    return grid


def _since(board: Board) -> str:
    return f", since trial {board.before}" if board.before else ""


def _front(board: Board) -> str:
    trials = ", ".join(str(row.trial) for row in board.front[-FRONT_TRIALS:])
    if not trials:
        return "none yet"
    more = len(board.front) - FRONT_TRIALS
    earlier = f" and {more} earlier ones" if more > 0 else ""
    return f"trials {trials}{earlier}: none beats them in every outcome{_since(board)}"


def _best(board: Board) -> str:
    best, labels = board.best, board.labels
    if best is None:
        return "none yet"
    value = f"{labels.outcome} {number(best.outcome)} {labels.outcomes[labels.outcome]}".rstrip()
    return f"{value} (trial {best.trial}, {'+'.join(best.control_set)}{_since(board)})"


def _money_bar(board: Board) -> RenderableType:
    share = min(1.0, board.spent / board.budget) if board.budget else 0.0
    filled = round(BAR_WIDTH * share)
    text = Text("spent        ")
    text.append("█" * filled, style="green" if share < 0.9 else "yellow")
    text.append("░" * (BAR_WIDTH - filled), style="dim")
    text.append(f"  {_spent(board)} ({share:.0%})")
    return text


def _spent(board: Board) -> str:
    return f"{to_units(board.spent):.2f} of {to_units(board.budget):.2f} {board.labels.currency}"


def _recent(board: Board) -> Table:
    labels = board.labels
    table = Table(box=None, padding=(0, 2), header_style="dim")
    outcomes = (f"{name} {unit}" for name, unit in labels.outcomes.items())
    for header in ("trial", "controlled", *outcomes, f"cost {labels.currency}", ""):
        table.add_column(header.strip(), justify="left" if header in ("controlled", "") else "right")
    for row in board.recent:
        note = "" if row.state is State.RECORDED else row.state.value.lower()
        cost = f"{to_units(row.cost):.3f}{'~' if row.estimated else ''}"
        further = (number(row.further.get(name)) for name in labels.further)
        table.add_row(str(row.trial), "+".join(row.control_set), number(row.outcome), *further, cost, note)
    return table


# in a pipe or a log -----------------------------------------------------------------------------------------------


def line_for(board: Board, event: events.CampaignEvent) -> str:
    """Return one line for an event that the board has followed; nothing for steps within a trial."""
    match event:
        case events.CampaignStarted():
            resumed = f", {counted(event.trials, 'trial')} done" if event.trials else ""
            lost = f", trial {event.lost} was lost and is charged" if event.lost is not None else ""
            line = f"rig {event.rig}: {_spent(board)} spent{resumed}{lost}"
        case events.TrialProposed():
            at = settings(event.setpoints, board.labels.units)
            chosen = "+".join(event.control_set)
            line = f"trial {event.trial} {event.proposal.phase}: control {chosen} at {at}; {event.proposal.reason}"
        case events.TrialEnded():
            line = _ended_line(board, event)
        case events.PhaseChanged():
            line = board.pausing or f"going on: {event.why}"
        case events.AlarmRaised():
            line = f"alarm {event.alarm.severity.name} {event.alarm.source}: {event.alarm.message}"
        case events.CampaignEnded():
            line = _end_line(board, event.result)
        case _:
            line = ""
    return line


def _end_line(board: Board, result: events.CampaignResult) -> str:
    unsafe = "" if result.safe.ok else f"; {standing(result.safe)}"
    return f"ended ({result.ending}): {result.reason}; {counted(result.trials, 'trial')}, {_spent(board)} spent{unsafe}"


def _ended_line(board: Board, event: events.TrialEnded) -> str:
    row, labels = event.row, board.labels
    outcome = settings({labels.outcome: row.outcome, **row.further}, labels.outcomes)
    if row.state is not State.RECORDED:
        outcome = row.because or "no outcome"
    about = " (estimated)" if row.estimated else ""
    cost = f"cost {to_units(row.cost):.4f} {labels.currency}{about}"
    return (
        f"trial {row.trial} {row.state.value.lower()}: {outcome}; {cost}; spent {_spent(board)}; best: {_best(board)}"
    )
