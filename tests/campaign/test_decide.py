"""One decision, and what is done without one."""

import subprocess
import sys
from dataclasses import replace

import pytest

from rigctl.campaign.decide import Question, decide, without_answer
from rigctl.core.experiment.history import History, Observation
from tests.campaign.fakes import make_spec


def after(*outcomes):
    """The question after trials of control set 0 with these outcomes; None: it gave none."""
    spec = make_spec()
    size = spec.problem.space.dimension
    history = History.of(
        Observation(t, 0, None if y is None else (0.5,) * size, y, 1) for t, y in enumerate(outcomes, start=1)
    )
    return Question(spec.policy, spec.problem, 7, history, None)


def test_what_gives_no_outcome_is_not_asked_for_for_ever(golden):
    """After a few trials of one control set without an outcome something else is tried, and said; once."""
    fruitless = decide(after(1.0, *[None] * 3))
    assert (fruitless.origin, fruitless.control_set != ("a",)) == ("rejected", True)
    golden(fruitless.note)
    for others in ([None] * 2, [*[None] * 3, 1.0]):
        assert decide(after(1.0, *others)).origin == "policy"
    waiting = after(1.0, *[None] * 3)
    awaited = History.of(replace(o, awaited=o.y is None, x=(0.5, 0.5)) for o in waiting.history.observations)
    assert decide(replace(waiting, history=awaited)).origin == "policy"


def test_fault_50_without_an_answer_the_last_good_proposal_is_played_again():
    """Unless there is none, or what it proposes has just been seen to give no outcome: then something else is tried."""
    good = decide(after()).proposal
    again = without_answer(after(1.0), good, "late")
    assert (again.origin, again.policy_state, again.note) == ("timed-out", None, "late")
    assert (again.proposal.control_set, again.proposal.setting) == (good.control_set, good.setting)
    assert without_answer(after(1.0), None, "late").proposal.phase == "explore"
    assert without_answer(after(1.0, *[None] * 3), good, "late").control_set != ("a",)


@pytest.mark.slow
def test_deciding_needs_neither_the_journal_nor_what_it_brings():
    """The process that decides is spared the libraries of the controller, which would be memory twice."""
    code = (
        "import sys, rigctl.campaign.decide, rigctl.campaign.deciding\n"
        "print(sorted({'asyncio', 'pydantic', 'sqlite3', 'structlog', 'pint'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_control_set_that_cannot_be_played_keeps_no_policy_from_being_asked():
    """Trials that were voided because a variable did not follow gave no outcome; their control set is held already."""
    asked = after(1.0, *[None] * 3)
    held = decide(replace(asked, problem=replace(asked.problem, unavailable={0: "held"})))
    assert (held.origin, held.control_set != ("a",)) == ("policy", True)
