"""The verbs that only look: status, explain, replay, drivers; and check, which may ask the devices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign import control
from rigctl.campaign.clock import RealClock
from rigctl.campaign.going_safe import NoDoses
from rigctl.campaign.journal import open_reader
from rigctl.campaign.replay import ReplayedTrial, replay
from rigctl.config.load import LoadedConfig
from rigctl.console import trade_off
from rigctl.console.assemble import Campaign, campaign_spec, require_devices
from rigctl.core.explain import explain
from rigctl.core.money import to_units
from rigctl.core.policy import Proposal
from rigctl.errors import DeviceError, JournalError, UsageError
from rigctl.rig.registry import Registry
from rigctl.rig.rig import Rig

if TYPE_CHECKING:
    from rich.console import Console


def status(directory: Path) -> Mapping[str, Any]:
    """What a running campaign says of itself, else what its journal says.

    Raises:
        UsageError: there is no campaign here.
        JournalError: the journal cannot be read.
    """
    try:
        told = control.ask(directory, "status")
    except UsageError:  # nobody is running it
        told = None
    if told is not None:
        return {"running": True, **told, **_front(directory)}
    with open_reader(directory) as reader:
        row, trials, starts = reader.campaign(), reader.trials(), reader.starts()
        last = trials[-1] if trials else None
        return {
            "running": False,
            "rig": row.rig,
            "currency": row.currency,
            "trials": sum(t.state.final for t in trials),
            "spent": to_units(row.spent),
            "budget": to_units(row.budget),
            "alarms": len(reader.alarms()),
            "last_trial": None if last is None else {"trial": last.trial, "state": last.state.value},
            "ended": starts[-1].ended if starts else None,
            **trade_off.of_journal(row, trials),
        }


def _front(directory: Path) -> Mapping[str, Any]:
    """Of a running campaign; nothing where its journal cannot be read, for the campaign itself has answered."""
    try:
        with open_reader(directory) as reader:
            return trade_off.of_journal(reader.campaign(), reader.trials())
    except (UsageError, JournalError):
        return {}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a trial was chosen."""

    trial: int
    origin: str
    """`policy`, or who else decided."""
    sentences: tuple[str, ...]
    proposal: Proposal | None
    """With the numbers; None for a trial done by hand."""


def explained(campaign: Campaign, trial: int | None) -> Explanation:
    """Why a trial (None: the last one) was chosen.

    Raises:
        UsageError: no such trial.
    """
    rows = campaign.reader.trials()
    if not rows:
        raise UsageError("explain: the campaign has no trial yet")
    row = rows[-1] if trial is None else campaign.reader.trial(trial)
    loaded, label = campaign.loaded, "+".join(row.control_set)
    if row.proposal is None:
        return Explanation(row.trial, row.origin, (f"Trial {row.trial} was done by hand: {label}.",), None)
    lines = explain(
        row.proposal,
        loaded.problem,
        outcome=loaded.rig.outcome_name,
        unit=loaded.outcome_unit,
        currency=loaded.currency,
    )
    if row.origin != "policy":
        lines = (f"Trial {row.trial} was not chosen by the policy ({row.origin}): {row.note}", *lines)
    return Explanation(row.trial, row.origin, lines, row.proposal)


def replayed(campaign: Campaign) -> tuple[ReplayedTrial, ...]:
    """Every decision, recomputed; trials done by hand have none."""
    trials = replay(campaign.reader, campaign_spec(campaign.loaded))
    return tuple(trial for trial in trials if trial.origin != "manual")


def replay_lines(trials: Sequence[ReplayedTrial]) -> Sequence[str]:
    """For people: every difference, and how many have none."""
    differing = [f"trial {t.trial}: {'; '.join(t.differences)}" for t in trials if not t.agrees]
    return [*differing, f"{len(trials) - len(differing)} of {len(trials)} decisions come out the same"]


def summary(loaded: LoadedConfig) -> Mapping[str, Any]:
    """What a configuration that holds says, in short."""
    space, rig = loaded.problem.space, loaded.rig
    return {
        "rig": loaded.name,
        "budget": to_units(loaded.problem.budget),
        "currency": loaded.currency,
        "policy": {"name": loaded.policy_name, **loaded.policy_options},
        "variables": {v.name: {"unit": v.unit, "low": v.low, "high": v.high} for v in space.variables},
        "control_sets": [list(c.names) for c in space.control_sets],
        "outcome": {"name": rig.outcome_name, "unit": loaded.outcome_unit, "maximise": loaded.problem.maximise},
        "further_outcomes": [{"name": f.name, "unit": f.unit, "maximise": f.maximise} for f in loaded.problem.further],
        "devices": {name: {"driver": d.driver, "url": d.url} for name, d in rig.devices.items()},
        "meters": [m.name for m in rig.meters],
    }


def wiring_holds(loaded: LoadedConfig) -> None:
    """Build every device without opening a line.

    Raises:
        ConfigError: a device cannot do what it is used for, or a URL does not hold.
    """
    if loaded.wired:
        _rig(loaded)


def probe(loaded: LoadedConfig) -> Mapping[str, str]:
    """Ask every device who it is and for one reading; nothing is written.

    Raises:
        UsageError: the configuration has no devices.
    """
    require_devices(loaded)

    async def ask() -> Mapping[str, str]:
        rig = _rig(loaded)
        try:
            return await rig.probe()
        finally:
            await rig.close()

    return asyncio.run(ask())


def any_silent(answers: Mapping[str, str]) -> bool:
    """Whether a device did not answer a probe as it should."""
    return any(_is_error(answer) for answer in answers.values())


def _is_error(answer: str) -> bool:
    """A probe tells an error by its class, as in `DeviceTimeout: ...`."""
    kinds: list[type[DeviceError]] = [DeviceError, *DeviceError.__subclasses__()]
    return answer.split(":", 1)[0] in {kind.__name__ for kind in kinds}


def show_check(loaded: LoadedConfig, answers: Mapping[str, str], console: Console) -> None:
    """For people."""
    space, rig = loaded.problem.space, loaded.rig
    sets, lines = len(space.control_sets), len({d.url for d in rig.devices.values()})
    console.print(
        f"{loaded.path} holds: {space.dimension} variables, {sets} control sets, "
        f"{len(rig.devices)} devices on {lines} buses, {len(rig.meters)} meters, policy {loaded.policy_name}"
    )
    for name, answer in answers.items():
        style = "bold red" if _is_error(answer) else "none"
        console.print(f"  {name:16} {answer}", style=style)


def drivers() -> Sequence[Mapping[str, Any]]:
    """Every installed driver."""
    return [
        {"name": d.name, "summary": d.summary, "schemes": list(d.schemes), "problem": d.problem or None}
        for d in Registry.installed().describe()
    ]


def driver_lines(found: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """For people."""
    return [f"{d['name']:10} {', '.join(d['schemes']):28} {d['problem'] or d['summary']}" for d in found]


def _rig(loaded: LoadedConfig) -> Rig:
    return Rig(loaded.rig, Registry.installed(), RealClock(loaded.rig.speedup), NoDoses(), lambda _: None)
