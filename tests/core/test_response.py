"""What is told of a response that has changed, and who is blamed for it."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import History, Observation, Proposal
from rigctl.core.advice.response import ONE_SENSOR, blamed, replicates, told_of_response
from rigctl.core.asking import Played, next_proposal, trial_rng
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import FurtherOutcome, Problem, ReferenceTrials
from rigctl.core.gp.hyperparameters import Term, told
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from tests.core.conftest import campaign, unit_space

SPACE = unit_space()
GIVEN = ReferenceTrials(5, 1, (0.25,))


def _played(reference: ReferenceTrials | None, budget: float = 16.0) -> Played:
    problem = Problem(SPACE, to_micros(budget), reference=reference)
    return campaign(LikelyMaximisers(), problem, (1.0,) * 3, lambda x: np.sin(3 * x[0]) + x[1], seed=1)


def _references(played: Played) -> list[Proposal]:
    return [d.proposal for d in played.decisions if d.proposal.phase == "reference"]


@pytest.mark.slow
def test_the_configured_setting_is_played_every_so_many_trials():
    """Trials 5, 10 and 15 play it, whatever the policy wants; an instrument that is away is no reason to wait."""
    played = _played(GIVEN)
    found = _references(played)
    assert [p.trial for p in found] == [5, 10, 15]
    assert {(p.control_set, p.setting) for p in found} == {(1, (0.25,))}
    assert played.history.spent <= played.problem.budget
    assert [played.history.complete[i].trial for i in replicates(played.problem, played.history)] == [5, 10, 15]
    assert not _references(_played(None))
    before = replace(played.history, observations=played.history.observations[:4])
    barred = replace(played.problem, unavailable={1: "its pump is away"})
    proposal, _ = next_proposal(LikelyMaximisers(), played.decisions[3].state, barred, before, trial_rng(1, 5))
    assert proposal.phase != "reference"


@pytest.mark.slow
def test_without_one_the_first_recommendation_is_kept() -> None:
    """What would be recommended at the first of them is played in all."""
    found = _references(_played(ReferenceTrials(5)))
    assert len(found) == 3
    assert len({(p.control_set, p.setting) for p in found}) == 1


@pytest.mark.parametrize("budget", [4.0, 4.5])
def test_a_reference_that_does_not_fit_the_budget_is_left_out(budget: float) -> None:
    """The fifth trial would cost what is not there any more."""
    played = _played(GIVEN, budget)
    assert not _references(played)
    assert played.history.spent <= played.problem.budget


def test_every_trial_cannot_be_a_reference(golden) -> None:
    """Nothing would be left to decide."""
    with golden.raises(ValueError):
        ReferenceTrials(1)


STEP = Term("step", 31, 36, 10.0, change=-4.0, change_sd=0.5)


@pytest.mark.parametrize(
    ("term", "turn", "said"),
    [
        (STEP, 1.0, "changed at trial 31 (noticed at trial 36). By that growth has fallen by 3.0 to 5.0 g"),
        (STEP, -1.0, "By that growth has risen by 3.0 to 5.0 g"),
        (Term("step", 31, 36, 10.0, reshaped=2.0, change=0.1, change_sd=0.5), 1.0, "changed by -0.9 to 1.1 g. Earlier"),
        (Term("ramp", 9, 36, 0.1, change=2.0, change_sd=0.5), 1.0, "drifted steadily since trial 9 (noticed at"),
        (Term("wander", 9, 36, 0.1, change=2.0, change_sd=0.5), 1.0, "has wandered since trial 9"),
        (Term("season", 0, 36, 1.0, 24.0, change=2.0, change_sd=0.5), 1.0, "period of about 24 trials"),
    ],
)
def test_a_change_is_told_with_trial_size_and_interval(term: Term, turn: float, said: str) -> None:
    """In sentences of at most 20 words; where less is better the sign is the outcome's."""
    line = told(term, turn, outcome="growth", unit="g")
    assert said in line
    assert all(len(sentence.split()) <= 20 for sentence in line.split(". "))


T = np.arange(1.0, 61.0)


def _pairs(first: float, second: float, trials: int = 60) -> tuple[FloatArray, FloatArray]:
    """Two sensors of an outcome that varies far more than they err, each with a step at trial 31."""
    rng = np.random.default_rng(2)
    true, late = 20.0 * rng.random(60), T >= 31
    noise = 0.3 * rng.standard_normal((2, 60))
    return (true + first * late + noise[0])[:trials], (true + second * late + noise[1])[:trials]


@pytest.mark.parametrize(
    ("pairs", "change", "said"),
    [
        (_pairs(-4.0, -4.0), -4.0, "it is the plant that has changed"),
        (_pairs(-4.0, 0.0), -4.0, "it is the first sensor that has aged"),
        (_pairs(0.0, 3.0), -0.2, "it is the second sensor that has moved"),
        (_pairs(-4.0, -1.5), -4.0, "it cannot be told yet"),
        (_pairs(-4.0, -4.0, trials=33), -4.0, "too few trials on one side of trial 31"),
    ],
    ids=["plant", "first sensor", "second sensor", "both in part", "too early"],
)
def test_two_sensors_tell_who_has_changed(pairs: tuple[FloatArray, FloatArray], change: float, said: str) -> None:
    """The difference of two sensors depends on nothing but the sensors; what fits badly is not told."""
    apart = pairs[0] - pairs[1]
    assert said in blamed(apart[:30], apart[30:], change, 0.5, 31)


@pytest.mark.parametrize(("second", "said"), [(True, "it is the plant that has changed"), (False, ONE_SENSOR)])
def test_reference_trials_and_sensors_are_told(second: bool, said: str) -> None:
    """The means of the reference setting on both sides of the change stand beside the model's word."""
    space = unit_space("a", [["a"]])
    reference = ReferenceTrials(10, 0, (0.5,), second_sensor="scales" if second else "")
    problem = Problem(space, to_micros(9.0), further=(FurtherOutcome("scales"),), reference=reference)
    readings, others = _pairs(-4.0, -4.0)
    rows = zip(T, readings, others, strict=True)
    history = History.of(Observation(int(t), 0, (0.5,), float(y), 1, further=(float(z),)) for t, y, z in rows)
    lines = told_of_response(problem, history, (STEP,), outcome="growth", unit="g")
    before, since = readings[[9, 19, 29]].mean(), readings[[39, 49, 59]].mean()
    assert any(f" {before:.4g} g " in line and f" {since:.4g} g " in line for line in lines)
    assert said in lines[-1]
    assert told_of_response(problem, history, (), outcome="growth", unit="g") == ()
