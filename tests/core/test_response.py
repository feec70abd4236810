"""What is told of a response that has changed, and who is blamed for it."""

from __future__ import annotations

import numpy as np
import pytest

from rigctl.core.advice.response import ONE_SENSOR, Pairs, blamed, told_of_response
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import FurtherOutcome, Problem, ReferenceTrials
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.hyperparameters import Term, told

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


def _pairs(first: float, second: float, trials: int = 60) -> Pairs:
    """Two sensors of an outcome that varies far more than they err, each with a step at trial 31."""
    rng = np.random.default_rng(2)
    true, late = 20.0 * rng.random(60), T >= 31
    noise = 0.3 * rng.standard_normal((2, 60))
    return Pairs(T[:trials], (true + first * late + noise[0])[:trials], (true + second * late + noise[1])[:trials])


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
def test_two_sensors_tell_who_has_changed(pairs: Pairs, change: float, said: str) -> None:
    """The difference of two sensors depends on nothing but the sensors; what fits badly is not told."""
    assert said in blamed(pairs, change, 0.5, 31)


@pytest.mark.parametrize(("second", "said"), [(True, "it is the plant that has changed"), (False, ONE_SENSOR)])
def test_reference_trials_and_sensors_are_told(second: bool, said: str) -> None:
    """The means of the reference setting on both sides of the change stand beside the model's word."""
    space = Space.of([Variable("a", "", 0.0, 1.0, Uniform())], [["a"]])
    reference = ReferenceTrials(10, 0, (0.5,), second_sensor="scales" if second else "")
    problem = Problem(space, to_micros(9.0), further=(FurtherOutcome("scales"),), reference=reference)
    pairs = _pairs(-4.0, -4.0)
    rows = zip(T, pairs.first, pairs.second, strict=True)
    history = History.of(Observation(int(t), 0, (0.5,), float(y), 1, further=(float(z),)) for t, y, z in rows)
    lines = told_of_response(problem, history, (STEP,), outcome="growth", unit="g")
    before, since = pairs.first[[9, 19, 29]].mean(), pairs.first[[39, 49, 59]].mean()
    assert f"the reference setting gave {before:.4g} g before (mean of 3) and {since:.4g} g since (mean of 3)" in lines
    assert said in lines[-1]
    assert told_of_response(problem, history, (), outcome="growth", unit="g") == ()
