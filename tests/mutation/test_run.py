"""The nightly run itself: what it counts, what it does not, and when it fails. It needs no mutants to be made."""

from __future__ import annotations

import ast

import pytest
import yaml

from tests.golden import Golden
from tests.mutation.run import HERE, ROOT, Mutant, Result, mutated_functions, report, undecorated

MADE = """
class Pump:
    def xǁPumpǁstart__mutmut_orig(self, volume):
        if volume > 1:
            raise ValueError("too much at once")
        return cast("Doser", self).go(volume, "off")

    def xǁPumpǁstart__mutmut_1(self, volume):
        if volume >= 1:
            raise ValueError("too much at once")
        return cast("Doser", self).go(volume, "off")

    def xǁPumpǁstart__mutmut_2(self, volume):
        if volume > 1:
            raise ValueError("XXtoo much at onceXX")
        return cast("Doser", self).go(volume, "off")

    def xǁPumpǁstart__mutmut_3(self, volume):
        if volume > 1:
            raise ValueError("too much at once")
        return cast(None, self).go(volume, "off")

    def xǁPumpǁstart__mutmut_4(self, volume):
        if volume > 1:
            raise ValueError("too much at once")
        return cast("Doser", self).go(volume, "OFF")

    def xǁPumpǁstart__mutmut_5(self, volume):
        if volume > 2:
            raise ValueError("too much at once")
        return cast("Doser", self).go(volume, "off")
"""
CODES = {f"rigctl.pump.xǁPumpǁstart__mutmut_{n}": code for n, code in enumerate((1, 0, 0, 0, 33), start=1)}
FIRST = Mutant("Pump.start", "if volume > 1:", "if volume >= 1:", killed=True)
VALUE = Mutant(
    "Pump.start",
    "return cast('Doser', self).go(volume, 'off')",
    "return cast('Doser', self).go(volume, 'OFF')",
    killed=False,
)
UNTESTED = Mutant("Pump.start", "if volume > 1:", "if volume > 2:", killed=False)


def entry(mutant):
    return {"function": mutant.function, "was": mutant.was, "now": mutant.now, "reason": "it makes no difference"}


def test_wording_and_types_are_not_counted_and_values_are():
    """A sentence and the first argument of `cast` may read as they like; a short string is a value."""
    assert list(mutated_functions(MADE, CODES)) == [FIRST, VALUE, UNTESTED]


@pytest.mark.parametrize("code", [1, 3, 24, 36, -24])
def test_a_failure_an_error_and_a_timeout_kill(code):
    """Passed by all, reached by none and not run do not."""
    codes = dict.fromkeys(CODES, code)
    assert all(mutant.killed for mutant in mutated_functions(MADE, codes))
    for alive in (0, 33, None):
        assert not any(mutant.killed for mutant in mutated_functions(MADE, dict.fromkeys(CODES, alive)))


@pytest.mark.parametrize(
    ("killed", "alive", "excused", "share", "well"),
    [(19, 1, 0, 0.95, True), (18, 1, 0, 18 / 19, False), (1, 1, 1, 1.0, True), (1, 0, 1, 1.0, False)],
)
def test_the_run_fails_below_95_per_cent_and_when_the_list_has_rotted(capsys, killed, alive, excused, share, well):
    """A mutant that cannot be killed is not counted; an entry without a surviving mutant is reported."""
    mutants = [FIRST] * killed + [VALUE] * alive
    result = Result("pump.py", mutants, [entry(VALUE)] * excused)
    assert result.share() == pytest.approx(share)
    assert report([result]) is well
    told = capsys.readouterr().out
    survived = alive * (not excused)
    assert f"| `pump.py` | {killed + alive} | {killed} | {alive * excused} | {survived} | {share:.1%} |" in told
    assert ("survived: pump.py: Pump.start" in told) == bool(survived)
    assert ("no such survivor" in told) == bool(excused and not alive)


def test_an_entry_is_found_however_its_lines_are_broken():
    """YAML may fold a line."""
    folded = entry(VALUE) | {"was": VALUE.was.replace(", ", ",\n  ")}
    assert Result("pump.py", [VALUE], [folded]).survivors() == []


def test_a_decorator_is_written_as_the_call_that_it_is(golden: Golden):
    """So that properties and context managers are mutated too; behaviour is the same."""
    source = "class A:\n    @property\n    def one(self):\n        return 1\n"
    golden(undecorated(source))
    scope = {}
    exec(undecorated(source), scope)  # noqa: S102 - what this test has written itself
    assert scope["A"]().one == 1


def test_every_module_and_test_of_the_map_exists():
    """Whoever moves a file moves it here too."""
    modules = yaml.safe_load((HERE / "modules.yaml").read_text(encoding="utf-8"))
    paths = [*modules, *(test for tests in modules.values() for test in tests)]
    assert len(modules) >= 7
    assert [path for path in paths if not (ROOT / path).is_file()] == []


def test_every_mutant_that_is_excused_changes_code_that_is_there():
    """Each entry has a reason, and its line stands in the module today."""
    for module, entries in yaml.safe_load((HERE / "equivalent.yaml").read_text(encoding="utf-8")).items():
        code = " ".join(ast.unparse(ast.parse((ROOT / module).read_text(encoding="utf-8"))).split())
        for e in entries:
            assert set(e) == {"function", "was", "now", "reason"}
            assert " ".join(e["was"].split()) in code, f"{module}: {e['function']}: {e['was']}"
            assert e["reason"]
