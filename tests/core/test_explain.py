"""What people are told of a decision: it agrees with itself, and everybody can read it."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.advice.explain import NOTHING_YET, explain, sentence
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import ModelOptions, sign
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.gittins import GittinsIndex
from rigctl.core.policies.published.ucb_cvs import UcbCvs
from rigctl.text import plus_minus
from tests.core.claims import FORBIDDEN, denied, told, unreadable
from tests.core.conftest import make_history
from tests.core.made_up import SEVERAL, WORDY, decisions


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (3378.4, 314.2, "3380 ± 310"),
        (11.2449, 0.1502, "11.24 ± 0.15"),
        (0.5, 3.0, "0.5 ± 3.0"),
        (5.0, 0.0, "5 ± 0"),
        (7.25, 9.96, "7.2 ± 10.0"),
        (float("nan"), 1.0, "nan ± 1"),
    ],
)
def test_a_value_has_as_many_decimals_as_its_spread(mean, sd, text):
    """Two digits of the spread, never in powers of ten where plain digits do."""
    assert plus_minus(mean, sd) == text


LEARNED = {"model": ModelOptions(kernel="squared-exponential"), "trials": 10}
SHORT = (
    *((policy, number, {"trials": 14}) for number, policy in enumerate(WORDY)),
    *((policy, number, {"outcomes": 2, "trials": 14}) for number, policy in enumerate(SEVERAL)),
    *((policy, 1, LEARNED) for policy in (LikelyMaximisers(), GittinsIndex())),
)
"""Decisions of every policy: cheap models, and some that learn."""
LONG = tuple((policy, seed, {}) for seed in range(3, 6) for policy in WORDY)


@pytest.mark.parametrize(
    ("asked", "least"),
    [pytest.param(SHORT, 40, marks=pytest.mark.slow), pytest.param(LONG, 60, marks=pytest.mark.nightly)],
)
def test_everybody_can_read_it_and_no_sentence_contradicts_the_rows_beside_it(asked, least):
    """Of campaigns of every policy.

    No sentence has more than 20 words or a term of the trade; the technical form keeps those. Superlatives, counts,
    lines and numbers agree with the rows; nearly every claim occurs.
    """
    seen, technical, made, wrong = set(), set(), Counter(), []
    for policy, seed, options in asked:
        for situation, proposal, _ in decisions(policy, seed, **options):
            lines = told(situation, proposal)
            wrong += [(proposal.policy, line, unreadable(line)) for line in lines if unreadable(line)]
            seen.add(proposal.reason.split(". ")[0])
            technical |= set(re.findall(FORBIDDEN, " ".join(told(situation, proposal, technical=True)).lower()))
            if not situation.problem.further:
                where = f"{proposal.policy} {len(situation.history) + 1}"
                wrong += [(where, claim, proposal.reason) for claim in denied(situation, proposal, made)]
    assert not wrong, wrong[:5]
    assert len(seen) > least
    assert {"sobol", "posterior", "in play", "gittins", "harvest"} <= technical
    assert len(made) > 10
    assert made["has the best expected outcome"]


@pytest.mark.slow
def test_numbers_of_a_set_are_of_the_setting_it_names():
    """Mean and spread are those of the posterior at `at`; both ends are as far from the mean."""
    for situation, proposal, _ in decisions(LikelyMaximisers(), 4):
        problem = situation.problem
        posterior = fit_history(problem, situation.history).posterior
        e, s = Expectations.of(posterior, problem.space), sign(problem)
        for i, report in enumerate(proposal.sets):
            at = np.full((1, 2), 0.5)
            for name, value in report.at.items():
                column = problem.space.names.index(name)
                at[0, column] = (value - problem.space.lows[column]) / problem.space.spans[column]
            mean, sd = e.values(at, np.array([i]))
            assert report.mean == pytest.approx(s * mean[0], abs=1e-9)
            assert report.sd == pytest.approx(sd[0], abs=1e-6)
            assert report.upper - report.mean == pytest.approx(report.mean - report.lower)
            assert s * (report.upper - report.mean) == pytest.approx(2 * report.sd)


@pytest.mark.slow
def test_before_anything_was_measured_no_number_stands_in_for_it(golden):
    """Nor after one outcome, nor after failed trials; with fixed hyper-parameters the model speaks from the start."""
    learned = {
        p.trial: (s, p)
        for s, p, _ in decisions(LikelyMaximisers(), 1, model=ModelOptions(kernel="squared-exponential"))
    }
    situation, proposal = learned[1]
    assert all(r.mean is r.sd is r.lower is r.upper is None for r in proposal.sets)
    plain = told(situation, proposal)
    golden(plain)
    assert not any(NOTHING_YET in line for line in plain)  # said once, above the rows
    assert sum(NOTHING_YET in line for line in told(situation, proposal, technical=True)) == 3
    assert not any("cm2" in line for line in told(situation, proposal))
    assert learned[2][1].sets[0].mean is None
    assert learned[4][1].sets[0].mean is not None
    _, first, _ = next(decisions(LikelyMaximisers(), 1))
    assert first.sets[0].mean == pytest.approx(0.0, abs=1e-9)


def test_a_sentence_begins_with_a_capital_and_a_name_does_not():
    """Whoever wrote a reason or note: a variable's name stays as it is."""
    for text, names, first in (
        ("a plug-in's own note", (), "A"),
        ("ph: not read", ["ph"], "p"),
        ("k+ph left", (), "k"),
    ):
        assert sentence(text, names) == f"{first}{text[1:]}."


@pytest.mark.parametrize("technical", [False, True])
def test_nothing_is_promised_of_a_cost_that_nobody_has_met(problem, technical):
    """A set never tried has an assumed cost and says so, or none; "up to" is for sets that were tried."""
    words = {"outcome": "growth", "unit": "g", "currency": "EUR", "technical": technical}
    known, unknown = "up to", "not known yet"
    first, state = next_proposal(UcbCvs(), None, problem, History(), trial_rng(0, 1))
    history = make_history([(first.control_set, (0.5, 0.5), 0.2, 0.25)])
    second, _ = next_proposal(UcbCvs(), state, problem, history, trial_rng(0, 2))
    told_first, told_second = (" ".join(explain(p, problem, **words)[:8]) for p in (first, second))
    for text in (told_first, told_second):
        assert unknown in text
        assert known not in text
    assert f"{second.assumed_cost:.3g} EUR" in told_second
    limited = explain(first, replace(problem, cost_ceiling=2.0), **words)
    assert any("2 EUR" in line and unknown in line for line in limited)
    tried = replace(second, control_set=first.control_set, setting=first.setting, cost_known=True, assumed_cost=None)
    assert any(known in line for line in explain(tried, problem, **words))
