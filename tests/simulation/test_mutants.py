"""Mutants are drawn by rule, the same for one seed, and one of them is found in the gate."""

import ast
import json
import random

import pytest

from tests.profiles import nightly_beyond
from tests.simulation.mutants import report, worker
from tests.simulation.mutants.__main__ import LEAST_SHARE, Player, copied, nearest, worth_a_look
from tests.simulation.mutants.drawing import MODULES, ROOT, _candidates, drawn, mutants
from tests.simulation.mutants.report import Played, equivalent, least_share, told
from tests.simulation.richer import RICHER
from tests.simulation.seed import rig_of
from tests.simulation.worlds import EXTRAS, PACES

FOUND = {
    "a lost dose booked as nothing": (
        "rigctl/rig/dosing.py",
        "Dispenser._unknown",
        "await self._doses.unknown(dose.id, max(dose.volume_ml, at_least_ml), why)",
        "pass",
    ),
    "no word of what is driven": (
        "rigctl/campaign/starts.py",
        "Word.leave",
        "await self._write(driven=True)",
        "pass",
    ),
}
"""Module, function, what is replaced and by what. (A read-back that is not asked for was not found within a minute.)"""
SECONDS = 60.0


def of(text):
    return mutants("rigctl/module.py", text)


@pytest.mark.slow
def test_a_seed_draws_the_same_mutants_and_a_longer_list_begins_as_a_shorter():
    """So a run can be resumed, and a part of it is a sample of the whole."""
    ten = drawn(1, 10)
    assert drawn(1, 20)[:10] == ten
    assert drawn(2, 10) != ten


def test_every_operator_makes_its_mutants():
    """One function with a place for each of them."""
    begin = "async def f(a, b):\n    x = a\n    if a < 1:\n"
    text = f"{begin}        x += g(a, b)\n        await h(b)\n    return await h(x)\n"
    found = {(m.operator, m.was, m.now) for m in of(text)}
    assert {
        ("comparison", "a < 1", "(a >= 1)"),
        ("boundary", "a < 1", "(a <= 1)"),
        ("constant", "1", "(2)"),
        ("constant", "1", "(0)"),
        ("dropped statement", "x += g(a, b)", "pass"),
        ("swapped arguments", "g(a, b)", "g(b, a)"),
        ("removed await", "await h(b)", "h(b)"),
        ("removed await (its value used)", "await h(x)", "(h(x))"),
        ("skipped branch", "a < 1", "False"),
        ("skipped branch", "a < 1", "True"),
    } <= found


def test_no_two_mutants_have_one_name():
    """What came of one, and its excuse, would be taken for the other's."""
    names = [mutant.name for mutant in of("def f(a):\n    g(a, 7)\n    h(a, 7)\n    return a > 7\n")]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.endswith("7 -> (8) (place 3)")]


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """Say 1 < 2."""\n',
        "def f(a):\n    return f'{a:.1f} of {a + 1}'\n",
        "def f(log):\n    log.warning('so', 1)\n",
        "from x import y\n",
        "@decorated(1)\ndef f(a: Literal[1]) -> Literal[2]: ...\n",
        "class P(Protocol):\n    def f(self, a=1): ...\n",
        "def f():\n    only = g()\n",
    ],
)
def test_what_nobody_could_tell_from_the_program_is_not_drawn(text):
    """Words, logs, types, imports, and a statement without which a name would not be there."""
    assert of(text) == []


@pytest.mark.slow
def test_each_mutant_is_a_program_with_one_change():
    """It can be compiled, and differs from the module in the place that it names."""
    for mutant in drawn(3, 40):
        text = (ROOT / mutant.module).read_text(encoding="utf-8")
        changed = mutant.applied(text)
        assert changed != text
        ast.parse(changed)
        assert len(changed.encode()) - len(text.encode()) == len(mutant.now.encode()) - len(mutant.was.encode())


def test_the_lines_of_few_seeds_are_looked_at_and_they_show_every_rig():
    """With everything that a rig may have besides; more seeds would mostly show the same again."""
    seeds = worth_a_look()
    rigs = [rig_of(seed, random.Random(f"{seed} world")) for seed in seeds]
    assert len(seeds) <= 20
    assert {(scenario, extra) for scenario, _, extras in rigs for extra in extras} == {
        (scenario, extra) for extra, scenarios in {**EXTRAS, **RICHER}.items() for scenario in scenarios
    }
    assert {pace for _, pace, _ in rigs} == set(PACES)


