"""Several outcomes: the acquisition against its plain formula, the cost preference, and the policies."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import FurtherOutcome, History, ModelOptions, Observation, PolicyError, Problem, TruncatedNormal, explain
from rigctl.core.asking import trial_rng, validate
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import as_first, fit_further, fit_history
from rigctl.core.multi_objective.scalarise import CostPreference, Scalarised, best_trade_offs
from rigctl.core.multi_objective.trade_off import front_of, outcome_values, reference_of
from rigctl.core.policies.published.ca_mobo import CaMobo, MoUcb, Width
from rigctl.policies import BudgetSpent, check_policy
from tests.core.conftest import FIXED, Priced, unit_space
from tests.core.plain import slopes
from tests.profiles import slow_beyond

NATURAL = TruncatedNormal.from_moments(0.5, 0.2)
SETS = (("a",), ("b",), ("a", "b"))


def two(x):
    """Outcomes that a trades against each other, and b spoils."""
    a, b = x[..., 0], x[..., 1]
    return np.stack([np.sin(2.5 * a) - b**2, 1.5 - a - 0.5 * b], axis=-1)


def make_problem(sets=SETS, **changes):
    return Problem(
        unit_space("ab", sets, NATURAL), to_micros(100), further=(FurtherOutcome("speed", "m/s"),), **changes
    )


def make_history(n=24, sets=3, seed=0):
    x = np.random.default_rng(seed).random((n, 2))
    rows = zip(x, two(x), strict=True)
    return History.of(
        Observation(t, t % sets, tuple(at.tolist()), float(y[0]), to_micros(1), further=(float(y[1]),))
        for t, (at, y) in enumerate(rows, start=1)
    )


PREFERENCE = CostPreference((1, 0), (False, True), np.array([0.9, 0.4]))


def acquisition(problem, history, preference=PREFERENCE, weights=(0.6, 0.4)):
    posteriors = (fit_history(problem, history).posterior, *(f.posterior for f in fit_further(problem, history)))
    reference = reference_of(problem, history)
    return Scalarised(
        problem.space,
        tuple(Expectations.of(p, problem.space) for p in posteriors),
        weights=np.array(weights),
        reference=reference,
        scale=outcome_values(problem, history).max(axis=0) - reference,
        width=2.0,
        preference=preference,
    )


def plain_cost(amounts, rates):
    """C of eq. 8, factor by factor."""
    cost = 1.0
    for x, rate in zip(amounts, rates, strict=True):
        cost *= 1.0 - rate * np.exp(-rate * x)
    return cost


def test_the_acquisition_is_the_formula():
    """For full control: min over outcomes of theta (mu + width s - R), in units of their ranges, times 1 - C."""
    problem, history = make_problem([("a", "b")]), make_history(sets=1)
    target = acquisition(problem, history)
    points = np.random.default_rng(1).random((40, 2))
    terms = []
    for k, model in enumerate(target.expectations):
        upper = model.posterior.mean(points) + 2.0 * model.posterior.sd(points)
        terms.append(target.weights[k] * (upper - target.reference[k]) / target.scale[k])
    kept = [1.0 - plain_cost((x[1], 1.0 - x[0]), PREFERENCE.rates) for x in points]
    worst = np.min(terms, axis=0)
    expected = np.where(worst > 0, worst * kept, worst)
    assert (worst > 0).sum() > 20
    assert target.score(points, np.zeros(40, dtype=int)) == pytest.approx(expected, rel=1e-9)


def test_a_variable_left_alone_counts_as_used_at_its_cheapest():
    """So leaving a dear variable alone is never dearer than using it."""
    points = np.random.default_rng(0).random((50, 2))
    alone, _ = PREFERENCE.kept(points, np.tile([0.0, 0.0], (50, 1)))
    used, _ = PREFERENCE.kept(points, np.ones((50, 2)))
    assert alone == pytest.approx(1.0 - plain_cost((0.0, 0.0), PREFERENCE.rates))
    assert (alone >= used).all()


@pytest.mark.parametrize("sharpness", [8.0, 512.0])
def test_the_stand_in_is_close_below_and_its_slope_is_right(sharpness):
    """Within K^(-1/p) of the acquisition, with the gradient of finite differences, on every control set."""
    target = acquisition(make_problem(), make_history())
    rng = np.random.default_rng(2)
    points, sets = rng.random((30, 2)), np.arange(30) % 3
    value, gradient = target.smooth(points, sets, sharpness)
    exact = target.score(points, sets)
    assert (value <= exact * (1 + 1e-12)).all()
    assert (value >= exact * 2 ** (-1 / sharpness) * (1 - 1e-12)).all()
    assert gradient == pytest.approx(slopes(lambda p: target.smooth(p, sets, sharpness)[0], points, 1e-5), abs=2e-4)


def test_below_the_reference_less_is_not_more():
    """Where Q is negative the preference does not turn the order around, and the slope is still right."""
    problem, history = make_problem([("a", "b")]), make_history(sets=1)
    target = replace(acquisition(problem, history), reference=np.array([5.0, 5.0]))
    points, sets = np.random.default_rng(3).random((20, 2)), np.zeros(20, dtype=int)
    without = replace(target, preference=None)
    assert (without.score(points, sets) < 0).all()
    assert target.score(points, sets) == pytest.approx(without.score(points, sets))
    value, gradient = target.smooth(points[:1], sets[:1], 64.0)
    assert (value < 0).all()
    assert gradient == pytest.approx(slopes(lambda p: target.smooth(p, sets[:1], 64.0)[0], points[:1], 1e-5), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("weights", slow_beyond(1, [(0.5, 0.5), (0.9, 0.1), (0.2, 0.8)]))
def test_the_maximum_is_found_on_every_control_set(weights):
    """No point of a fine grid beats it by more than the stand-in may lose, also where the maximum is on the ridge."""
    target = acquisition(make_problem(), make_history(), weights=weights)
    found = best_trade_offs(target, np.random.default_rng(0))
    line = np.linspace(0, 1, 201)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    for f in found:
        best = target.score(grid, np.full(len(grid), f.control_set)).max()
        assert f.score >= best * (1 - 2e-3)


def test_the_dearest_variable_costs_most_in_our_order_only():
    """C is steepest along the dearest variable our way, along the cheapest as printed; it fades as trials go by."""
    for sorting, dearest in (("ours", 0), ("paper", 2)):
        for t in (1, 20, 400):
            drawn = CostPreference.drawn((0, 1, 2), (False,) * 3, t, sorting, np.random.default_rng(t))
            _, slope = drawn.kept(np.full((1, 3), 0.3), np.ones((1, 3)))
            assert (slope < 0).all()
            assert int(np.argmin(slope)) == dearest
    corners = np.array([[0.0, 0.0], [1.0, 1.0]])
    ratios = []
    for t in (1, 10, 1000):
        drawn = CostPreference.drawn((0, 1), (False, False), t, "ours", np.random.default_rng(0))
        cheap, dear = drawn.kept(corners, np.ones((2, 2)))[0]
        ratios.append(cheap / dear)
    assert ratios[0] > ratios[1] > ratios[2] > 1.0


def test_beta_grows_as_the_theorem_says():
    """2 ln(t^2 |X| / sqrt(2 pi)), unless it is pinned."""
    assert Width(settings=1e4).at(7, 3) ** 2 == pytest.approx(2 * np.log(49 * 1e4 / np.sqrt(2 * np.pi)))
    assert Width().at(1, 5) == pytest.approx(Width(settings=1e5).at(1, 2))
    assert Width(beta=9.0).at(500, 5) == 3.0


def decided(policy, problem, history, trial=1, state=None):
    state = policy.initial_state(problem) if state is None else state
    return policy.propose(state, problem, history, trial_rng(0, trial))


POLICIES = (MoUcb(), CaMobo(("a", "b")), CaMobo(("-b", "a"), "paper"))


@pytest.mark.parametrize("policy", POLICIES)
def test_units_change_nothing(policy):
    """Outcomes in other units, and one turned round to be minimised, give the same decision."""
    problem, history = make_problem(), make_history()
    other = History.of(replace(o, y=1000 * o.y + 7, further=(-0.001 * o.further[0],)) for o in history.observations)
    turned = replace(problem, further=(FurtherOutcome("delay", "s", maximise=False),))
    one, two_ = decided(policy, problem, history)[0], decided(policy, turned, other)[0]
    assert one.control_set == two_.control_set
    assert one.setting == pytest.approx(two_.setting, abs=1e-4)


def test_further_outcomes_have_the_kernel_of_the_first():
    """Their hyper-parameters are learned, but a kernel that is left open stays the one that fixed ones go with."""
    model = as_first(make_problem(model=FIXED), make_history(), 0)[0].model
    assert (model.hyperparameters, model.kernel_used) == ("learned", "squared-exponential")


def test_first_trials_take_the_sets_in_turn():
    """Without a model every set at a Sobol point, least tried first; points known beforehand are no trials."""
    problem, history, state = make_problem(), History(), None
    chosen = []
    for trial in (1, 2, 3):
        proposal, state = decided(MoUcb(), problem, history, trial, state)
        chosen.append(proposal.control_set)
        history = history.append(Observation(trial, proposal.control_set, None, None, to_micros(1)))
    assert chosen == [0, 1, 2]
    assert proposal.phase == "explore"
    problem = make_problem()
    known = History.of(replace(o, control_set=-1, cost=0) for o in make_history().observations)
    widths = Width(settings=3.0)
    first, _ = decided(MoUcb(width=widths), problem, known)
    pinned, _ = decided(MoUcb(width=Width(beta=widths.at(1, 2) ** 2)), problem, known)
    assert first.setting == pinned.setting


def test_only_sets_that_fit_are_played():
    """The best set is passed over when it no longer fits; when none does, the campaign ends."""
    problem, history = make_problem(known_costs=(1.0, 1.0, 80.0)), make_history()
    proposal, _ = decided(MoUcb(), problem, history)
    assert proposal.control_set != 2
    with pytest.raises(BudgetSpent):
        decided(MoUcb(), replace(problem, budget=to_micros(24.5)), history)


@pytest.mark.parametrize("seed", range(4))
def test_only_settings_that_fit_are_played(seed):
    """Where costs depend on the setting, no trial is proposed that is known to cost more than is left."""
    dosing = Priced(lambda _, at: 0.1 + 3.0 * np.sum(1.0 - at, axis=1))  # cheap where the first outcome is best
    problem, history = make_problem([("a",)], known_cost_field=dosing), make_history(sets=1)
    left = 1.5
    rich, _ = MoUcb().propose({}, problem, history, trial_rng(seed, 25))
    poor, _ = MoUcb().propose({}, replace(problem, budget=to_micros(24 + left)), history, trial_rng(seed, 25))
    assert 0.1 + 3.0 * (1.0 - poor.setting[0]) <= left
    assert poor.predicted_cost <= left
    if 0.1 + 3.0 * (1.0 - rich.setting[0]) <= left:
        assert poor.setting == rich.setting


@pytest.mark.parametrize("policy", [MoUcb(), CaMobo(("a",))])
def test_outcomes_that_are_all_at_their_floor_are_no_obstacle(policy):
    """Before anything better than the declared worst was seen an outcome has no range to be counted in."""
    problem = make_problem(floor=0.0)
    problem = replace(problem, further=(FurtherOutcome("speed", "m/s", floor=0.0),))
    flat = History.of(replace(o, y=0.0, further=(0.0,)) for o in make_history().observations)
    proposal, _ = decided(policy, problem, flat)
    assert not validate(proposal, problem)
    assert "nan" not in proposal.reason


def test_what_is_remembered_of_an_outcome_is_found_by_its_name():
    """Outcomes listed in another order are not given each other's hyper-parameters."""
    names = (FurtherOutcome("speed"), FurtherOutcome("mass"))
    problem = replace(make_problem(), further=names)
    history = History.of(replace(o, further=(o.further[0], 1e6 * o.y)) for o in make_history().observations)
    _, state = decided(MoUcb(), problem, history)
    swapped = History.of(replace(o, further=o.further[::-1]) for o in history.observations)
    one = fit_further(problem, history, state["further"])
    other = fit_further(replace(problem, further=names[::-1]), swapped, state["further"])
    assert [f.hyperparameters for f in other] == [f.hyperparameters for f in one[::-1]]


