"""The configuration that a journal's campaign was last started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.rows import CampaignRow
from rigctl.campaign.spec import CampaignSpec
from rigctl.config.load import LoadedConfig, Overrides, load, load_text
from rigctl.config.units import Units
from rigctl.core.experiment.money import MICROS_PER_UNIT
from rigctl.errors import RigctlError
from rigctl.logs import logger


def configured(
    row: CampaignRow,
    directory: Path,
    buses: Mapping[str, str] | None = None,
    file: Path | None = None,
    *,
    to_run: bool = False,
) -> LoadedConfig:
    """Return the configuration in `file`, else the one last started with; seed and budget are as they are now.

    Raises:
        ConfigError: it does not hold any more.
        PluginError: it needs what is not installed here.
    """
    budget = f"{Decimal(row.budget) / MICROS_PER_UNIT:f} {row.currency}"  # exact
    overrides = Overrides(buses or {}, seed=row.seed, budget=budget)
    if file is not None:
        return load(file, overrides, to_run=to_run)
    return load_text(row.config_text, directory / f"{FILE_NAME} (configuration)", overrides)


def campaign_spec(loaded: LoadedConfig) -> CampaignSpec:
    return CampaignSpec(
        rig=loaded.rig,
        problem=loaded.problem,
        policy=loaded.policy,
        policy_name=loaded.policy_name,
        policy_options=loaded.policy_options,
        seed=loaded.seed,
        currency=loaded.currency,
        config_text=loaded.text,
        outcome_unit=loaded.outcome_unit,
        same_unit=Units(None).same,
        max_trials=loaded.max_trials,
    )


@dataclass(slots=True)
class Configured:
    """Keeps it while it stays the same; mutable, used in one thread."""

    _of: tuple[object, ...] = ()
    _loaded: LoadedConfig | None = None

    def of(self, row: CampaignRow, directory: Path) -> LoadedConfig | None:
        """Return it; None where it does not hold any more."""
        of = row.config_text, row.seed, row.budget
        if of != self._of:
            self._of, self._loaded = of, None
            try:
                self._loaded = configured(row, directory)
            except RigctlError as error:
                log = logger("rigctl.page")
                log.warning("the configuration does not hold any more; limits are not shown", error=str(error))
        return self._loaded
