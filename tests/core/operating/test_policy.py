"""Production decided in memory: what is run at a reading, what exploring may lose, and what has drifted."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import ModelOptions, Problem, TruncatedNormal
from rigctl.core.advice.recommend import planner_of, recommend
from rigctl.core.advice.rule import Between, Setting
from rigctl.core.asking import next_proposal, play, trial_rng
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.natural import present
from rigctl.core.gp.model import fit_history
from rigctl.core.operating.playing import kept, remembered
from rigctl.core.operating.policy import RESPONSE, Operating
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.policies import NotWorthIt
from tests.core.conftest import unit_space
from tests.core.plain import PlainProcess
from tests.profiles import nightly_beyond

pytestmark = pytest.mark.usefixtures("few_days")

NATURAL = TruncatedNormal.from_moments(0.5, 0.2)
COSTS = (0.1, 0.1, 1.0)
NOISE = 0.05
FIXED = ModelOptions("fixed", lengthscales=(0.4, 0.4), signal_sd=1.0, noise_sd=NOISE, mean=0.0)
LEARNED = ModelOptions(kernel="squared-exponential")
SPACE = unit_space(marginal=NATURAL)
PROBLEM = Problem(SPACE, to_micros(1e6), model=FIXED)
SEEING = replace(PROBLEM, looks=True, persistence=(1.0, 1.0))


def ridge(x):
    """Best where the two variables are equal: what to set depends on what the other one is."""
    return 1.0 - 4.0 * (x[0] - x[1]) ** 2


def hill(x):
    """Best in the middle, whatever the other one is."""
    return 1.0 - 4.0 * (x[0] - 0.5) ** 2 - (x[1] - 0.5) ** 2


class World:
    """What is read before a trial is what is in it, but for what is controlled; outcomes drift as told."""

    def __init__(self, response, seed, *, drift=lambda trial: 0.0, shift=0.0, after=10**9):
        self.response, self.drift, self.rng = response, drift, np.random.default_rng(seed)
        self.shift, self.after, self.trials = shift, after, 0

    def look(self):
        changed = self.trials >= self.after
        self.now = np.clip(NATURAL.quantile(self.rng.random(2)) + (self.shift if changed else 0.0), 0.0, 1.0)
        return Look(tuple(self.now.tolist()), (0.0, 0.0))

    def trial(self, number, control_set, setting):
        x = self.now.copy()
        x[list(SPACE.control_sets[control_set].indices)] = setting
        self.trials += 1
        y = self.response(x) + NOISE * self.rng.standard_normal() + self.drift(self.trials)
        return Observation(number, control_set, tuple(x.tolist()), float(y), to_micros(COSTS[control_set]))

    def observe(self, proposal):
        return self.trial(proposal.trial, proposal.control_set, np.array(proposal.setting))


def step(level, after, until=10**9):
    return lambda trial: level * (after < trial <= until)


def campaign(world, count=24):
    found = []
    for number in range(1, count + 1):
        look, control_set = world.look(), number % 3
        setting = world.rng.random(len(SPACE.control_sets[control_set].indices))
        found.append(replace(world.trial(number, control_set, setting), look=look))
    return History.of(found)


def operated(world, known, batches, *, problem=SEEING, **wish):
    def observe(proposal):
        if not problem.looks:
            world.look()
        return world.observe(proposal)

    policy = Operating(ExploreThenCommit(), 0.05, 1, **wish)
    return play(policy, problem, observe, 1, look=world.look if problem.looks else None, known=known, most=batches)


def standing(done):
    """What was told to stand, after each decision: (source, noticed)."""
    return [{(s.source, s.noticed) for s in remembered(d.state).standing} for d in done.decisions]


def decide(known, problem=SEEING, x=(0.3, 0.8), state=None, **wish):
    policy = Operating(ExploreThenCommit(), 0.05, 1, **wish)
    asked = problem if x is None else replace(problem, look=Look(x, (0.0, 0.0)))
    return next_proposal(policy, state, asked, known, trial_rng(1, len(known) + 1))


@pytest.fixture(scope="module")
def seen():
    known = campaign(World(ridge, 3))
    return known, decide(known)[1]


@pytest.mark.slow
def test_what_is_run_at_a_reading_is_what_the_recommended_rule_says(seen):
    """Line for line, to the bit of the setpoints; expected is what the model of then expects."""
    known, state = seen
    rule = recommend(SEEING, known, trial_rng(1, len(known) + 1), 0.05).rule
    assert rule.follows
    assert remembered(state).lines == rule.lines
    for x in ((0.3, 0.8), (0.8, 0.3), (0.5, 0.5), (0.1, 0.2)):
        proposal, _ = decide(known, x=x, state=state)
        read = dict(zip("ab", x, strict=True))
        line = rule.line_for(read)
        assert SPACE.control_sets[proposal.control_set].names == line.control_set
        assert SPACE.setpoints(proposal.control_set, proposal.setting) == pytest.approx(line.setpoints(read))
        assert proposal.phase == "operate"
        assert proposal.sets[0].mean == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("problem", [SEEING, PROBLEM])
def test_without_the_reading_the_best_fixed_setting_is_run(seen, problem):
    """Where a reading is missing, or nobody looks."""
    known, state = seen
    choice = recommend(problem, known, trial_rng(1, len(known) + 1), 0.05, rule=False).choice
    missing = ((None, None), state) if problem.looks else (None, None)
    proposal, _ = decide(known, problem, *missing)
    assert SPACE.control_sets[proposal.control_set].names == choice.control_set
    assert SPACE.setpoints(proposal.control_set, proposal.setting) == pytest.approx(choice.setpoints)
    assert "reading" in proposal.reason or not problem.looks


def test_with_half_of_the_readings_a_line_is_run_only_if_none_above_it_takes_the_other_half(seen):
    """What stands further down is for other days: the fixed setting is run then."""
    known, state = seen
    memory = remembered(state)
    low, rest = (
        replace(memory.lines[0], when=when, control_set=("b",), settings=(Setting("b", at, (), 0.0, 1.0),))
        for when, at in (((Between("a", None, 0.5),), 0.25), ((), 0.75))
    )
    for made, x, is_line in (
        ((low, rest), (None, 0.2), False),
        ((low, rest), (0.6, None), True),
        ((rest, low), (None, 0.2), True),
    ):
        proposal, _ = decide(known, x=x, state=kept(replace(memory, lines=made), state))
        assert (proposal.setting == (0.75,)) is is_line


def test_what_cannot_be_played_is_replaced_by_the_best_that_can(seen, golden):
    """The reason says what was asked for; with nothing left there is no batch."""
    known, state = seen
    proposal, _ = decide(known, state=state)
    barred = replace(SEEING, unavailable={proposal.control_set: "out of service"})
    other, _ = decide(known, barred, state=state)
    assert other.control_set != proposal.control_set
    golden(other.reason)
    with pytest.raises(NotWorthIt):
        decide(known, replace(SEEING, unavailable=dict.fromkeys(range(3), "out of service")), state=state)


@pytest.mark.slow
def test_in_full_what_is_best_at_just_these_readings_is_run(seen, golden):
    """What the recommendation's full rule plays, found another way; at most readings it is not the short rule's."""
    known, state = seen
    problem, _ = present(SEEING, known)
    posterior = fit_history(problem, known, None, under_way=False).posterior
    rng, read = np.random.default_rng(5), np.random.default_rng(4).random((24, 2))
    sets, points = planner_of(problem, known, posterior, rng, 0.05).best_at(read)
    others = 0
    for x, control_set, point in zip(read, sets, points, strict=True):
        short, _ = decide(known, x=tuple(x), state=state)
        full, _ = decide(known, x=tuple(x), state=state, full=True)
        columns = list(SPACE.control_sets[control_set].indices)
        assert (full.control_set, full.setting) == (control_set, pytest.approx(point[columns], abs=0.01))
        golden(full.reason)
        others += (full.control_set, full.setting) != (short.control_set, short.setting)
    assert others > len(read) / 2


def test_in_full_what_came_later_changes_nothing_and_what_is_missing_is_made_up_for(seen, golden):
    """A product does not change by itself; without a reading the fixed setting, without a control set the next best."""
    known, state = seen
    x = (0.3, 0.8)
    full, _ = decide(known, x=x, state=state, full=True)
    later = [replace(o, trial=o.trial + len(known), y=-o.y) for o in known.observations]
    again, _ = decide(History.of([*known.observations, *later]), x=x, state=state, full=True)
    assert (again.control_set, again.setting) == (full.control_set, full.setting)
    blind, _ = decide(known, x=(None, None), state=state, full=True)
    golden(blind.reason)
    barred = replace(SEEING, unavailable={full.control_set: "out of service"})
    other, _ = decide(known, barred, x=x, state=state, full=True)
    assert other.control_set != full.control_set
    golden(other.reason)


@pytest.mark.slow
@pytest.mark.parametrize("learn", [None, 0.0])
def test_the_rule_stays_as_it_was_unless_it_is_to_learn(learn):
    """The plant turns round: without learning every batch plays what it did; with it the setting moves."""
    world = World(hill, 5)
    known = campaign(world)
    world.response = lambda x: -hill(x)
    done = operated(world, known, 12, problem=PROBLEM, learn=learn)
    settings = {(d.proposal.control_set, d.proposal.setting) for d in done.decisions}
    memory = remembered(done.decisions[-1].state)
    assert (len(settings) == 1) is (learn is None)
    assert (memory.since == 24) is (learn is None)
    assert (memory.begun, memory.lost) == (25, 0.0)


@pytest.mark.slow
def test_what_exploring_loses_is_within_its_budget_recounted_by_plain_formulas():
    """At every batch; with a Gaussian process written out, and natures drawn densely."""
    world = World(hill, 8)
    known = campaign(world, 9)
    share, nodes = 0.05, NATURAL.quantile((np.arange(400) + 0.5) / 400)
    done = operated(world, known, 20, problem=PROBLEM, learn=share)
    rows = [o for o in done.history.observations if o.x is not None]

    def mean(model, control_set, setting):
        members = () if control_set is None else SPACE.control_sets[control_set].indices
        grid = np.stack([g.ravel() for g in np.meshgrid(nodes[2::5], nodes[2::5])], axis=1)
        grid[:, list(members)] = setting
        return float(model.mu(grid).mean())

    lost = gained = 0.0
    for decision in done.decisions:
        before = rows[: decision.proposal.trial - 1]
        model = PlainProcess(
            np.array([o.x for o in before]), np.array([o.y for o in before]), np.array([0.4, 0.4]), 1.0, NOISE, 0.0
        )
        way = remembered(decision.state).ways[0]
        rule = mean(model, SPACE.index_of(way.control_set), list(way.at.values()))
        lost += max(0.0, rule - mean(model, decision.proposal.control_set, list(decision.proposal.setting)))
        gained += max(0.0, rule - mean(model, None, ()))
        assert lost <= share * gained * 1.01
    explored = [d for d in done.decisions if d.proposal.phase == "learn"]
    assert explored
    assert lost > 0
    own = [o.cost for o in rows[9:]]
    assert max(own) <= to_micros(COSTS[SPACE.index_of(remembered(done.decisions[0].state).ways[0].control_set)])
    memory = remembered(done.decisions[-1].state)
    assert memory.lost + memory.pending.loss == pytest.approx(lost, rel=0.03)


@pytest.mark.slow
def test_what_gives_no_outcome_gains_nothing_and_its_loss_stays_within_the_budget_all_the_same():
    """Batches that explore fail, every other one's outcome is awaited and then given up; counted after each batch."""
    for seed in (5, 7):
        world = World(hill, seed)
        known, state, gave = campaign(world, 9), None, 0.0
        for _ in range(14):
            proposal, state = decide(known, PROBLEM, None, state, learn=0.3)
            memory = remembered(state)
            assert memory.gained == pytest.approx(gave)
            world.look()
            seen = world.observe(proposal)
            known = History.of(replace(o, awaited=False) for o in known.observations)
            if proposal.phase == "learn" or proposal.trial % 2:
                seen = replace(seen, y=None, awaited=proposal.phase == "operate")
            else:
                gave += memory.pending.gain
            known = known.append(seen)
            assert memory.lost + memory.pending.loss <= 0.3 * gave
    assert memory.lost > 0


