"""The process that decisions are made in."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.decider import ProcessDecider
from rigctl.campaign.events import TrialEnded
from rigctl.campaign.replay import replay
from rigctl.config.load import load
from rigctl.core.experiment.history import History, Look, Observation, end_of
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent, Finished
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.errors import NoAnswer, PolicyError
from tests.campaign.bad_policies import Bad, Homebound, NotFound
from tests.campaign.fakes import SoonContent, TenLines, make_space
from tests.campaign.fakes import make_spec as any_spec
from tests.system.stack import wait_until

CONFIG = Path(__file__).parents[2] / "config"
LONG_S = 60.0


def make_spec(**changes):
    """With a model that is known, so that nothing need be imported to learn it."""
    known = ModelOptions("fixed", lengthscales=(0.3, 0.3), signal_sd=1.0, noise_sd=0.1, mean=0.0)
    return any_spec(**{"problem": Problem(make_space(), to_micros(100), model=known), **changes})


def observed(count):
    read = Look((0.25, None), (0.01, 0.0))
    return tuple(Observation(t, t % 3, (0.25, 0.5), float(t), 1000, look=read) for t in range(1, count + 1))


def question(count=0, policy=None, state=None, seed=7, spec=None):
    spec = spec or make_spec()
    return Question(policy or spec.policy, spec.problem, seed, History.of(observed(count)), state)


@pytest.fixture
async def from_nothing():
    """Ended with whatever it started; other tests may have left what theirs are forked from (tests/forked.py)."""
    before, made = psutil.Process().children(), ProcessDecider()
    yield made
    await made.close()
    assert set(psutil.Process().children()) <= set(before)


@pytest.fixture
def decider(twins, from_nothing):
    """Forked from this process."""
    return from_nothing


def plain(asked):
    """The same question to a policy that does nothing bad; what is bad is not to be done here."""
    return replace(asked, policy=replace(asked.policy, after=sys.maxsize))


async def the_process(decider):
    return (await decider._ready)._process.pid


@pytest.mark.slow
async def test_its_answers_are_those_of_this_process(from_nothing):
    """As the history grows, shrinks or is another one, decision and memory are the same as when made here."""
    decider, spec, state = from_nothing, make_spec(), None
    for count in (0, 1, 2, 7, 7, 3, 4):
        asked = question(count, state=state, spec=spec)
        assert await decider.decide(asked, LONG_S) == decide(asked)
        looks = replace(asked, looks=True)
        assert await decider.decide(looks, LONG_S) == decide(looks)
        assert decide(looks).proposal is None
        state = decide(asked).policy_state
    other = Question(spec.policy, spec.problem, 7, History.of(o for o in observed(9) if o.trial > 2), state)
    assert await decider.decide(other, LONG_S) == decide(other)


@pytest.mark.system
async def test_it_is_told_of_each_trial_once(decider):
    """What goes over with a question is the trials that are new, however many are known."""
    spec, sent = make_spec(), []
    await decider.start(spec.policy, spec.problem)
    child = await decider._ready
    write = child._process.stdin.write
    child._process.stdin.write = lambda frame: (sent.append(len(frame)), write(frame))
    for count in (300, 301, 302):
        await decider.decide(question(count, spec=spec), LONG_S)
    assert sent[0] > 5000
    assert max(sent[1:]) < 1000
    assert await the_process(decider) == child._process.pid


@pytest.mark.slow
async def test_an_end_is_enough_for_who_has_been_told_of_the_rest(decider):
    """And for nobody else: not before, not of another history, nor of one that was corrected since."""
    spec, whole = make_spec(), History.of(observed(9), corrections=2)
    ask = partial(Question, spec.policy, spec.problem, 7)
    assert (decider.known(whole), decider.known(end_of(whole, 3))) == (0, None)
    assert await decider.decide(ask(whole, None), LONG_S) == decide(ask(whole, None))
    longer = observed(12)
    assert decider.known(whole) == decider.known(end_of(whole, 3)) == 9
    assert decider.known(end_of(whole, 3).append(longer[9])) == 9
    assert decider.known(History.of(longer[:10])) == 9
    others = (
        end_of(History.of(longer, corrections=2), 3),
        end_of(History.of(longer[:7], corrections=2), 3),
        end_of(History.of(observed(9), corrections=3), 3),
        end_of(History.of([*longer[:8], replace(longer[8], y=None)], corrections=2), 3),
    )
    assert [decider.known(other) for other in others] == [None] * 4
    assert decider.known(History.of([replace(longer[0], control_set=-2), *longer[1:9]])) == 0
    for more in longer[9:]:
        whole, end = whole.append(more), end_of(whole, 3).append(more)
        assert await decider.decide(ask(end, None), LONG_S) == decide(ask(whole, None))


@pytest.mark.slow
async def test_a_campaign_keeps_no_more_than_the_last_trials_here(stage, decider):
    """However long it is; a process that had to be started anew is told of all of it; replay agrees."""
    spec, alive, tell = make_spec(policy=TenLines(), max_trials=24), [], stage.told.append

    def look(event):
        tell(event)
        if isinstance(event, TrialEnded):
            gc.collect()
            alive.append(sum(isinstance(thing, Observation) for thing in gc.get_objects()))
            if len(alive) == 12:
                decider._ready.result()._process.kill()

    stage.told = SimpleNamespace(append=look)
    result = await stage.run(spec, decider=decider)
    assert result.trials == 24
    with stage.journal() as journal:
        assert [row.origin for row in journal.trials()] == ["policy"] * 12 + ["timed-out"] + ["policy"] * 11
        assert [trial.differences for trial in replay(journal, spec)] == [()] * 24
    before, after = set(alive[8:12]), set(alive[-4:])
    assert len(before) == len(after) == 1, alive
    assert max(before | after) - alive[0] < 8, alive


@pytest.mark.slow
async def test_a_budget_that_shrinks_is_told_and_needs_no_new_process(decider):
    """What is left for trials may change between two questions; the process that answers stays, and heeds it."""
    first = question(3)
    await decider.decide(first, LONG_S)
    process = await the_process(decider)
    less = replace(first, problem=replace(first.problem, budget=first.problem.budget // 2))
    assert await decider.decide(less, LONG_S) == decide(less)
    spent = replace(first, problem=replace(first.problem, budget=1))
    with pytest.raises(BudgetSpent):
        await decider.decide(spent, LONG_S)
    assert await the_process(decider) == process


@pytest.mark.system
@pytest.mark.parametrize("example", ["greenhouse", "lathe", "wind-tunnel"])
async def test_the_examples_decide_there_to_the_same_bits(decider, example):
    """Problem and policy of every example arrive as they are, and what the process keeps changes no decision."""
    loaded = load(CONFIG / f"{example}.yaml")
    space, nature = loaded.problem.space, np.random.default_rng(3)
    history, state = History(), None
    for trial in range(1, 7):
        asked = Question(loaded.policy, loaded.problem, 5, history, state)
        decision = await decider.decide(asked, LONG_S)
        assert decision == decide(replace(asked, history=History.of(history.observations)))
        assert decision.origin == "policy"
        x, chosen, state = nature.random(space.dimension), decision.proposal.control_set, decision.policy_state
        x[list(space.control_sets[chosen].indices)] = decision.proposal.setting
        history = history.append(Observation(trial, chosen, tuple(map(float, x)), float(x.sum()), 100_000))


@pytest.mark.system
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("leaves", r"the policy's process ended \(exit code 7\)"),
        ("quits", r"the policy's process ended \(exit code 1\)"),
        ("segfaults", r"the policy's process ended \(signal 11, Segmentation fault\)"),
    ],
)
async def test_fault_60_a_policy_that_ends_its_process_costs_one_decision(decider, kind, why):
    """Who asked is told how it ended, with its last words; the next question is answered by a new process."""
    spec = make_spec(policy=Bad(kind=kind, after=1))
    await decider.decide(question(0, spec=spec, policy=spec.policy), LONG_S)
    first = await the_process(decider)
    with pytest.raises(NoAnswer, match=why) as told:
        await decider.decide(question(1, spec=spec, policy=spec.policy), LONG_S)
    assert {"leaves": "", "quits": "enough", "segfaults": "segfaults"}[kind] in told.value.traceback
    assert (await decider.decide(question(0, spec=spec, policy=spec.policy), LONG_S)).origin == "policy"
    assert await the_process(decider) != first
    assert not psutil.pid_exists(first)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "lost"), [("forks", []), ("doubles", []), ("lags", [3]), ("babbles", [2])])
async def test_fault_87_an_answer_that_is_not_to_the_question_is_dropped(decider, kind, lost):
    """Of a forked child, a second one, one to an older question, no answer at all: a decision at most, and no other."""
    spec, missed = make_spec(policy=Bad(kind=kind, after=2)), []
    for number, count in enumerate((0, 1, 2, 0, 1)):
        asked = question(count, spec=spec, policy=spec.policy)
        try:
            assert await decider.decide(asked, 1.0 if number in lost else LONG_S) == decide(plain(asked))
        except NoAnswer:
            missed.append(number)
    assert missed == lost


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["waits", pytest.param("holds", marks=pytest.mark.system)])
async def test_fault_60_a_policy_that_never_returns_is_ended(decider, kind, golden):
    """Past the limit its process is ended, which says where it stood; a new one gets ready."""
    spec = make_spec(policy=Bad(kind=kind, after=1))
    assert (await decider.decide(question(0, spec=spec, policy=spec.policy), LONG_S)).origin == "policy"
    first = await the_process(decider)
    with golden.raises(NoAnswer) as told:
        await decider.decide(question(1, spec=spec, policy=spec.policy), 0.2)
    assert f"in {kind}" in told.value.traceback
    assert not psutil.pid_exists(first)
    assert (await decider.decide(question(0, spec=spec, policy=spec.policy), LONG_S)).origin == "policy"


@pytest.mark.system
async def test_fault_60_the_loop_turns_while_the_interpreter_lock_is_held(decider):
    """A policy that keeps the interpreter lock for two seconds keeps its own."""
    spec, turns = make_spec(policy=Bad(kind="holds", seconds=2)), []

    async def turn():
        while True:
            turns.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)

    await decider.start(spec.policy, spec.problem)
    await decider._ready
    async with asyncio.TaskGroup() as group:
        turning = group.create_task(turn())
        assert (await decider.decide(question(spec=spec, policy=spec.policy), LONG_S)).origin == "policy"
        turning.cancel()
    assert len(turns) > 20


@pytest.mark.system
async def test_what_a_policy_prints_harms_nothing(decider):
    """Its output is neither taken for an answer nor waited for by anybody, and there is nothing for it to read."""
    spec = make_spec(policy=Bad(kind="prints"))
    assert (await decider.decide(question(spec=spec, policy=spec.policy), LONG_S)).origin == "policy"


@pytest.mark.slow
async def test_fault_75_an_exception_comes_back_with_its_traceback(decider, golden):
    """The decision is replaced, its note is short, and the traceback says where the plug-in failed."""
    spec = make_spec(policy=Bad(kind="raises"))
    decision = await decider.decide(question(spec=spec, policy=spec.policy), LONG_S)
    golden(decision.note)
    assert decision.origin == "rejected"
    assert "bad_policies.py" in decision.traceback


@pytest.mark.slow
async def test_the_end_of_a_campaign_comes_back_as_such(decider, golden):
    """A stopping rule and a spent budget arrive as what they are."""
    spec = make_spec(policy=SoonContent())
    with golden.raises(Finished):
        await decider.decide(question(2, spec=spec, policy=spec.policy), LONG_S)
    spent = make_spec(policy=TenLines(cost=1e9))
    with pytest.raises(BudgetSpent, match="left"):
        await decider.decide(question(2, spec=spent, policy=spent.policy), LONG_S)


async def test_what_cannot_be_handed_on_is_refused_at_the_start(decider, golden):
    """Before anything moves, with the policy's name and the remedy."""
    spec = make_spec(policy=Homebound())
    with golden.raises(PolicyError):
        await decider.start(spec.policy, spec.problem)


