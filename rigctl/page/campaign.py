"""The configuration that a journal's campaign was last started with."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import structlog

from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.rows import CampaignRow
from rigctl.config.load import LoadedConfig, Overrides, load_text
from rigctl.core.money import MICROS_PER_UNIT
from rigctl.errors import RigctlError


def configured(row: CampaignRow, directory: Path) -> LoadedConfig:
    """Return the configuration a campaign was last started with, its seed and budget as they are now.

    Raises:
        ConfigError: it does not hold any more.
        PluginError: it needs what is not installed here.
    """
    budget = f"{Decimal(row.budget) / MICROS_PER_UNIT:f} {row.currency}"  # exact
    return load_text(
        row.config_text, directory / f"{FILE_NAME} (configuration)", Overrides(seed=row.seed, budget=budget)
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
                log = structlog.get_logger("rigctl.page")
                log.warning("the configuration does not hold any more; limits are not shown", error=str(error))
        return self._loaded
