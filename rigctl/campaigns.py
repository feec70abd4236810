"""Campaigns on a rig, for programs: run one, and read what it has recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rigctl.config.load import Overrides, load
from rigctl.console import run as console_run
from rigctl.console.assemble import open_campaign, state_directory
from rigctl.console.journals import records
from rigctl.signals import Signals


def run(
    config: Path | str,
    state: Path | str | None = None,
    *,
    buses: Mapping[str, str] | None = None,
    max_trials: int | None = None,
) -> console_run.Ended:
    """Run or resume a campaign on the rig that a configuration describes, until its end; as `rigctl run` does.

    Call it in the main thread: signals end the campaign, everything safe, before they reach anything else.

    Args:
        config: the YAML file.
        state: directory of the campaign; None: `./state/<rig>`.
        buses: URLs instead of the configured ones, by bus.
        max_trials: instead of the configured number.

    Raises:
        ConfigError, UsageError: it cannot be run as configured.
        Locked, JournalError, DeviceError, Tripped: see `rigctl.campaign.daemon.run_campaign`.
    """
    from rich.console import Console  # noqa: PLC0415 - only when something runs

    loaded = load(config, Overrides(buses or {}, max_trials=max_trials), to_run=True)
    directory = state_directory(None if state is None else Path(state), loaded.name)
    signals = Signals()
    with signals.caught():
        return console_run.run_campaign(loaded, directory, Console(quiet=True), signals)


def read(state: Path | str, what: str = "trials") -> dict[str, list[Any]]:
    """Read what a campaign has recorded, as columns: `pandas.DataFrame(rigctl.read("state/greenhouse"))`.

    The campaign may be running. Money is in currency units, exact (`decimal.Decimal`) where it was metered.

    Args:
        state: directory of the campaign.
        what: `trials`, `ledger`, `measurements`, `events`, `doses` or `alarms`; columns as in `rigctl journal export`.

    Raises:
        UsageError: there is no campaign there, or no such records.
        JournalError: the journal cannot be read.
    """
    with open_campaign(None, Path(state)) as campaign:
        rows = list(records(campaign, what))
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
