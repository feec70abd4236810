"""Running a campaign, or production, in a terminal: what is shown meanwhile, and how it ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign import daemon
from rigctl.campaign.desk import notify
from rigctl.campaign.events import CampaignEvent, CampaignResult, CampaignStarted, OutcomeCame, TrialEnded, batched
from rigctl.campaign.journal import Reader, open_reader
from rigctl.campaign.lock import open_to_others, unseen_by_others
from rigctl.campaign.production import Production, for_production, production
from rigctl.campaign.spec import CampaignSpec, check_readable
from rigctl.campaign.trial import State
from rigctl.config.load import LoadedConfig, Overrides, load
from rigctl.config.profiles import keep_own
from rigctl.console import report
from rigctl.console.ahead import answering_ahead
from rigctl.console.assemble import has_journal, rig_factory, state_directory
from rigctl.console.benches.by_hand import quantities
from rigctl.console.options import Wish, require_devices
from rigctl.console.output import INDENT, lines, number, told, wrapped
from rigctl.console.progress import watching
from rigctl.console.safe import safe_json
from rigctl.core.advice.recommend import Recommendation
from rigctl.core.experiment.money import to_units
from rigctl.core.operating.policy import Operating
from rigctl.errors import PolicyError, UsageError, counted
from rigctl.flaws import Flaw, got
from rigctl.logs import logger
from rigctl.notify.notifier import LAST_WORDS_S, telling_people
from rigctl.notify.setup import Setup
from rigctl.page.campaign import campaign_spec, configured
from rigctl.page.shown import ShownLabels
from rigctl.rig.clocks import RealClock
from rigctl.signals import INTERRUPTED_EXIT
from rigctl.text import in_full, set_label, shown_unit

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.rig.clocks import Clock
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
    wide = "; ".join(filter(None, open_to_others(directory)))
    if wide:
        logger("rigctl.console").warning(wide)
    setup = Setup(loaded.name, loaded.currency, str(directory.absolute()), loaded.telling)
    # where rig time is sped up trials take seconds, and nobody asks meanwhile
    ahead = answering_ahead(directory) if clock.speedup == 1 else nullcontext(str)
    with unseen_by_others(), ahead as renew, telling_people(setup, clock) as people, watching(loaded, console) as show:

        def listener(event: CampaignEvent) -> None:
            if isinstance(event, CampaignStarted):
                _keep_profiles(loaded, directory)
            if isinstance(event, TrialEnded | OutcomeCame):
                renew()
            if people is not None:
                people.put(event)
            show(event)

        untold = people.trouble if people is not None else lambda: ""
        campaign = daemon.run_campaign(spec, directory, factory, clock, listener, signals=signals, untold=untold)
        result = asyncio.run(campaign)
        notify(f"EXTEND_TIMEOUT_USEC={round(2e6 * LAST_WORDS_S)}")  # for the last messages to people
    notify(f"EXTEND_TIMEOUT_USEC={round(RECOMMENDING_S * 1e6)}")  # nothing looks on any more, for all is safe
    return result


def _keep_profiles(loaded: LoadedConfig, directory: Path) -> None:
    try:
        keep_own(loaded.document, loaded.path.parent, directory)
    except OSError as error:
        what = f"{directory}: the profiles beside {loaded.path} cannot be copied there ({error}); keep them"
        logger("rigctl.console").warning(what)


def to_json(outcome: Ended) -> Mapping[str, Any]:
    """Return how it ended, for programs; money in currency units."""
    return {
        **_ending_json(outcome.result),
        "trials": outcome.result.trials,
        "ledger_sum": to_units(outcome.ledger),
        "recommendation": None if outcome.recommendation is None else report.to_json(outcome.recommendation),
    }


def _ending_json(result: CampaignResult) -> Mapping[str, Any]:
    return {
        "ending": result.ending,
        "reason": result.reason,
        "spent": to_units(result.spent),
        "budget": to_units(result.budget),
        "safe": safe_json(result.safe),
        "worst_tick_delay_s": result.worst_tick_delay_s,
        "safe_after_s": result.safe_after_s,
    }


def show(outcome: Ended, loaded: LoadedConfig, console: Console, note: str = "", ask: str = "") -> None:
    """Show how it ended, for people; `note` and `ask` go with the recommendation."""
    labels, result = ShownLabels.of(loaded), outcome.result
    spent = f"{to_units(result.spent):.2f} of {to_units(result.budget):.2f} {labels.currency}"
    console.print(f"{counted(result.trials, 'trial')}, {spent} spent; ended ({result.ending}): {_why(result)}")
    if outcome.ledger != result.spent + result.operated:  # cannot be; whoever sees it should hear of it
        console.print(f"the ledger adds up to {number(to_units(outcome.ledger), 9)} instead", style="bold red")
    _show_unsafe(result, console)
    if outcome.recommendation is None:
        to_come = f" yet; those of {counted(outcome.awaited, 'trial')} are awaited" if outcome.awaited else ""
        console.print(f"No recommendation: no trial has given an outcome{to_come}.")
    else:
        report.show(outcome.recommendation, labels, console, note, ask=ask)


def _why(result: CampaignResult) -> str:
    return {"SIGINT": "Ctrl-C", "SIGHUP": "the terminal was closed"}.get(result.reason, result.reason)


def _show_unsafe(result: CampaignResult, console: Console) -> None:
    for actuator, why in result.safe.failed.items():
        console.print(f"NOT SAFE: {actuator}: {why}", style="bold red")


# for production ------------------------------------------------------------------------------------------------------


MOST_LOST = 0.5
"""Share of what is gained that may be lost by exploring at most: beyond it is a campaign."""
MOST_DRIFTS = 2
"""Told in the last words; the others stand among the alarms."""


@dataclass(frozen=True, slots=True)
class Operated:
    """Says how production ended, and what came of it."""

    result: CampaignResult
    production: Production | None
    """None: no batch has been run."""


def prepared(
    config: Path, state: Path | None, buses: Mapping[str, str], wish: Wish
) -> tuple[LoadedConfig, Operating, Path]:
    """Return the configuration, who decides the batches, and where the campaign is.

    Seed and budget are the campaign's, if there is one.

    Raises:
        UsageError: there is nothing to drive, or to run yet, or something of the wish cannot be.
        ConfigError: the configuration does not hold.
        JournalError: the journal cannot be read.
    """
    loaded = load(config, Overrides(buses), to_run=True)
    require_devices(loaded)
    directory = state_directory(state, loaded.name)
    known = trials = awaited = 0
    if has_journal(directory):
        with open_reader(directory) as reader:
            campaign = None
            with suppress(UsageError):  # none has begun in it: its start was refused
                campaign = reader.campaign()
            if campaign is not None:
                loaded = configured(campaign, directory, buses, config, to_run=True)
                check_readable(campaign.identity, campaign_spec(loaded))
                trials, known, awaited = _counts(loaded, reader)
    fixed, learn = setpoints(loaded, wish.at), share(wish.learn)
    if fixed and (learn is not None or wish.anew or wish.full):
        other = "--learn" if learn is not None else "--anew" if wish.anew else "--full"
        raise UsageError(f"operate: give --set or {other}, not both; with --set nothing is recommended")
    if wish.full:
        require_a_reading("operate", loaded, config)
    if not known and not fixed:
        there = f"{counted(trials, 'trial')}, none with an outcome" if trials else "no trial"
        first = (
            "`rigctl trial outcome TRIAL VALUE` says one that is awaited" if awaited else f"`rigctl run {config}` first"
        )
        remedy = f"{first}, or say what to run with --set NAME=X,..."
        raise UsageError(Flaw(f"holds {there}", remedy=remedy, where=str(directory)))
    at_least = trials if wish.anew else 0
    asked = learn, fixed, at_least, wish.full, loaded.worth
    return loaded, Operating(loaded.policy, loaded.tolerance, loaded.seed, *asked), directory


def require_a_reading(verb: str, loaded: LoadedConfig, config: Path) -> None:
    """Refuse `--full` on a rig that does not look."""
    if not loaded.problem.looks:
        raise UsageError(
            f"{verb}: got --full, needs `trial.look` in {config}: without a reading all there is to run is the fixed "
            "setting; leave out --full"
        )


def _counts(loaded: LoadedConfig, reader: Reader) -> tuple[int, int, int]:
    """Return how many trials there are, how many gave an outcome, and how many still may."""
    history = reader.history(loaded.problem.space)
    return len(history), len(history.complete), len(history.awaited)


def share(text: str | None) -> float | None:
    """Return the share that `--learn 5 %`, `5%` or `0.05` says; None where nothing was asked for.

    Raises:
        UsageError: it is no share, or too much of one.
    """
    if text is None:
        return None
    bare = text.strip()
    try:
        value = float(bare.removesuffix("%")) / (100.0 if bare.endswith("%") else 1.0)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= MOST_LOST:  # nan, too
        must = f'must be a share from 0 % to {in_full(100 * MOST_LOST)} %, such as "5 %" or 0.05'
        flaw = got(
            text, must, "the share of the gain over controlling nothing that exploring may cost", where="--learn"
        )
        raise UsageError(flaw)
    return value


def setpoints(loaded: LoadedConfig, given: str | None) -> tuple[tuple[str, float], ...]:
    """Return the setpoints of `--set ph=6.1,ca=3.3`, in the variables' units and order; nothing where it was not said.

    Raises:
        UsageError: it is empty, a name is no variable, a value cannot be set, or they are no control set together.
    """
    if given is None:
        return ()
    if not given.strip():  # what a script fills in and has not: without it something else is run
        remedy = "leave --set out to run what was found to be best"
        raise UsageError(got(given, "must be NAME=X,...", remedy, where="--set"))
    space = loaded.problem.space
    found: dict[str, float] = {}
    for v, text, value in quantities(loaded, "--set", given):
        unit = f" {shown_unit(v.unit)}".rstrip()
        if not v.low <= value <= v.high:
            must = f"must be from {in_full(v.low)} to {in_full(v.high)}{unit}"
            raise UsageError(got(text, must, where=f"--set: {v.name}"))
        if v.step is not None and not math.isclose(v.setpoint((value - v.low) / (v.high - v.low)), value):
            must = f"must be in steps of {in_full(v.step)}{unit} from {in_full(v.low)}{unit}"
            raise UsageError(got(text, must, where=f"--set: {v.name}"))
        found[v.name] = value
    try:
        index = space.index_of(tuple(found))
    except ValueError:
        allowed = ", ".join(c.label for c in space.control_sets)
        raise UsageError(got(set_label(found), f"must be one of the control sets: {allowed}", where="--set")) from None
    return tuple((name, found[name]) for name in space.control_sets[index].names)


def operate(
    loaded: LoadedConfig,
    wish: tuple[Operating, int | None],
    directory: Path,
    console: Console,
    signals: Signals | None = None,
) -> Operated:
    """Run batches until stopped, or as many as were asked for. Raises as `run_campaign`."""
    spec = for_production(campaign_spec(loaded), *wish)
    result = conducted(spec, loaded, directory, console, signals=signals)
    with open_reader(directory) as reader:
        return Operated(result, production(reader))


def operated_json(done: Operated) -> Mapping[str, Any]:
    """Return how it ended, for programs; money in currency units."""
    of = done.production
    return {
        **_ending_json(done.result),
        "production": None if of is None else {**told(of), "spent": to_units(of.spent)},
    }


def show_operated(done: Operated, loaded: LoadedConfig, console: Console) -> None:
    """Show for people how it ended, and what came of it."""
    result, labels = done.result, ShownLabels.of(loaded)
    console.print(f"ended ({result.ending}): {_why(result)}")
    _show_unsafe(result, console)
    if done.production is None:
        console.print("No batch has been run.")
        return
    for line in sentences(done.production, labels, result):
        lines(console, wrapped(line, console.width, INDENT * 2))


def sentences(of: Production, labels: ShownLabels, result: CampaignResult) -> Iterator[str]:
    """Yield what came of the batches, in nine lines at most."""
    unit, currency = labels.outcome.unit, labels.currency
    beside = "".join(
        f", {n} {words}"
        for n, words in ((of.awaited, "awaited"), (of.explored, "to learn"), (of.instead, "not by the rule"))
        if n
    )
    made_of = f", by what {counted(of.made_of, 'trial')} taught" if of.made_of else ""
    yield f"{batched(of.batches)} since trial {of.first}{made_of}: {of.recorded} with an outcome{beside}"
    if of.outcome is not None:
        yield f"  {labels.outcome.label}: {_span(of.outcome, of.half, f'{unit} a batch')}"
    if of.expected is not None:
        yield f"  expected: {_span(of.expected, of.expected_half, unit)}"
    price = "" if of.cost is None else f"{in_full(of.cost, 4)} {currency} a batch, "
    yield f"  cost: {price}{to_units(of.spent):.2f} {currency} for all production so far, its idle rig included"
    if of.learns and of.gained:
        gained = f"{number(of.gained, 3)} {unit}".rstrip()
        lost = f"{number(of.lost, 3)} of {gained} ({100 * of.lost / of.gained:.1f} %)"
        yield f"  learning: expected to have lost {lost} of the gain over controlling nothing"
    elif of.learns and not of.recorded:
        yield "  learning: nothing could be tried, as no batch has given an outcome yet"
    elif of.learns:
        yield "  learning: nothing could be tried, as the rule is not expected to gain over controlling nothing"
    yield from (f"  drift: {d.source}: {d.told}" for d in of.drifts[:MOST_DRIFTS])
    if not of.drifts:
        yield "  drift: none was noticed"
    elif len(of.drifts) > MOST_DRIFTS:
        yield f"  drift: {len(of.drifts) - MOST_DRIFTS} more; `rigctl alarm list` lists them"
    yield f"The campaign itself has spent {to_units(result.spent):.2f} of {to_units(result.budget):.2f} {currency}."


def _span(middle: float, half: float | None, unit: str) -> str:
    value = f"{number(middle)} {unit.strip()}".rstrip()
    return value if half is None else f"{value} (95 % interval {number(middle - half)} to {number(middle + half)})"
