"""Policies of others that do not work, met at the command line."""

import math
import sys

import pytest

from tests.bench.players import RAISES, install_plugin, install_policy
from tests.console.conftest import BENCH


def use(bench, monkeypatch, name, install, *source):
    """The bench by hand with that plug-in's policy."""
    install(bench.folder, *source)
    monkeypatch.syspath_prepend(bench.folder)
    monkeypatch.delitem(sys.modules, f"{name}_policy", raising=False)
    bench.write("other.yaml", BENCH.replace("{name: explore-then-commit, tolerance: 0.05}", f"{{name: {name}}}"))


@pytest.mark.parametrize(
    ("control_set", "setting"),
    [("0", '(float("nan"),)'), ("0", "(2.0,)"), ("99", "(0.5,)"), ("0", "(0.5, 0.5)")],
    ids=["NaN", "out of range", "no such set", "wrong length"],
)
def test_what_cannot_be_played_is_not_suggested(bench, monkeypatch, control_set, setting, golden):
    """As in a running campaign: something safe instead, and the reason says so."""
    proposes = f'return Proposal(1, "wrong", "p", {control_set}, {setting}, "because"), {{}}'
    use(bench, monkeypatch, "wrong", install_policy, "wrong", proposes)
    answer = bench.rigctl("suggest", "other.yaml", "--json").json
    assert "PolicyError" in answer["technical"]
    golden(answer["reason"])
    assert all(math.isfinite(v) for v in answer["setpoints"].values())
    assert answer["control_set"] == list(answer["setpoints"])


def test_a_policy_that_raises_does_not_keep_anyone_from_the_next_trial(bench, monkeypatch, golden):
    """The error is told, no traceback."""
    use(bench, monkeypatch, "raises", install_policy, "raises", RAISES)
    answer = bench.rigctl("suggest", "other.yaml", "--json").json
    assert answer["control_set"] == list(answer["setpoints"])
    golden(answer["technical"])


@pytest.mark.parametrize(
    ("source", "told"),
    [("import not_there", "No module named 'not_there'"), ("", "has no attribute"), ("class Odd: pass", "a dataclass")],
    ids=["import", "attribute", "no dataclass"],
)
def test_a_plug_in_that_cannot_be_loaded_is_named(bench, monkeypatch, source, told, golden):
    """Its entry point, what is wrong, and what to do; exit 2."""
    use(bench, monkeypatch, "odd", install_plugin, "odd_policy", source, "odd", "Odd")
    error = bench.rigctl("check", "other.yaml", code=2).err
    assert '"odd"' in error
    assert told in error
    golden(error)
