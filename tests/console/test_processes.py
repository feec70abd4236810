"""The verbs as a person starts them: processes, signals, exit codes, a simulated rig over the real protocols."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rigctl.console.cli import app
from rigctl.console.demo import DemoRig, simulator
from tests.forked import Forked
from tests.system import stack
from tests.system.stack import WITHIN_S

CONFIG = Path(__file__).parent.parent.parent / "config/greenhouse.yaml"

pytestmark = pytest.mark.system


def rigctl(*arguments: str | Path, code: int = 0) -> Result:
    """A verb in this process: what is tested beside it runs in one of its own."""
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == code, found.output
    return found


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A rigctl that runs beside the test; killed if the test leaves it running."""
    command = [sys.executable, "-m", "rigctl", *map(str, arguments)]
    process = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """Lines of a process up to the first with these words."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"never said {words!r}: {''.join(lines)}")


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Path:
    """The greenhouse with a model that need not be learned."""
    return stack.greenhouse(tmp_path_factory.mktemp("config") / "greenhouse.yaml")


@pytest.fixture(scope="module")
def greenhouse(tmp_path_factory) -> Iterator[list[str]]:
    """A simulated greenhouse, as `--bus` options."""
    with simulator(DemoRig("greenhouse", 2400.0, 1), tmp_path_factory.mktemp("sim")) as buses:
        yield [part for name, url in buses.items() for part in ("--bus", f"{name}={url}")]


def test_a_running_campaign_answers_refuses_a_second_one_and_stops(greenhouse, known, tmp_path):
    """Status asks the process, a second run is refused with exit 4, stop ends it after the trial under way."""
    state = tmp_path / "state"
    with started("run", known, "--state", state, *greenhouse) as process:
        read_until(process, "trial 2 recorded")
        status = json.loads(rigctl("status", "--state", state, "--json").stdout)
        assert (status["running"], status["pid"]) == (True, process.pid)
        refused = rigctl("run", known, "--state", state, *greenhouse, code=4)
        assert str(process.pid) in refused.stderr
        assert "Traceback" not in refused.stderr
        rigctl("stop", "--state", state)
        output, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, output
    assert "(stopped)" in output
    assert "From now on" in output
    trials = json.loads(rigctl("status", "--state", state, "--json").stdout)["trials"]
    again = rigctl("run", known, "--state", state, *greenhouse, "--max-trials", str(trials + 1), "--json")
    resumed = json.loads(again.stdout)
    assert resumed["trials"] == trials + 1


def test_check_probe_asks_every_device(greenhouse):
    """Each of the fifteen devices says who it is and what it reads; nothing is written."""
    answer = json.loads(rigctl("check", CONFIG, "--probe", *greenhouse, "--json").stdout)
    assert len(answer["probe"]) == 15
    assert "PMP" in answer["probe"]["ca_doser"]


def test_a_probed_counter_is_judged_where_it_stands(greenhouse, tmp_path):
    """A meter that would be too coarse at 100 000 kWh is not while it has counted little."""
    text = Path(CONFIG).read_text(encoding="utf-8").replace("price: 0.31 EUR/kWh", "price: 0.31 EUR/kWh, rated: 100 W")
    config = tmp_path / "greenhouse.yaml"
    config.write_text(text, encoding="utf-8")
    said = [json.loads(rigctl("check", config, *more, *greenhouse, "--json").stdout) for more in ((), ("--probe",))]
    coarse = [[w for w in answer["warnings"] if "too coarse for a trial" in w] for answer in said]
    assert [len(found) for found in coarse] == [1, 0]


def test_a_silent_device_makes_the_probe_fail(greenhouse, tmp_path):
    """A port that is not there is told by its device, with exit 1."""
    buses = [*greenhouse, "--bus", f"ph=serial://{tmp_path}/nothing"]
    found = rigctl("check", CONFIG, "--probe", *buses, code=1)
    assert "ph_probe" in found.stdout
    assert f"{tmp_path}/nothing" in found.stdout


def test_safe_drives_an_idle_rig_to_its_safe_states(greenhouse, tmp_path):
    """Without a running campaign the verb opens the rig itself, and confirms every actuator."""
    answer = json.loads(rigctl("safe", CONFIG, "--state", tmp_path / "state", *greenhouse, "--json").stdout)
    assert answer["ok"]
    assert {"ca_doser", "b_valve", "refill"} <= set(answer["reached"])


def test_safe_ends_a_running_campaign(greenhouse, known, tmp_path):
    """A running campaign is told to: it abandons its trial and ends with everything safe."""
    state = tmp_path / "state"
    with started("run", known, "--state", state, *greenhouse) as process:
        read_until(process, "trial 1 recorded")
        assert "campaign" in json.loads(rigctl("safe", "--state", state, "--json").stdout)["by"]
        output, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, output
    assert json.loads(rigctl("status", "--state", state, "--json").stdout)["ended"] == "abandoned"
