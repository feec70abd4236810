"""The public face: what `import rigctl` gives, and the page that shows it."""

from __future__ import annotations

import ast
import csv
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import rigctl
from rigctl.console.demo import DemoRig, simulator
from rigctl.core.policies.published.ca_mobo import CaMobo
from rigctl.errors import UsageError
from tests.fixtures import FINISHED, unpacked
from tests.golden import Golden
from tests.system.stack import greenhouse

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What every block of the page has left behind, run in order beside the project's configurations."""
    names = {}
    here = tmp_path_factory.mktemp("notebook")
    (here / "config").symlink_to(ROOT / "config")
    blocks = re.findall(r"<!-- ([\w ]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    expected = "next trial, tell, categories, save, look, play, configuration, read"
    assert ", ".join(label for label, _ in blocks) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for label, code in blocks:
            exec(compile(code, f"docs/python.md ({label})", "exec"), names)  # noqa: S102
    return names


@pytest.mark.slow
def test_ten_lines_lead_from_arrays_to_the_next_trial(page):
    """In engineering units, and without an import of anything private."""
    first = re.search(r"<!-- next trial -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1].strip().splitlines()
    assert len([line for line in first if line and not line.startswith("import")]) <= 10
    trial, experiment = page["trial"], page["experiment"]
    assert set(trial.setpoints) == set(trial.control_set)
    for variable in experiment.space.variables:
        if variable.name in trial.setpoints:
            assert variable.low <= trial.setpoints[variable.name] <= variable.high
    assert set(re.findall(r"^\s*(?:import|from) (\w+)", PAGE, re.MULTILINE)) == {"numpy", "rigctl", "pandas"}


@pytest.mark.slow
def test_categories_are_words_and_limits_are_kept(page):
    """Of three nozzles the best has too much nitrate."""
    found = page["sprayed"].recommend().choice
    assert found.setpoints["nozzle"] in ("fine", "cone")
    assert page["sprayed"].suggest().setpoints["nozzle"] in ("fine", "flat", "cone")


@pytest.mark.slow
def test_what_was_told_is_in_the_table_and_counts(page):
    """Eleven trials, the last the one that was suggested; and money adds up."""
    table, experiment = page["experiment"].table(), page["experiment"]
    assert table["trial"] == list(range(1, 12))
    assert table["outcome"][-1] == 291.0
    assert table["ph"][:10] == pytest.approx(page["past"][:, 0].tolist())
    assert experiment.spent == pytest.approx(4.0) == sum(table["cost"])


@pytest.mark.slow
def test_what_was_read_before_a_trial_counts_when_it_has_persisted(page):
    """The air has kept all it read; of pH five trials that left it alone are too few, and EC was not read."""
    ph, ec, air = page["chosen"].proposal.read
    assert (ph.value, ph.rho, ph.pairs) == (pytest.approx(6.3), 0.0, 5)
    assert (ec.value, ec.pairs) == (None, 0)
    assert air.rho > 0.9
    assert air.mean == pytest.approx(24.1, abs=0.2)


@pytest.mark.slow
def test_the_recommendation_is_good(page):
    """On the page's function, whose best is 300 at pH 6 and EC 2.2, from eleven trials and from played ones."""
    assert page["found"].choice.expected > 250
    assert page["best"].choice.control_set
    assert len(page["played"].decisions) == 6


def test_a_suggestion_stays_until_something_is_told():
    """Asked twice the answer is the same; after a trial it is another."""
    variables = [rigctl.variable("a", 0, 10, natural=(5, 1)), rigctl.variable("b", 0, 1, natural=[0.2, 0.4, 0.6])]
    experiment = rigctl.Experiment.of(variables, [["a"], ["a", "b"]], budget=10, seed=3)
    first = experiment.suggest()
    assert experiment.suggest() == first
    experiment.tell("+".join(first.control_set), [5.0, 0.3], 1.0, 0.5, suggestion=first)
    assert experiment.suggest().trial == 2
    assert experiment.state == first.state


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((["a"], [[1.0, 2.0]], [1.0, 2.0], [1.0]), "x must be"),
        (("c", [1.0, 0.5], 1.0, 1.0), "allowed: a, a\\+b"),
        (("a", [float("nan"), 0.5], 1.0, 1.0), "finite"),
        (("a", [1.0, 0.5], 1.0, -1.0), "negative"),
        (("a", {"a": 1.0, "b": 0.5}, 1.0, 1.0), "tell: x: got {a: 1, b: 0.5}, must be numbers"),
        (("a", [1.0, 0.5], "12 cm", 1.0), 'tell: y: got "12 cm", must be numbers'),
    ],
)
def test_what_does_not_fit_is_refused_whole(given, said):
    """With what was got and what is allowed; nothing is added."""
    variables = [rigctl.variable("a", 0, 10), rigctl.variable("b", 0, 1)]
    experiment = rigctl.Experiment.of(variables, [["a"], ["a", "b"]], budget=10)
    with pytest.raises(rigctl.UsageError, match=said):
        experiment.tell(*given)
    assert len(experiment.history) == 0


