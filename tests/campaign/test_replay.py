import sqlite3
from dataclasses import dataclass, replace
from importlib import metadata

import pytest

from rigctl import provenance
from rigctl.campaign.replay import replay
from rigctl.core.experiment.problem import ReferenceTrials
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.errors import PolicyError
from tests.campaign.fakes import SoonContent, TenLines, ThreadDecider, make_spec


@dataclass(frozen=True)
class Fickle(TenLines):
    """Cannot decide every third trial."""

    def propose(self, state, problem, history, rng):
        if len(history) % 3 == 1:
            raise PolicyError("no idea")
        return super().propose(state, problem, history, rng)


def replayed(stage, spec):
    with stage.journal() as journal:
        return {t.trial: t.differences for t in replay(journal, spec)}


@pytest.mark.slow
async def test_every_decision_comes_out_the_same(stage):
    """Policy's decisions and fallbacks alike, bit for bit."""
    spec = make_spec(policy=Fickle(), max_trials=7)
    await stage.run(spec)
    assert replayed(stage, spec) == dict.fromkeys(range(1, 8), ())


@pytest.mark.slow
async def test_reference_trials_come_out_the_same(stage):
    """They are in the journal with their phase, their setting is kept in the policy's memory, and the budget holds."""
    spec = make_spec(policy=LikelyMaximisers(), max_trials=9)
    spec = replace(spec, problem=replace(spec.problem, reference=ReferenceTrials(4)))
    await stage.run(spec)
    rows = list(stage.trials())
    references = [r for r in rows if r.proposal.phase == "reference"]
    assert [r.trial for r in references] == [4, 8]
    assert references[0].setpoints == references[1].setpoints
    assert replayed(stage, spec) == dict.fromkeys(range(1, 10), ())


def told(stage, spec):
    """What of the code is said to be different, by trial."""
    with stage.journal() as journal:
        return {t.trial: t.code for t in replay(journal, spec)}


async def test_other_code_is_named(stage, monkeypatch):
    """By process that decided: versions and sources that are not today's; a trial done by hand has no code."""
    spec = make_spec(max_trials=1)
    with monkeypatch.context() as then:
        then.setattr(provenance, "libraries", lambda: {"numpy": "1.26", "quux": "2"})
        then.setattr(provenance, "DECIDES", ("core/experiment/money.py",))
        await stage.run(spec)
    await stage.run(replace(spec, max_trials=2))
    found = told(stage, spec)
    numpy, sources = metadata.version("numpy"), provenance.digest(provenance.DECIDES)
    assert found[2] == ""
    assert f"numpy 1.26 (now {numpy})" in found[1]
    assert f"(now {sources})" in found[1]
    assert "quux 2 (now -)" in found[1]
    assert "rigctl 0" not in found[1]
    assert replayed(stage, spec) == {1: (), 2: ()}


async def test_another_file_of_a_plugged_in_policy_is_other_code(stage):
    """What a policy from outside is written in belongs to the code that decides."""
    await stage.run(make_spec(max_trials=1))

    class Elsewhere(ThreadDecider):
        """As if it were a policy, in another file."""

    code = provenance.deciding_code(Elsewhere())
    assert told(stage, make_spec()) == {1: ""}
    assert set(code) == {"rigctl", "sources", "python", "policy", *provenance.NUMERICS}
    assert provenance.deciding_code(TenLines())["policy"] != code["policy"]
    assert "policy" not in provenance.deciding_code(ExploreThenCommit())


@pytest.mark.slow
async def test_a_changed_journal_is_noticed(stage):
    """An outcome edited afterwards shows in the decisions that knew it, and only in those."""
    spec = make_spec(max_trials=4)
    await stage.run(spec)
    with sqlite3.connect(stage.state / "journal.sqlite") as file:
        file.execute("UPDATE measurements SET value = 1e6 WHERE trial = 2 AND name = 'y'")
    file.close()
    differs = replayed(stage, spec)
    assert {trial: len(several) for trial, several in differs.items()} == {1: 0, 2: 0, 3: 1, 4: 1}
    assert all(several[0].startswith("policy state: ") for several in (differs[3], differs[4]))


async def test_another_policy_disagrees_by_name(stage, golden):
    """What differs is said: origin, control set, setting."""
    await stage.run(make_spec(max_trials=2))

    @dataclass(frozen=True)
    class Other(TenLines):
        def propose(self, state, problem, history, rng):
            proposal, after = super().propose(state, problem, history, rng)
            if len(history) == 0:
                return replace(proposal, setting=(0.25,)), after
            return replace(proposal, control_set=0), after

    first, second = replayed(stage, make_spec(policy=Other())).values()
    assert first[0].startswith("setting: ")
    assert "0.77" in first[0]
    golden(second)
    broken = replayed(stage, make_spec(policy=TenLines(cost="?")))
    golden(broken[1][0])
    spent = replayed(stage, make_spec(policy=TenLines(cost=1e9)))
    golden(spent[1][0])


@pytest.mark.slow
async def test_a_stopping_rule_that_fires_only_now_is_noticed(stage):
    """A decision where the policy would now end the campaign is a difference, the ones before it are none."""
    await stage.run(make_spec(max_trials=3))
    answer = "now finds that the policy's stopping rule fires: no trial is worth 0.5"
    assert replayed(stage, make_spec(policy=SoonContent())) == {1: (), 2: (), 3: (answer,)}


async def test_another_history_is_noticed(stage, golden):
    """A decision made on another number of trials than the journal has before it is not taken for the same."""
    spec = make_spec(max_trials=2)
    await stage.run(spec)
    with sqlite3.connect(stage.state / "journal.sqlite") as file:
        file.execute("UPDATE trials SET history_length = 0 WHERE trial = 2")
    file.close()
    found = replayed(stage, spec)
    assert [trial for trial, differs in found.items() if differs] == [2]
    golden(found[2])