@pytest.mark.slow
async def test_what_does_not_arrive_is_refused_before_the_first_decision(decider, golden):
    """A policy that the other process cannot load is an error, not a decision to be replaced."""
    spec = make_spec(policy=NotFound())
    await decider.start(spec.policy, spec.problem)
    for _ in range(2):
        with golden.raises(PolicyError) as refused:
            await decider.decide(question(spec=spec, policy=spec.policy), LONG_S)
        assert not isinstance(refused.value, NoAnswer)


@pytest.mark.system
async def test_a_question_broken_off_leaves_no_answer_behind(decider):
    """After a cancelled decision the next question gets its own answer."""
    spec = make_spec(policy=Bad(kind="waits", after=1))
    await decider.decide(question(0, spec=spec, policy=spec.policy), LONG_S)
    asking = asyncio.create_task(decider.decide(question(1, spec=spec, policy=spec.policy), LONG_S))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    asked = question(0, spec=spec, policy=spec.policy, seed=8)
    assert await decider.decide(asked, LONG_S) == decide(asked)


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_who_ends_the_controller_ends_the_process_through_it(decider, number):
    """A signal meant for all of rigctl does not end a decision."""
    spec = make_spec()
    await decider.decide(question(0, spec=spec), LONG_S)
    process = await the_process(decider)
    os.kill(process, number)
    assert await decider.decide(question(1, spec=spec), LONG_S) == decide(question(1, spec=spec))
    assert await the_process(decider) == process


PARENT = """
import asyncio, sys
from rigctl.campaign.decider import ProcessDecider
from tests.campaign.bad_policies import Bad
from tests.campaign.fakes import make_spec

async def main():
    decider, spec = ProcessDecider(), make_spec(policy=Bad(kind="holds", mark=sys.argv[1]))
    await decider.start(spec.policy, spec.problem)
    child = await decider._ready
    from tests.campaign.test_process_decider import question
    print(child._process.pid, flush=True)
    await decider.decide(question(spec=spec, policy=spec.policy), 600)

asyncio.run(main())
"""


def over(process):
    """Whether it has ended, though nobody may have asked how."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.system
def test_a_killed_controller_leaves_no_process_behind(tmp_path):
    """When its parent is killed, so is the process that decides, though its policy holds the interpreter lock."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "holding")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        process = psutil.Process(int(parent.stdout.readline()))
        wait_until((tmp_path / "holding").exists, "a policy that holds the interpreter lock")
        assert process.is_running()
        parent.kill()
    wait_until(lambda: over(process), "the end of the process that decides", LONG_S)