@pytest.mark.slow
def test_what_is_no_number_or_share_is_refused_with_what_must_be(page, golden: Golden):
    """Where it was said; a tolerance of 5 would have every setting good enough."""
    experiment, yield_of = page["experiment"], page["yield_of"]
    for budget in (-1, float("nan"), "40 EUR"):
        with pytest.raises(rigctl.UsageError) as refused:
            rigctl.Experiment.of(page["variables"], [["ph"]], budget=budget)
        golden(refused.value)
    with pytest.raises(rigctl.UsageError) as refused_2:
        experiment.suggest(look={"ph": "acid"})
    golden(refused_2.value)
    for tolerance in (5, -0.5, "5 %"):
        with pytest.raises(rigctl.UsageError) as refused_3:
            experiment.recommend(tolerance=tolerance)
        golden(refused_3.value)
    with pytest.raises(rigctl.UsageError) as refused_4:
        experiment.play(yield_of, {"ph": 0.4, "ph+ec": 0.8}, most=1)
    golden(refused_4.value)


@pytest.mark.slow
def test_a_trial_whose_outcome_is_no_number_has_failed_in_a_play_too(page):
    """As for `tell`: it costs, and the next one is decided."""
    played = page["experiment"].play(lambda _: float("nan"), lambda _: 0.5, most=3)
    assert [(o.y, o.cost) for o in played.history.observations] == [(None, 500_000)] * 3


def test_every_name_is_documented_on_the_page_and_has_a_docstring():
    """What is on the face is on the page, and the other way round; type checkers see the same names."""
    top, more = PAGE[PAGE.index("## The names") :].split("## The names of `rigctl.policies`")
    listed = set(re.findall(r"`(\w+)`", top))
    assert listed == set(rigctl.__all__) - {"__version__"}
    assert set(re.findall(r"`(\w+)`", more)) == set(rigctl.policies.__all__)
    source = ast.parse((ROOT / "rigctl" / "__init__.py").read_text(encoding="utf-8"))
    checked = {a.asname for node in ast.walk(source) if isinstance(node, ast.ImportFrom) for a in node.names}
    assert checked >= listed
    for module, names in ((rigctl, listed), (rigctl.policies, rigctl.policies.__all__)):
        for name in names:
            assert (getattr(module, name).__doc__ or "").strip(), name
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", rigctl.__version__)


def test_an_unknown_name_says_what_there_is(golden: Golden):
    """As the modules of the standard library do, and with the list."""
    with pytest.raises(AttributeError) as refused:
        _ = rigctl.sugest
    golden(refused.value)


def test_importing_the_face_imports_nothing_else():
    """The program catches signals before anything is imported that takes time."""
    code = "import sys, rigctl; print([m for m in sys.modules if m.startswith('rigctl.') or m == 'numpy'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_campaign_on_disk_is_read_as_columns(tmp_path, golden: Golden):
    """One that is kept: every column of its exported trials, in order; an unknown kind is refused."""
    trials = rigctl.read(unpacked(FINISHED, tmp_path))
    with (FINISHED / "trials.csv").open(encoding="utf-8", newline="") as stream:
        then = list(csv.DictReader(stream))
    assert list(trials)[: len(then[0])] == list(then[0])
    assert trials["trial"] == [int(row["trial"]) for row in then]
    assert [str(cost) for cost in trials["cost"]] == [row["cost"] for row in then]
    assert sum(rigctl.read(tmp_path, "ledger")["amount"]) >= sum(trials["cost"])
    with pytest.raises(rigctl.UsageError) as refused:
        rigctl.read(tmp_path, "trails")
    golden(refused.value)
    with pytest.raises(rigctl.UsageError):
        rigctl.read(tmp_path / "nowhere")


@pytest.mark.system
def test_a_campaign_is_run_from_python(tmp_path):
    """On a simulated rig over the real protocols: two trials, everything safe, and what they cost can be read."""
    (tmp_path / "sim").mkdir()
    with simulator(DemoRig("greenhouse", 2400.0, 1), tmp_path / "sim") as buses:
        done = rigctl.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state", buses=buses, max_trials=2)
    assert (done.result.trials, done.exit_code, done.result.safe.ok) == (2, 0, True)
    assert rigctl.read(tmp_path / "state")["state"] == ["RECORDED", "RECORDED"]


def test_what_cannot_be_run_is_refused_before_anything_moves(tmp_path, golden: Golden):
    """With file, line and key, as on the command line."""
    bad = tmp_path / "bad.yaml"
    bad.write_text("rig: x\ntrail: {}\n")
    with pytest.raises(rigctl.ConfigError) as refused:
        rigctl.run(bad, tmp_path / "state")
    golden(refused.value)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("many", [False, True])
