"""Proposals that older versions wrote, as they are read today."""

from __future__ import annotations

import json

import pytest

from rigctl.campaign.journal.documents import UPGRADERS, loaded, stored
from rigctl.codec import typed
from rigctl.core.policy import Proposal
from tests.core.made_up import WORDY, decisions

OLD = {
    "trial": 7,
    "policy": "explore-then-commit",
    "phase": "commit",
    "control_set": 1,
    "setting": [0.25],
    "reason": "committing: 2 of 3 sets may be within 0.05 of the best",
    "sets": [
        {
            "control_set": ["k"],
            "upper": 14.0,
            "lower": 12.5,
            "upper_at": {"k": 9.4},
            "lower_at": {"k": 8.1},
            "mean": 13.0,
            "sd": 0.5,
            "cost_mean": 0.7,
            "cost_lcb": 0.2,
            "trials": 5,
            "eligible": True,
        }
    ],
    "threshold": 12.0,
    "predicted_cost": 0.9,
    "notes": ["a note"],
}


@pytest.mark.parametrize("text", [json.dumps(OLD), json.dumps({"version": 1, "proposal": OLD})], ids=["0", "1"])
def test_bounds_of_two_settings_become_those_of_one(text):
    """Mean and spread were of `upper_at`; the other setting's bound is kept beside it, and nothing is lost."""
    proposal = typed(Proposal, loaded("proposal", text))
    (report,) = proposal.sets
    assert report.at == {"k": 9.4}
    assert (report.mean, report.sd, report.lower, report.upper) == (13.0, 0.5, 12.0, 14.0)
    assert (report.best_lower, report.best_lower_at) == (12.5, {"k": 8.1})
    assert (report.cost_mean, report.cost_lcb, report.trials, report.eligible) == (0.7, 0.2, 5, True)
    assert proposal.technical == OLD["reason"]
    assert proposal.reason == "this trial was to be good at least cost"
    assert (proposal.setting, proposal.threshold, proposal.notes) == ((0.25,), 12.0, ("a note",))


def test_what_an_old_model_said_before_any_outcome_is_not_told_as_a_number():
    """A mean of exactly 0 for every set is a model's that had seen nothing."""
    unseen = {**OLD, "sets": [{**OLD["sets"][0], "mean": 0.0, "upper": 2.0, "lower": -2.0}]}
    (report,) = typed(Proposal, loaded("proposal", json.dumps(unseen))).sets
    assert report.mean is report.sd is report.lower is report.upper is report.best_lower is None


def test_an_unknown_phase_keeps_its_reason():
    """That of a plug-in says it as it did."""
    proposal = typed(Proposal, loaded("proposal", json.dumps({**OLD, "phase": "look", "sets": []})))
    assert proposal.reason == proposal.technical == OLD["reason"]


def test_todays_proposals_come_back_as_they_were():
    """Of every policy, with the present version."""
    for number, policy in enumerate(WORDY):
        _, proposal, _ = next(iter(decisions(policy, number)))
        text = stored("proposal", proposal)
        assert json.loads(text)["version"] == len(UPGRADERS["proposal"]) == 2
        assert typed(Proposal, loaded("proposal", text)) == proposal
