"""What the server shows: facts of the journal, what the model says of them, and both as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rigctl.campaign.journal.reader import Reader
from rigctl.config.load import LoadedConfig
from rigctl.page import render
from rigctl.page.assets import read
from rigctl.page.facts import gather
from rigctl.page.shown import Facts, Study


class PageViews:
    """`rigctl.page.gatherer.Views` as people see it."""

    def gather(
        self,
        reader: Reader,
        loaded: LoadedConfig | None,
        status: Mapping[str, Any] | None,
        now: datetime,
        *,
        before: Facts | None,
        log_of: int | None = None,
        alive: bool | None = None,
    ) -> Facts:
        return gather(reader, loaded, status, now, before=before, log_of=log_of, alive=alive)

    def charged(self, facts: Facts) -> int:
        return facts.charged

    def page(self, facts: Facts, study: Study | None, *, acting: str | None) -> str:
        return render.page(facts, study, acting=acting)

    def sections(self, facts: Facts, study: Study | None, *, acting: str | None) -> Mapping[str, str]:
        return render.sections(facts, study, acting=acting)

    def series(self, facts: Facts) -> Mapping[str, Any]:
        return render.series(facts)

    def asset(self, name: str) -> tuple[bytes, str]:
        return read(name)
