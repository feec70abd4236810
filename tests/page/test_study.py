"""What is worked out of all trials for the page and the report."""

from __future__ import annotations

from rigctl.config.load import load_text
from rigctl.core.experiment.history import History
from rigctl.page import study
from tests.config.conftest import ROOT


def test_what_the_outcome_is_worth_is_recommended_by(monkeypatch):
    """As the configuration has it; so the page, the report and `rigctl recommend` say what looking earns."""
    monkeypatch.setattr(study, "recommend", lambda *_, **options: options)
    text = (ROOT / "config/greenhouse.yaml").read_text(encoding="utf-8")
    loaded = load_text(text, ROOT / "config/greenhouse.yaml")
    assert study.recommended(loaded, History.of(()), {})["price"] == 0.3