def test_the_explanation_names_the_trade_off(golden):
    """Weights, each outcome in its unit, what the order of costs leaves; one outcome or strangers are refused."""
    proposal, _ = decided(CaMobo(("a",)), make_problem(), make_history())
    names = {"outcome": "growth", "unit": "cm2", "currency": "EUR"}
    text, plain = (" ".join(explain(proposal, make_problem(), **names, technical=t)) for t in (True, False))
    golden(text)
    assert "m/s)" in text
    golden(plain)
    alone = replace(make_problem(), further=())
    with golden.raises(PolicyError):
        decided(MoUcb(), alone, History())
    with golden.raises(PolicyError):
        decided(CaMobo(("a", "-c")), make_problem(), History())
    for wrong in ((), ("a", "-a")):
        with golden.raises(ValueError):
            CaMobo(wrong)


def test_old_trials_without_the_further_outcome_are_no_obstacle():
    """They still teach the first outcome's model, and are left out where all outcomes are needed."""
    problem, history = make_problem(), make_history()
    partly = History.of(replace(o, further=()) if o.trial <= 10 else o for o in history.observations)
    assert len(outcome_values(problem, partly)) == 14
    assert len(as_first(problem, partly, 0)[1].complete) == 14
    assert not validate(decided(MoUcb(), problem, partly)[0], problem)
    assert not validate(
        decided(MoUcb(), problem, History.of(replace(o, further=()) for o in partly.observations))[0], problem
    )


