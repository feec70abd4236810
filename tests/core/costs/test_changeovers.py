"""What changes cost is learned, kept out of what control sets cost, and weighed before anything is changed."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.outlook import outlook_of
from rigctl.core.asking import trial_rng
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.changeovers import SHARE, Changeovers, without
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.problem import Problem
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from tests.core.conftest import FIXED, hill, make_history, make_space

BASE, CHANGE = (0.4, 0.2, 0.6), 3.0


def trials(settings, lets_go=1):
    rows, oven = [], None
    for control_set, a, b in settings:
        held = a if control_set != lets_go else None
        cost = BASE[control_set] + (CHANGE if held is not None and held != oven else 0.0)
        rows.append((control_set, (a, b), hill((a, b)), cost))
        oven = held
    return make_history(rows)


SEEN = [
    (0, 0.2, 0.5),
    (0, 0.2, 0.1),
    (1, 0.7, 0.3),
    (2, 0.8, 0.3),
    (2, 0.8, 0.9),
    (0, 0.5, 0.4),
    (1, 0.1, 0.9),
    (2, 0.4, 0.6),
]


@pytest.fixture
def oven():
    return Problem(make_space(), to_micros(60), floor=0.0, model=FIXED, changeovers=(0,))


def test_parts_and_sets_are_learned_apart(oven):
    """One cost for each set and one for a change explain all trials."""
    history = trials(SEEN)
    found = Changeovers.of(oven, history)
    assert found.parts == pytest.approx([CHANGE, 0.0], rel=0.05)
    believed = [b.mean for b in believe(oven, history, "empirical-bernstein")]
    assert believed == pytest.approx(BASE, abs=0.04 * CHANGE)
    assert to_units(history.spent) == pytest.approx(sum(BASE[s] for s, *_ in SEEN) + 4 * CHANGE)


def test_the_regression_is_that_of_least_squares_where_trials_are_many(oven):
    """Ordinary least squares with a column for each set and one for changes, by numpy."""
    rng = np.random.default_rng(3)
    history = trials(
        [(int(rng.integers(3)), float(rng.choice([0.1, 0.5, 0.9])), float(rng.random())) for _ in range(60)]
    )
    noisy = replace(
        history,
        observations=tuple(
            replace(o, cost=o.cost + to_micros(0.1 * abs(float(rng.standard_normal())))) for o in history.observations
        ),
    )
    rows, before = [], None
    for o in noisy.observations:
        held = o.x[0] if o.control_set != 1 else None
        rows.append([*(o.control_set == i for i in range(3)), held is not None and held != before])
        before = held
    y = [to_units(o.cost) for o in noisy.observations]
    expected = np.linalg.lstsq(np.array(rows, dtype=float), y, rcond=None)[0]
    assert Changeovers.of(oven, noisy).parts[0] == pytest.approx(expected[3], rel=0.01)


def test_where_every_trial_has_changed_the_oven_a_share_is_guessed(oven):
    """So the next trial that keeps it tells; else it would never be kept."""
    found = Changeovers.of(oven, trials([(0, 0.1 * i, 0.5) for i in range(6)]))
    assert found.parts[0] == pytest.approx(SHARE * (BASE[0] + CHANGE), rel=0.5)


def test_what_was_let_go_or_never_measured_is_nowhere(oven):
    """To control it again is a change, from wherever it is."""
    let_go = Changeovers.of(oven, trials([*SEEN, (1, 0.4, 0.2)]))
    assert np.isnan(let_go.left_at[0])
    assert let_go.costs((0, 1), np.array([[0.4, 0.6]])) == pytest.approx([CHANGE], rel=0.05)
    failed = make_history([(2, (0.4, 0.6), 1.0, 3.6), (2, None, None, 0.5)])
    assert np.isnan(Changeovers.of(oven, failed).left_at).all()


def test_a_setting_is_kept_where_it_was_left(oven):
    """What is near counts as the same, and only what is dear to change is kept."""
    found = Changeovers.of(oven, trials(SEEN))
    assert found.costs((0, 1), np.array([[0.41, 0.0], [0.45, 0.6]])) == pytest.approx([0.0, CHANGE], rel=0.05)
    assert found.kept((0, 1), (0.9, 0.1)) == pytest.approx((0.4, 0.1))


def test_nothing_changes_where_nothing_is_said(problem):
    """Beliefs are those of the history as it is, to the bit."""
    history = trials(SEEN)
    assert not Changeovers.of(problem, history).parts.any()
    assert without(problem, history) is history


def test_a_change_counts_in_what_a_trial_may_cost(oven):
    """A trial that keeps the oven fits where one that changes it does not."""
    history = trials(SEEN)
    poor = replace(oven, budget=history.spent + to_micros(2.0))
    outlook = outlook_of(poor, history, {}, trial_rng(1, 9))
    assert outlook.fits(2, (0.4, 0.1))
    assert not outlook.fits(2, (0.9, 0.1))
    assert outlook.cost_at(2, (0.9, 0.1)) == pytest.approx(outlook.cost_at(2, (0.4, 0.1)))


def campaign(problem):
    """Play the default on the hill where every control set holds the oven."""
    policy, settings, state = LikelyMaximisers(tolerance=0.0), [(0, 0.2, 0.5), (1, 0.7, 0.3), (0, 0.8, 0.3)], {}
    for _ in range(20):
        history = trials(settings, None)
        proposal, state = policy.propose(state, problem, history, trial_rng(1, len(history) + 1))
        at = dict(zip(problem.space.control_sets[proposal.control_set].indices, proposal.setting, strict=True))
        settings.append((proposal.control_set, at[0], at.get(1, 0.6)))
    return trials(settings, None)


@pytest.mark.slow
def test_the_default_changes_the_oven_seldom(oven):
    """Told that a change costs it pays for fewer than half as many, and plays as near to the best."""
    always = replace(oven, space=make_space((("a",), ("a", "b"))), budget=to_micros(200))
    told, blind = campaign(always), campaign(replace(always, changeovers=()))
    changes = [sum(to_units(o.cost) > CHANGE for o in h.observations) for h in (told, blind)]
    assert 2 * changes[0] <= changes[1]
    assert max(told.y) >= max(blind.y) - 0.02
