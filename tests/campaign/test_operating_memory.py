"""What production keeps from one batch to the next, and hands on to a campaign: nothing that is not its own."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.desk import StandingNews
from rigctl.campaign.production import drifted, production
from rigctl.campaign.trial import State
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.operating.playing import Drift, Memory, kept, remembered
from tests.campaign.test_acts import ask, asks, once_paused
from tests.campaign.test_operating import TRIALS, campaign, produced, sound
from tests.rig.fakes import Heard


@pytest.mark.slow
async def test_a_reference_trial_that_follows_production_keeps_nothing_of_it_either(stage):
    """It is decided before the policy is asked, which would drop what production runs."""
    spec = campaign()
    await stage.run(spec)
    await stage.run(produced(spec, 2))
    await stage.run(replace(spec, max_trials=TRIALS + 1))
    await stage.run(produced(spec, 1))
    rows = stage.trials()
    assert rows[8].proposal.phase == "reference"
    assert [m and m.begun for m in (remembered(row.policy_state) for row in rows[7:])] == [7, None, 10]
    assert rows[8].policy_state["asked"] == rows[7].policy_state["asked"]
    sound(stage, spec)


@pytest.mark.slow
async def test_what_one_batch_gains_is_told_though_no_other_follows_it(stage):
    """In the memory it counts when the next one is decided; it was said that nothing is expected to be gained."""
    spec = campaign()
    await stage.run(spec)
    await stage.run(produced(spec, 1, learn=0.5))
    with stage.journal() as journal:
        one, memory = production(journal), remembered(journal.trials()[-1].policy_state)
    assert (one.learns, memory.gained, one.gained, one.lost) == (True, 0.0, memory.pending.gain, 0.0)
    assert one.gained > 0
    await stage.run(produced(spec, 1, learn=0.5))
    with stage.journal() as journal:
        after, memory = production(journal), remembered(journal.trials()[-1].policy_state)
    assert memory.gained == one.gained
    assert after.gained == memory.gained + memory.pending.gain


@pytest.mark.slow
async def test_a_batch_that_was_cancelled_is_none_of_those_asked_for(stage):
    """A pause came before it had moved anything: as many follow as if it had not been decided."""
    await stage.run(campaign())

    async def pause():
        if stage.rig.calls.count("meters") == 2:
            await ask(stage, "pause")

    async with once_paused(stage, asks(stage, "resume")):
        result = await stage.run(produced(campaign(), 2), fail={"meters": pause})
    states = [row.state for row in stage.trials()[TRIALS:]]
    assert states == [State.ABANDONED, State.RECORDED, State.RECORDED]
    assert (result.ending, result.reason[:6]) == ("trials", "2 of 2")


@pytest.mark.parametrize(
    ("wish", "learned", "by_errors", "words"),
    [
        ({}, True, False, "`rigctl operate CONFIG --anew` makes it anew"),
        ({"learn": 0.05}, True, False, "is made anew by what batches teach, and this ends then"),
        ({"learn": 0.05}, False, True, "takes this for noise"),
        ({}, False, True, "takes this for noise"),
        ({"fixed": (("b", 0.5),)}, True, False, "was told by --set"),
    ],
)
def test_what_a_person_is_to_do_about_a_drift_is_what_would_end_it(wish, learned, by_errors, words):
    """Nobody is sent to `--anew` where that is under way, refused, or of no use; it ends by those words."""
    spec = campaign()
    model = ModelOptions(kernel="squared-exponential") if learned else spec.problem.model
    spec = produced(replace(spec, problem=replace(spec.problem, model=model)), 1, **wish)
    known = Memory(7, 6, 6, "", (), drifts=(Drift("response", 9, "it has changed", 10, by_errors),))
    said = []
    standing = StandingNews(Heard(said))
    for memory in (known, replace(known, since=12)):
        decision = SimpleNamespace(policy_state=kept(memory, {}))
        standing.are(drifted(decision, spec))
    began, over = said
    assert words in began.message
    assert ("--anew" in began.message) is (not wish and learned)
    assert [(a.kind, a.source) for a in said] == [("changed at trial 9", "response")] * 2
    assert (began.state, over.state) == ("stands", "over")


@pytest.mark.slow
async def test_production_begins_although_the_last_trials_gave_no_outcome(stage):
    """As where nobody has said the last three: those before tell what to run; it was refused, without a remedy."""
    spec = campaign()
    await stage.run(spec)
    with stage.journal() as journal:
        known = journal.history(spec.problem.space).observations
    lost = [replace(known[0], trial=TRIALS + n, y=None) for n in (1, 2, 3)]
    begins = produced(spec, 1)
    decision = decide(Question(begins.decides, begins.left(0), spec.seed, History.of([*known, *lost]), None))
    assert (decision.origin, decision.proposal.phase) == ("policy", "operate")
