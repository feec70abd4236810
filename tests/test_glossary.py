"""The glossary has every word that people are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

from rigctl.campaign.journal.rows import CampaignPhase
from rigctl.campaign.trial import State
from rigctl.core.advice.explain import phase_word
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import MeterSpec

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
PHASES = sorted(
    {
        phase
        for path in (ROOT / "rigctl/core").rglob("*.py")
        for phase in re.findall(r'(?:phase="|Choice\(\s*[\w.]+,\s*")([a-z-]+)"', path.read_text(encoding="utf-8"))
    }
    | {"explore", "commit", "repeat", "search"}
)


def test_phases_are_found():
    """Else the test below would show nothing."""
    assert len(PHASES) > 6


def test_every_word_that_is_shown_is_explained():
    """Phases of every policy, states of trials and campaigns, alarms, meters."""
    words = {
        *(phase_word(phase) for phase in PHASES),
        *(state.value for state in State),
        *get_args(CampaignPhase),
        *(severity.name for severity in Severity if severity is not Severity.NONE),
        *get_args(get_type_hints(MeterSpec)["kind"]),
    }
    assert {word for word in words if f"`{word}`" not in TEXT} == set()


def test_every_turn_of_phrase_is_explained():
    """What explanations and recommendations say, and what the technical form says instead."""
    said = {
        "good enough",
        "skipped",
        "could turn out best",
        "uncontrolled",
        "most likely",
        "pays if",
        "Sobol",
        "harvest",
    }
    assert {term for term in said if term not in TEXT} == set()
