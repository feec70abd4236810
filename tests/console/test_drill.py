"""What a drill plays a fault on, and what it refuses, before anything is started."""

import json

import pytest
from typer.testing import CliRunner

from rigctl.codec import plain
from rigctl.config.load import load
from rigctl.console.cli import app
from rigctl.console.drills.daemon import CONFIG, Daemon, control_set, written
from rigctl.console.drills.drill import FAULTS, REPORT, Drilled, Struck, drill, shown, targets
from rigctl.errors import RigctlError, UsageError
from rigctl.rig.values import SafeTimes
from tests.console.conftest import ROOT

GREENHOUSE = ROOT / "config/greenhouse.yaml"


def unasked(moment, text):
    raise AssertionError(f"{moment}: {text}")


def test_every_fault_has_a_target_of_its_own(golden):
    """Of the greenhouse nothing but a broker is missing."""
    found = targets(load(GREENHOUSE))
    assert list(dict.fromkeys(f.name for f in FAULTS if not found[f.name])) == ["broker"]
    golden(found)


def test_it_drives_what_moves_no_pump():
    """Doses take time, and use up caps."""
    assert control_set(load(GREENHOUSE)) == ("b", "nh4", "k")


def test_its_configuration_differs_in_its_trials_alone(tmp_path):
    """Devices, limits, interlocks and safe states are the owner's."""
    loaded = load(GREENHOUSE)
    short = written(loaded, tmp_path)
    kept = ("buses", "devices", "safety", "variables", "outcome", "meters", "dosing")
    assert {key: short.document.data[key] for key in kept} == {key: loaded.document.data[key] for key in kept}
    assert (short.rig.timing.settle_s, short.rig.timing.look) == (15.0, None)
    assert (tmp_path / CONFIG).exists()


@pytest.mark.parametrize(("only", "typed"), [(["fire"], ""), ([], ""), ([], "yes")])
def test_nothing_moves_before_the_person_has_said_so(tmp_path, only, typed, golden):
    """Nor for a fault that there is not."""
    with golden.raises(UsageError):
        drill(load(GREENHOUSE), tmp_path, only, lambda *_: typed, lambda _: None)
    assert not (tmp_path / "state").exists()


def test_a_bench_without_devices_has_nothing_to_drill(tmp_path):
    """Nothing is asked."""
    (tmp_path / "rig.yaml").write_text(
        "rig: bench\ncurrency: EUR\nbudget: 9 EUR\nvariables: {x: {unit: '1', range: [0, 1], natural: learned}}\n"
        "control_sets: all\noutcome: {name: y, unit: '1'}\nknown_costs: {x: 1 EUR}\n",
        encoding="utf-8",
    )
    with pytest.raises(UsageError):
        drill(load(tmp_path / "rig.yaml"), tmp_path, (), unasked, unasked)


def test_what_is_no_report_is_not_written_over(tmp_path):
    """It may be somebody's."""
    (tmp_path / REPORT).write_text('{"rig": 3}', encoding="utf-8")
    with pytest.raises(UsageError):
        drill(load(GREENHOUSE), tmp_path, (), unasked, lambda _: None)
    assert json.loads((tmp_path / REPORT).read_text()) == {"rig": 3}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_came_of_it_fits_the_terminal(width, golden):
    """The table loses a column rather than its lines."""
    faults = {
        "kill": Struck("held", "b_valve and k_valve", "", 0.0, 3.49, 1.33),
        "second": Struck("held", "b_valve and k_valve", "driven by another", 9.84),
        "silent": Struck("failed", "modbus_tcp://10.0.0.7:502", "not confirmed", 10.3, 17.3, 7.0, ("b_valve",)),
        "broker": Struck("absent"),
    }
    done = Drilled("greenhouse", SafeTimes(1.1, 2.5), faults)
    said = list(shown(done, ROOT / REPORT, width))
    assert all(len(line) <= width for line in said[:-1])
    golden(said)
    assert done.exit_code == 1


class Deaf:
    """Stands in for a campaign that drives the rig, and that nobody can get safe."""

    def drive(self, within_s):
        return None

    def end(self, tell):
        return False


@pytest.mark.slow
def test_what_is_skipped_leaves_what_was_known_and_what_is_not_safe_is_an_error(tmp_path, monkeypatch, golden):
    """Also where the person leaves the drill: nobody is told that everything is safe."""
    monkeypatch.setattr(Daemon, "started", lambda *_: Deaf())
    known = Drilled("greenhouse", SafeTimes(1.1, 2.5), {"stop": Struck("held", "b_valve", "", None, 0.6, 0.6)})
    (tmp_path / REPORT).write_text(json.dumps(plain(known)), encoding="utf-8")

    def person(moment, _):
        return "unpowered" if moment == "begin" else "s"

    with pytest.raises(RigctlError):
        drill(load(GREENHOUSE), tmp_path, ["stop"], person, lambda _: None)
    kept = json.loads((tmp_path / REPORT).read_text())["faults"]["stop"]
    golden((kept["result"], kept["why"]))
    monkeypatch.setattr(Deaf, "end", lambda *_: True)
    (tmp_path / REPORT).write_text(json.dumps(plain(known)), encoding="utf-8")
    assert drill(load(GREENHOUSE), tmp_path, ["stop"], person, lambda _: None).faults["stop"].result == "held"


@pytest.mark.slow
def test_the_end_of_the_input_ends_it(tmp_path):
    """As Ctrl-C does: nothing is started."""
    done = CliRunner().invoke(app, ["drill", str(GREENHOUSE), "--to", str(tmp_path)], input="")
    assert done.exit_code == 130
    assert not (tmp_path / "state").exists()
