"""What advice learned of a journal's trials, kept beside it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rigctl.campaign.learned import FILE_NAME, remembering
from rigctl.codec import plain
from rigctl.core.advice import recommend
from rigctl.core.advice.recommend import recommend_again
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.model import fit_known
from rigctl.core.gp.priors import LogPosterior


@pytest.fixture
def problem():
    variables = tuple(Variable(name, "mM", 0.0, 10.0, Uniform()) for name in "ba")
    return Problem(Space.of(variables, [["b"], ["b", "a"]]), 10**8, model=ModelOptions(hyperparameters="learned"))


def rows(n=20):
    points = np.random.default_rng(2).random((n, 2))
    return [Observation(t, 1, tuple(x), float(np.sin(5 * x[0]) + x[1]), 1) for t, x in enumerate(points, start=1)]


@pytest.fixture
def fits(monkeypatch):
    """How many outcomes hyper-parameters were learned from, each time they were."""
    counted, of = [], LogPosterior.of

    def counting(x, *rest, **options):
        counted.append(len(x))
        return of(x, *rest, **options)

    monkeypatch.setattr(LogPosterior, "of", counting)
    return counted


def asked(directory, problem, observations=None):
    """Another process asks: it has read the journal, and nothing else."""
    history = History.of(rows() if observations is None else observations)
    with remembering(directory, history):
        return fit_known(problem, history, None).posterior


def test_whoever_asks_again_gets_the_same_and_nothing_is_learned(tmp_path, problem, fits):
    """The posterior of another process is the same to the bit."""
    first = asked(tmp_path, problem)
    assert fits
    fits.clear()
    again = asked(tmp_path, problem)
    assert not fits
    assert again.hyperparameters == first.hyperparameters
    assert (again.L.tobytes(), again.alpha.tobytes()) == (first.L.tobytes(), first.alpha.tobytes())
    assert (again.left_out, again.notes) == (first.left_out, first.notes)


def test_an_outcome_that_is_left_out_is_left_out_again(tmp_path, problem, fits):
    """Which outcomes are doubted is part of what was learned."""
    false = [replace(o, y=90.0) if o.trial == 7 else o for o in rows()]
    first = asked(tmp_path, problem, false)
    assert first.left_out == (6,)
    fits.clear()
    again = asked(tmp_path, problem, false)
    assert not fits
    assert (again.left_out, again.alpha.tobytes()) == (first.left_out, first.alpha.tobytes())


@pytest.mark.parametrize("other", ["trial", "correction", "order", "model"])
def test_what_was_learned_of_anything_else_does_not_count(tmp_path, problem, fits, other):
    """One trial more, one amended, two swapped, or another model: it is learned anew."""
    asked(tmp_path, problem)
    fits.clear()
    then = rows(21 if other == "trial" else 20)
    if other == "correction":
        then[3] = replace(then[3], y=then[3].y + 1e-12)
    elif other == "order":
        then[3], then[4] = replace(then[3], y=then[4].y), replace(then[4], y=then[3].y)
    elif other == "model":
        problem = replace(problem, model=replace(problem.model, prior="gamma"))
    found = asked(tmp_path, problem, then)
    assert fits
    fits.clear()
    assert found.hyperparameters == fit_known(problem, History.of(then), None).hyperparameters


@pytest.mark.slow
def test_advice_is_given_again_until_anything_else_is_asked(tmp_path, problem, monkeypatch):
    """With its rule, to the bit, and nothing is worked out; another tolerance, or trial, has its own answer."""
    worked_out, work_out = [], recommend.recommend

    def counting(*given, **asked):
        worked_out.append(asked)
        return work_out(*given, **asked)

    monkeypatch.setattr(recommend, "recommend", counting)
    problem = replace(problem, looks=True)
    looked = [replace(o, look=Look(o.x, (0.01, 0.01))) for o in rows()]

    def advice(observations=looked, tolerance=0.05):
        history = History.of(observations)
        with remembering(tmp_path, history):
            return recommend_again(problem, history, np.random.default_rng(1), tolerance=tolerance, state=None)

    first = advice()
    assert first.rule is not None
    assert json.dumps(plain(advice())) == json.dumps(plain(first)), "names too are in the order of the variables"
    assert len(worked_out) == 1
    assert advice(tolerance=0.2).tolerance == 0.2
    advice(looked[:-1])
    assert len(worked_out) == 3


@pytest.mark.parametrize("harm", ["changed", "cut", "list", "other code", "others may write"])
def test_a_file_that_is_not_as_it_was_written_does_not_count(tmp_path, problem, fits, harm):
    """It is as if there were none, and the next answer writes it anew."""
    first, file = asked(tmp_path, problem), tmp_path / FILE_NAME
    text, stored = file.read_text(), json.loads(file.read_text())
    if harm == "changed":
        stored["found"]["learned"]["hyperparameters"]["noise_sd"] *= 2
        text = json.dumps(stored, indent=1)
    elif harm == "other code":
        stored["code"]["core"] = "00000000"
        text = json.dumps(stored, indent=1)
    file.write_text({"cut": text[: len(text) // 2], "list": "[1]"}.get(harm, text))
    file.chmod(0o666 if harm == "others may write" else 0o600)
    fits.clear()
    assert asked(tmp_path, problem).hyperparameters == first.hyperparameters
    assert fits
    fits.clear()
    asked(tmp_path, problem)
    assert not fits, "it is written anew"


@pytest.mark.parametrize("where", ["nowhere", "missing", "a directory in its place"])
def test_where_it_cannot_be_kept_the_answer_is_the_same(tmp_path, problem, where):
    """No answer depends on whether a file can be written."""
    directory = {"nowhere": None, "missing": tmp_path / "gone"}.get(where, tmp_path)
    if where == "a directory in its place":
        (tmp_path / FILE_NAME).mkdir()
    assert asked(directory, problem).hyperparameters == fit_known(problem, History.of(rows()), None).hyperparameters
