"""A campaign with two line instruments, one by a profile of one's own, at the pace of real ones."""

import json
import shutil

import pytest

from tests.drivers.pairs import FOLDER, player
from tests.drivers.peers import PtyPeer, cut_lines
from tests.forked import run

RIG = """\
rig: jacket
currency: EUR
budget: 5 EUR
variables:
  temperature: {{unit: degC, range: [15, 60], sensor: bath, actuator: bath, natural: uniform}}
control_sets: all
outcome: {{name: weight, unit: g, sensor: balance}}
trial: {{settle: 1 s, measure: {{for: 2 s, every: 1 s}}}}
meters: [{{kind: fixed, price: 0.05 EUR}}]
devices:
  bath: {{driver: ascii, bus: "serial://{bath}?quiet=0.1", profile: julabo/bath}}
  balance: {{driver: ascii, bus: "serial://{balance}?quiet=0.1", profile: my-balance}}
safety:
  safe_state: {{bath: off}}
"""


@pytest.mark.system
def test_three_trials_with_a_shipped_profile_and_one_of_ones_own(peer, tmp_path):
    """The bath is driven, confirmed and left safe; the campaign is read again without the profile beside it."""
    bath, balance = player("julabo"), player("mettler-sics")
    ends = [peer(PtyPeer, cut_lines(end), played) for end, played in ((b"\r", bath), (b"\r\n", balance))]
    (tmp_path / "rig.yaml").write_text(RIG.format(bath=ends[0].path, balance=ends[1].path))
    own = tmp_path / "profiles" / "ascii"
    own.mkdir(parents=True)
    shutil.copy(FOLDER / "mettler-sics.yaml", own / "my-balance.yaml")

    ran = run(["rigctl", "run", "rig.yaml", "--state", "state", "--max-trials", "3"], cwd=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert bath.kept["control"] == "0"
    asked = [told for told in bath.heard if told.startswith(b"out_sp_00")]
    assert len(asked) == 3
    assert bath.heard.count(b"out_mode_05 1\r") == 3
    shutil.rmtree(tmp_path / "profiles")
    status = json.loads(run(["rigctl", "status", "--state", "state", "--json"], cwd=tmp_path).stdout)
    assert status["trials"] == 3
    assert run(["rigctl", "report", "--state", "state"], cwd=tmp_path).returncode == 0