def test_the_front_is_of_settings_that_were_tried():
    """Its points are expected values in own units, none beaten by another; hypervolumes are counted from below them."""
    problem = replace(make_problem(), further=(FurtherOutcome("delay", "s", maximise=False),))
    history = History.of(replace(o, further=(-o.further[0],)) for o in make_history().observations)
    front = front_of(problem, history, fit_history(problem, history))
    assert front is not None
    values = np.array([p.expected for p in front.points]) * [1.0, -1.0]
    assert list(values[:, 0]) == sorted(values[:, 0], reverse=True)
    assert not any((b >= a).all() and (b > a).any() for a in values for b in values)
    assert front.hypervolume > 0
    assert front.measured_hypervolume > 0
    assert front.reference[1] > max(p.expected[1] for p in front.points)
    tried = {o.trial: o for o in history.observations}
    for p in front.points:
        assert p.measured == (tried[p.trial].y, *tried[p.trial].further)
        assert set(p.setpoints) == set(p.control_set)
    assert front_of(replace(problem, further=()), history, fit_history(problem, history)) is None


@pytest.mark.slow
def test_what_is_left_over_from_the_last_decision_changes_nothing():
    """A history that has grown by appending decides as one read anew from a journal; also beyond `max_points`."""
    problem = make_problem(model=ModelOptions(max_points=50, kernel="squared-exponential"))
    grown, state = History(), MoUcb().initial_state(problem)
    for o in make_history(60).observations:
        grown = grown.append(o)
        if o.trial >= 57:
            proposal, after = MoUcb().propose(state, problem, grown, trial_rng(0, o.trial))
            anew = History.of(grown.observations)
            assert (proposal, after) == MoUcb().propose(state, problem, anew, trial_rng(0, o.trial))
            state = after
    assert not validate(proposal, problem)


@pytest.mark.nightly
def test_three_outcomes_keep_what_every_policy_promises():
    """Whole small campaigns, with failed trials, to maximise and to minimise, to the end."""
    assert check_policy(CaMobo(("a",)), outcomes=3).trials > 10
