"""The policy page is true, and what breaks a promise is found."""

import importlib
import re
import sys
import threading
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from rigctl import History, PolicyError, Problem, Proposal
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.money import to_micros
from rigctl.core.policies.check import _problem, check_policy
from rigctl.core.policies.random_search import RandomSearch
from rigctl.policies import BudgetSpent, policy_class, policy_names
from tests.core.conftest import make_history, make_space
from tests.profiles import nightly_beyond

PAGE = Path(__file__).parents[2] / "docs" / "write-a-policy.md"


def block(label: str) -> str:
    found = re.search(rf"<!-- {label} -->\n```\w+\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, label
    return found[1]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    project = tomllib.loads(block("entry point"))["project"]
    (tmp_path / "rigctl_greedy.py").write_text(block("policy"))
    info = tmp_path / f"rigctl_greedy-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["rigctl.policies"]
    (info / "entry_points.txt").write_text("[rigctl.policies]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("rigctl_greedy", None)


@pytest.mark.slow
def test_the_example_policy_is_found_and_passes_its_own_test(installed):
    """The policy on the page is found by its entry point, and the page's test passes."""
    found = policy_class("epsilon-greedy")
    namespace = {}
    exec(compile(block("test"), "write-a-policy.md", "exec"), namespace)  # noqa: S102
    assert namespace["EpsilonGreedy"] is found
    namespace["test_the_policy_keeps_every_promise"]()


def test_the_example_policy_can_be_chosen_in_a_configuration(installed, tmp_path):
    """A rig's configuration with the page's policy line loads, options and all."""
    from rigctl.config.load import Overrides, load

    text = (PAGE.parents[1] / "config" / "greenhouse.yaml").read_text(encoding="utf-8")
    line = block("configuration")
    changed, count = re.subn(r"^policy:.*\n(?:[ ]+.*\n)*", line, text, flags=re.MULTILINE)
    assert count == 1
    (tmp_path / "rig.yaml").write_text(changed)
    loaded = load(tmp_path / "rig.yaml", Overrides())
    assert loaded.policy_name == "epsilon-greedy"
    assert loaded.policy_options == {"curiosity": 0.1}


@pytest.mark.parametrize("curiosity", [0.0, 1.0])
def test_the_example_policy_prices_the_setting_it_proposes(installed, curiosity):
    """Where costs depend on the setting: as the cost field says of that setting, and within what is left."""
    controlled, rng = [[0], [1], [0, 1]], np.random.default_rng(2)
    rows = [(t % 3, x, 1 - (x[0] - 0.9) ** 2 - (x[1] - 0.8) ** 2) for t, x in enumerate(rng.random((24, 2)))]
    history = make_history([(i, x, y, float(0.5 + x[controlled[i]].sum())) for i, x, y in rows])
    problem = Problem(make_space(), history.spent + to_micros(2.0), cost_model="per-setting")
    policy = policy_class("epsilon-greedy")(curiosity=curiosity)
    proposal, _ = next_proposal(policy, None, problem, history, trial_rng(0, 25))
    believed = cost_field(problem, history)
    priced = believed.upper(proposal.control_set, np.array([proposal.setting]))[0]
    assert proposal.predicted_cost == pytest.approx(priced, abs=1e-6)
    assert proposal.predicted_cost <= 2.0
    ends = believed.upper(proposal.control_set, np.array([[0.0], [1.0]]) * np.ones(len(proposal.setting)))
    assert ends[1] > 1.3 * ends[0]  # another setting of the set would have another price


OURS = ("explore-then-commit", "likely-maximisers", "random")
OTHERS = sorted(set(policy_names()) - set(OURS))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OURS, *nightly_beyond(0, OTHERS)])
def test_every_installed_policy_keeps_every_promise(name):
    """With its default options, on campaigns of as many outcomes as it needs."""
    options = {"order": ("a", "b")} if name == "ca-mobo" else {}
    report = check_policy(policy_class(name)(**options), outcomes=2 if name in ("ca-mobo", "mo-ucb") else 1)
    assert report.policy == name
    assert report.trials > 10


@dataclass(frozen=True)
class Broken:
    """Plays one point for ever, and breaks one promise."""

    name = "broken"
    breaks: str = ""
    asked: list = field(default_factory=list)

    def initial_state(self, problem):
        return {"x": {1, 2}} if self.breaks == "initial" else {"n": 0}

    def propose(self, state, problem, history, rng):
        if self.breaks != "budget" and problem.budget - history.spent < 2_000_000:
            raise BudgetSpent("spent")
        if self.breaks == "state":
            state["n"] += 1
        setting = (float(rng.random()), 2.0 if self.breaks == "range" else 0.5)
        if self.breaks == "memory":
            self.asked.append(1)
            setting = (1.0 / len(self.asked), 0.5)
        proposal = Proposal(len(history) + 1, self.name, "only", 2, setting, "it is what I do")
        if self.breaks == "reason":
            proposal = replace(proposal, reason="")
        if self.breaks == "trial":
            proposal = replace(proposal, trial=0)
        kept = {"x": np.float32(1)} if self.breaks == "json" else {"x": float("nan")} if self.breaks == "nan" else {}
        return proposal, {"n": 0, **kept}


def test_a_policy_that_breaks_nothing_passes():
    """The policy of these tests is itself sound."""
    assert check_policy(Broken()).ended == ("spent", "spent")


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        ("initial", "not JSON"),
        ("json", "not JSON"),
        ("nan", "not JSON"),
        ("state", "has changed"),
        ("memory", "answers differently"),
        ("range", "on the unit cube"),
        ("reason", "no reason"),
        ("trial", "called trial 0"),
        ("budget", "more than is left"),
    ],
)
def test_a_broken_promise_is_named(breaks, says):
    """The error says which promise, and of which policy."""
    with pytest.raises(PolicyError, match=f"(?s)broken.*{says}"):
        check_policy(Broken(breaks))


def test_a_policy_that_cannot_go_to_another_process_is_refused(golden):
    """It is named with the remedy; one that is no frozen dataclass could change between two decisions."""
    with golden.raises(PolicyError):
        check_policy(Broken(asked=threading.Lock()))

    class Loose(Broken):
        pass

    @dataclass
    class Thawed:
        name = "thawed"

    with golden.raises(PolicyError):
        check_policy(Thawed())


def proposals(problem, history=None, count=300):
    known = history or History()
    return [RandomSearch().propose({}, problem, known, trial_rng(seed, 1))[0] for seed in range(count)]


def test_control_sets_and_settings_are_as_likely_as_any_other():
    """A hundred of each of three sets, give or take four standard deviations, evenly set; only those that still fit."""
    problem = replace(_problem(maximise=True, outcomes=1), budget=to_micros(1000))
    played = proposals(problem)
    counts = np.bincount([p.control_set for p in played], minlength=len(problem.space.control_sets))
    assert len(counts) == 3
    assert np.abs(counts - 100).max() < 4 * np.sqrt(300 * 2 / 9)
    settings = np.sort([u for p in played for u in p.setting])
    assert np.abs(settings - np.linspace(0, 1, len(settings))).max() < 0.1
    problem = replace(_problem(maximise=True, outcomes=1), known_costs=(1.0, 5.0, 9.0), budget=to_micros(6))
    assert {p.control_set for p in proposals(problem)} == {0, 1}
    with pytest.raises(BudgetSpent):
        proposals(replace(problem, budget=to_micros(0.5)), count=1)