def test_every_module_has_nearest_tests_that_are_there():
    """A name that has gone would be a test that fails for every mutant."""
    named = nearest()
    assert set(MODULES) <= set(named)
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert [name for names in named.values() for name in names if not (ROOT / "tests" / name).is_file()] == []


@pytest.mark.slow
def test_every_mutant_that_is_excused_can_be_drawn():
    """An entry whose line has changed excuses nothing any more."""
    modules = {name.partition(":")[0] for name in equivalent()}
    texts = {module: (ROOT / module).read_text(encoding="utf-8") for module in modules}
    there = {mutant.name for module, text in texts.items() for mutant in _candidates(module, text)}
    assert [name for name in equivalent() if name not in there] == []


@pytest.mark.parametrize(
    ("killed", "alive", "excused", "share"), [(19, 1, 0, 0.95), (18, 1, 0, 18 / 19), (1, 1, 1, 1.0), (0, 0, 0, 1.0)]
)
def test_a_module_is_judged_by_what_can_be_found(monkeypatch, killed, alive, excused, share):
    """A mutant that makes no difference is not counted; the rest that nobody found is named."""
    drawn_ones = of("def f(a):\n    return [" + ", ".join(map(str, range(2, 22))) + "]\n")[: killed + alive]
    last = [mutant.name for mutant in drawn_ones[killed:]]
    monkeypatch.setattr(report, "equivalent", lambda: dict.fromkeys(last[:excused], "no difference"))
    played = Played(
        {"mutant": m.name, "part": "tests", "found": m.name not in last, "left": 0, "cpu_s": 1.0} for m in drawn_ones
    )
    assert least_share(drawn_ones, played, ["tests"]) == pytest.approx(share)
    assert (least_share(drawn_ones, played, ["tests"]) >= LEAST_SHARE) == (share >= 0.95)
    said = told(drawn_ones, played, ["tests"])
    assert f"{alive - excused} survivors:" in said
    assert all((name in said) == (not excused) for name in last)


def test_a_run_that_was_stopped_goes_on(tmp_path):
    """What was found, or has had its time, is not played again; more seconds go on where they ended."""
    kept = {"mutant": "m", "part": "simulation", "found": False, "cpu_s": 61.0, "left": 9}
    (tmp_path / "lines").write_text(json.dumps(kept) + "\n", encoding="utf-8")
    played = Played.read(tmp_path / "lines")
    assert [played.is_over("m", "simulation", s) for s in (60.0, 300.0)] == [True, False]
    assert (played.of("m", "simulation")["left"], played.is_over("m", "tests", 60.0)) == (9, False)
    played.add({**kept, "found": True})
    assert played.is_over("m", "simulation", 300.0)


@pytest.mark.slow
def test_tests_that_hang_have_found_a_mutant(tmp_path, monkeypatch):
    """In a teardown, too, which no limit of the test itself ends: a run is not held up by one mutant for ever."""
    (tmp_path / "tests").mkdir()
    text = "import pytest, time\n@pytest.fixture\ndef f():\n    yield\n    time.sleep(99)\ndef test(f):\n    assert 0\n"
    (tmp_path / "tests" / "test_hangs.py").write_text(text)
    monkeypatch.setattr(worker, "HANG_S", 3.0)
    monkeypatch.setattr(worker.Worker, "__init__", lambda self: setattr(self, "_copy", tmp_path))
    found = worker.Worker()._tested(["test_hangs.py"])
    assert (found["found"], found["shown"]) == (True, worker.DIED)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_beyond(1, FOUND))
def test_the_simulation_finds_a_mutant(name):
    """Within a minute of processor time, in a copy of the tree."""
    with copied() as copy:
        player = Player(copy)
        try:
            assert _found(player, *FOUND[name])
        finally:
            player.end()


def _found(player, module, function, was, now):
    text = (ROOT / module).read_text(encoding="utf-8")
    mutant = next(m for m in mutants(module, text) if (m.function, m.was, m.now) == (function, was, now))
    order = {"part": "simulation", "module": module, "original": text, "text": mutant.applied(text)}
    return player.ask(**order, seeds=list(range(1, 200)), seconds=SECONDS)["found"]