def test_a_suggestion_is_told_by_its_own_names(many):
    """`tell` takes the control set as `suggest` returned it, of one trial and in a list of several."""
    variables = [rigctl.variable("a", 0, 10, natural=(5, 1)), rigctl.variable("b", 0, 1, natural=[0.2, 0.4, 0.6])]
    experiment = rigctl.Experiment.of(variables, [["b", "a"]], budget=10)
    names = experiment.suggest().control_set
    assert names == ("a", "b")
    x, y, cost = [5.0, 0.3], 1.0, 0.5
    if many:
        experiment.tell([names, "b+a", ["b", "a"]], [x] * 3, [y] * 3, [cost] * 3)
    else:
        experiment.tell(names, x, y, cost)
    assert experiment.table()["control_set"] == ["a+b"] * (3 if many else 1)
    with pytest.raises(UsageError):
        experiment.tell(names, [x, x], [y, y], [cost, cost])  # two trials: of a alone, and of b alone


def everything_told(policy):
    """An experiment with every kind of marginal, steps, a reading, a failed trial and what the policy remembers."""
    variables = [
        rigctl.variable("a", 0, 10, natural=(5, 1)),
        rigctl.variable("b", 0, 1, natural=[0.2, 0.4, 0.6]),
        rigctl.variable("c", 0, 4, step=1, natural_range=(-1, 3)),
        rigctl.variable("d", 0, 1, natural=(5, 0.3), natural_range=(4, 6)),
    ]
    experiment = rigctl.Experiment.of(variables, [["a"], ["a", "b"], ["c", "d"]], budget=10, policy=policy, seed=3)
    experiment.problem = replace(experiment.problem, unavailable={2: "the pump is away"})
    experiment.tell("a", [5.0, 0.3, 1.0, 5.0], 1 / 3, 0.5, suggestion=experiment.suggest(look={"a": (5.0, 0.1)}))
    experiment.tell("c+d", [5.0, 0.3, 1.0, 0.5], float("nan"), 0.1)
    return experiment


@pytest.mark.parametrize("policy", sorted(set(rigctl.policies.policy_names()) - {"ca-mobo", "mo-ucb"}))
def test_a_loaded_experiment_decides_as_the_saved_one(policy, tmp_path):
    """All that was told and remembered survives exactly, whatever the policy, and so does the next suggestion."""
    told = everything_told(policy)
    told.save(tmp_path / "told.json")
    loaded = rigctl.Experiment.load(tmp_path / "told.json")
    assert loaded == told
    assert loaded.suggest() == told.suggest()


def test_an_experiment_whose_policy_is_not_installed_is_loaded_with_one_given(tmp_path):
    """Alone it is refused by the policy's name."""
    told = everything_told("value-per-cost")
    told.policy = CaMobo(order=("a",))
    told.save(tmp_path / "told.json")
    assert rigctl.Experiment.load(tmp_path / "told.json").policy == told.policy
    path = tmp_path / "told.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"ca-mobo"', '"my-own"'), encoding="utf-8")
    with pytest.raises(rigctl.UnknownPlugin):
        rigctl.Experiment.load(path)
    assert rigctl.Experiment.load(path, policy=told.policy) == told


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[]",
        lambda text: text.replace('"rigctl_experiment": 1', '"rigctl_experiment": 2'),
        lambda text: text.replace('"kind": "Uniform"', '"kind": "Unusual"'),
        lambda text: text.replace('"low"', '"lowest"'),
        lambda text: text.replace('"high": 10', '"high": -10'),
        lambda text: text.replace('"control_set": 2', '"control_set": 3'),
        lambda text: text.replace('"trials"', '"trails"'),
    ],
)
def test_a_file_that_holds_no_whole_experiment_is_refused_by_name(damage, tmp_path):
    """Damaged, of another version, or not there: one kind of error, with the file."""
    path = tmp_path / "told.json"
    everything_told("value-per-cost").save(path)
    text = path.read_text(encoding="utf-8")
    assert damage(text) != text
    path.write_text(damage(text), encoding="utf-8")
    for wrong in (path, tmp_path / "nowhere.json"):
        with pytest.raises(rigctl.ExperimentFileError) as refused:
            rigctl.Experiment.load(wrong)
        assert refused.value.file == str(wrong)


def test_an_experiment_that_cannot_be_saved_leaves_the_file_that_was_there(tmp_path):
    """A marginal of one's own is code."""
    told, path = everything_told("value-per-cost"), tmp_path / "told.json"
    told.save(path)
    before = path.read_bytes()
    odd = [replace(v, marginal=object()) for v in told.space.variables]
    told.problem = replace(told.problem, space=replace(told.space, variables=tuple(odd)))
    for where in (path, tmp_path / "no" / "directory.json"):
        with pytest.raises(rigctl.ExperimentFileError):
            told.save(where)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("policy", ["ca-mobo", "mo-ucb", CaMobo(order=("a",)), CaMobo(order=("c",))])
def test_a_policy_that_lacks_what_it_needs_is_refused_with_its_name(policy):
    """At once, whether an option is missing or the experiment has one outcome where it weighs several."""
    variables = [rigctl.variable("a", 0, 10, natural=(5, 1))]
    with pytest.raises(UsageError) as refused:
        rigctl.Experiment.of(variables, [["a"]], budget=10, policy=policy)
    name, lacks = (policy, "order") if policy == "ca-mobo" else (getattr(policy, "name", policy), "further_outcomes")
    assert name in str(refused.value)
    assert lacks in str(refused.value)
