"""`rigctl run`: a campaign on a rig, from here to its recommendation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from rigctl.campaign import daemon
from rigctl.campaign.clock import RealClock
from rigctl.campaign.desk import notify
from rigctl.campaign.events import CampaignEvent, CampaignResult
from rigctl.campaign.journal import open_reader
from rigctl.campaign.lock import open_to_others, unseen_by_others
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig
from rigctl.console import report
from rigctl.console.assemble import rig_factory
from rigctl.console.board import Labels
from rigctl.console.output import number
from rigctl.console.progress import watching
from rigctl.console.safe import safe_json
from rigctl.core.money import to_units
from rigctl.core.recommend import Recommendation
from rigctl.errors import PolicyError, counted
from rigctl.notify.notifier import LAST_WORDS_S, telling_people
from rigctl.notify.setup import Setup
from rigctl.page.campaign import campaign_spec
from rigctl.signals import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.rig.protocols import Clock
    from rigctl.signals import Signals

RECOMMENDING_S = 300.0
"""What a slow board may need for the recommendation after a long campaign, wall seconds."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Says how a run ended, and what it recommends."""

    result: CampaignResult
    recommendation: Recommendation | None
    """None: no trial has given an outcome."""
    ledger: int
    """Sum of all ledger lines, idle ones among them, micro-units."""
    awaited: int = 0
    """Trials whose outcome is still to come."""

    @property
    def exit_code(self) -> int:
        return exit_code(self.result)


def exit_code(result: CampaignResult) -> int:
    """Return 0 if all is safe, the watch did not end it, and trials, if there were any, gave outcomes.

    130, as a shell has it, if Ctrl-C ended it and all is safe.
    """
    if result.safe.ok and result.ending == "abandoned" and result.reason == "SIGINT":
        return INTERRUPTED_EXIT
    fruitless = result.trials > 0 and result.recorded == 0 and result.ending != "abandoned"
    return 1 if not result.safe.ok or fruitless or result.ending == "interlock" else 0


def run_campaign(
    loaded: LoadedConfig, directory: Path, console: Console, signals: Signals | None = None, clock: Clock | None = None
) -> Ended:
    """Start or resume the campaign in this state directory, showing progress on the console.

    `signals` are caught already; one that has come ends the campaign at once, everything safe. `clock` is rig time;
    None: this machine's, sped up as configured.

    Raises:
        UsageError: no devices, or another configuration than it was started with.
        Locked, JournalError, DeviceError, Tripped: see `daemon.run_campaign`.
    """
    result = conducted(campaign_spec(loaded), loaded, directory, console, signals=signals, clock=clock)
    with open_reader(directory) as reader:
        ledger = sum(line.amount for line in reader.ledger()) + sum(line.amount for line in reader.idle.rows())
        try:
            recommendation = report.from_journal(loaded, reader)
        except PolicyError:
            recommendation = None
        awaited = sum(row.state is State.AWAITING for row in reader.trials())
    return Ended(result, recommendation, ledger, awaited)


def conducted(
    spec: CampaignSpec,
    loaded: LoadedConfig,
    directory: Path,
    console: Console,
    *,
    signals: Signals | None = None,
    clock: Clock | None = None,
) -> CampaignResult:
    """Run it until it ends, showing progress and telling people; nothing looks on any more when this returns."""
    clock = clock or RealClock(loaded.rig.speedup)
    factory = rig_factory(loaded, clock)
    if wide := open_to_others(directory):
        structlog.get_logger("rigctl.console").warning(wide)
    setup = Setup(loaded.name, loaded.currency, str(directory.absolute()), loaded.telling)
    with unseen_by_others(), telling_people(setup, clock) as people, watching(loaded, console) as show:

        def listener(event: CampaignEvent) -> None:
            if people is not None:
                people.put(event)
            show(event)

        untold = people.trouble if people is not None else lambda: ""
        campaign = daemon.run_campaign(spec, directory, factory, clock, listener, signals=signals, untold=untold)
        result = asyncio.run(campaign)
        notify(f"EXTEND_TIMEOUT_USEC={round(2e6 * LAST_WORDS_S)}")  # for the last messages to people
    notify(f"EXTEND_TIMEOUT_USEC={round(RECOMMENDING_S * 1e6)}")  # nothing looks on any more, for all is safe
    return result


def to_json(outcome: Ended) -> Mapping[str, Any]:
    """Return how it ended, for programs; money in currency units."""
    result = outcome.result
    return {
        "ending": result.ending,
        "reason": result.reason,
        "trials": result.trials,
        "spent": to_units(result.spent),
        "budget": to_units(result.budget),
        "ledger_sum": to_units(outcome.ledger),
        "safe": safe_json(result.safe),
        "worst_tick_delay_s": result.worst_tick_delay_s,
        "safe_after_s": result.safe_after_s,
        "recommendation": None if outcome.recommendation is None else report.to_json(outcome.recommendation),
    }


def show(outcome: Ended, loaded: LoadedConfig, console: Console, note: str = "") -> None:
    """Show how it ended, for people; `note` goes with the recommendation."""
    labels, result = Labels.of(loaded), outcome.result
    spent = f"{to_units(result.spent):.2f} of {to_units(result.budget):.2f} {labels.currency}"
    console.print(f"{counted(result.trials, 'trial')}, {spent} spent; ended ({result.ending}): {result.reason}")
    if outcome.ledger != result.spent + result.operated:  # cannot be; whoever sees it should hear of it
        console.print(f"the ledger adds up to {number(to_units(outcome.ledger), 9)} instead", style="bold red")
    for actuator, why in result.safe.failed.items():
        console.print(f"NOT SAFE: {actuator}: {why}", style="bold red")
    if outcome.recommendation is None:
        to_come = f" yet; those of {counted(outcome.awaited, 'trial')} are awaited" if outcome.awaited else ""
        console.print(f"No recommendation: no trial has given an outcome{to_come}.")
    else:
        report.show(outcome.recommendation, labels, console, note)