STEPS = [(step(-0.5, 30), 30), (step(-0.5, 40), 40), (None, 40)]
"""A step of the response, or a shift of the supply, and after which trial."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "model"), nightly_beyond(1, [(c, m) for c in STEPS for m in (LEARNED, FIXED)], several=True)
)
def test_each_change_is_told_once_while_the_rule_is_made_anew_again_and_again(change, model):
    """Also one that is noticed as the rule is made; the next one that is made knows of it, if its model learns."""
    drift, after = change
    world = World(hill, 3, drift=drift) if drift else World(hill, 3, shift=0.3, after=after)
    batches = after - 10 if drift else after + 10  # a shift is noticed later
    told = standing(operated(world, campaign(world), batches, problem=replace(PROBLEM, model=model), learn=0.0))
    assert len(set().union(*told)) == 1
    assert bool(told[-1]) is (model is FIXED and drift is not None)


@pytest.mark.slow
def test_a_change_that_a_fixed_model_takes_for_noise_stands_until_expectations_are_right_again():
    """However often the rule is made anew meanwhile: the response falls for twelve batches, and comes back."""
    world = World(hill, 3, drift=step(-0.5, 40, 52))
    told = standing(operated(world, campaign(world), 44, problem=PROBLEM, learn=0.0))
    trials = [trial for trial, stands in enumerate(told, start=25) if stands]
    assert trials == list(range(trials[0], trials[-1] + 1))
    assert trials[0] <= 45
    assert 53 <= trials[-1] < 65


def test_nothing_is_tried_while_nobody_knows_what_a_batch_costs():
    """All trials are from before the campaign, without their costs; a set that never was metered may be the dearest."""
    rows = campaign(World(hill, 10), 9).observations
    known = History.of(replace(o, cost=0, cost_known=False, charged=False) for o in rows)
    assert decide(known, PROBLEM, None, learn=0.3)[0].phase == "operate"


@pytest.mark.slow
@pytest.mark.parametrize("model", [FIXED, LEARNED])
def test_a_response_that_steps_is_noticed_and_one_that_does_not_is_not(model):
    """Four noise spreads down after ten batches; the same worlds without it are quiet."""
    for level in (-0.4, 0.0):
        world = World(hill, 1, drift=step(level, 34))
        found = standing(operated(world, campaign(world), 20, problem=replace(PROBLEM, model=model)))[-1]
        assert [source for source, _ in found] == ([RESPONSE] if level else [])
        assert all(35 <= noticed <= 44 for _, noticed in found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", nightly_beyond(1, [1, 2, 3]))
def test_a_response_that_creeps_and_then_stays_is_one_change(seed):
    """By 0.05 a trial for fifteen trials: the model takes it for a step, a ramp, then for what makes up for both."""
    world = World(hill, seed, drift=lambda trial: -0.05 * min(max(trial - 35, 0), 15))
    told = standing(operated(world, campaign(world), 38, problem=replace(PROBLEM, model=LEARNED)))
    assert len(set().union(*told)) == 1
    assert told[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until", "onwards", "changes"),
    nightly_beyond(
        1,
        [(60, lambda n: -0.02 * n, True), (45, lambda _: 0.0, False), (60, lambda n: 0.02 * min(n, 35), True)],
        several=True,
    ),
    ids=["it goes on", "it had ended", "it comes back"],
)
def test_a_drift_that_the_rule_was_made_in_is_told_if_it_does_not_end_there(until, onwards, changes):
    """It sinks by 0.02 a trial from the 26th on, and is taken for that drift; what is run, and expected, stays."""
    world = World(hill, 5, drift=lambda t: onwards(t - 60) * (t > 60) - 0.02 * min(max(t - 25, 0), until - 25))
    known = campaign(world, 60)
    problem = replace(SEEING, model=LEARNED)
    assert {t.kind for t in fit_history(problem, known).hyperparameters.ageing} - {"step"}
    assert any(standing(operated(world, known, 20, problem=problem))) == changes


@pytest.mark.slow
def test_a_supply_that_moves_is_noticed_once_by_what_is_read():
    """Of both variables, also the one that every batch controls; a supply that stays is quiet."""
    for shift in (0.45, 0.0):
        world = World(ridge, 4, shift=shift, after=34)
        told = standing(operated(world, campaign(world), 34))
        assert sorted({source for source, _ in told[-1]} - {RESPONSE}) == (["a", "b"] if shift else [])
        assert set().union(*told) == told[-1]
