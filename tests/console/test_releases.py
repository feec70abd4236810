"""What campaigns have left on disk is read, resumed, replayed and exported as it was then."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from rigctl.core.experiment.money import to_units
from rigctl.errors import UsageError
from rigctl.page.campaign import campaign_spec
from rigctl.rig.protocols import ActuatorState, Identity
from rigctl.rig.values import Measurement, SafeReport
from tests.campaign.fakes import FakeClock, FakeRig, ThreadDecider, World, open_journal
from tests.fixtures import FINISHED, UNFINISHED, unpacked
from tests.fixtures.make_release import RECORDS
from tests.profiles import slow_beyond

every = pytest.mark.parametrize("left", [FINISHED, UNFINISHED], ids=lambda p: p.name)


def table(text):
    """The rows of a CSV file."""
    return list(csv.DictReader(io.StringIO(text)))


def exported(bench, state, records):
    """What is exported today."""
    return table(bench.rigctl("export", "--state", str(state), "--records", records).out)


@every
@pytest.mark.parametrize("records", slow_beyond(1, RECORDS))
def test_a_campaign_is_exported_as_it_was_then(bench, tmp_path, left, records):
    """Every value of every record, to the last digit; a later version may know more columns."""
    then = table((left / f"{records}.csv").read_text(encoding="utf-8"))
    now = exported(bench, unpacked(left, tmp_path / "state"), records)
    assert [{name: row[name] for name in was} for row, was in zip(now, then, strict=True)] == then


@every
def test_a_campaign_is_told_as_it_was_then(bench, tmp_path, left):
    """Trials, budget, what was spent, how it ended, the trade-off."""
    then = json.loads((left / "status.json").read_text(encoding="utf-8"))
    now = bench.rigctl("status", "--state", str(unpacked(left, tmp_path / "state")), "--json").json
    assert {name: now[name] for name in then} == then


@pytest.mark.slow
def test_what_was_decided_is_replayed(bench, tmp_path):
    """The model is pinned, so that later code decides the same, bit for bit; what is not so would be named."""
    found = bench.rigctl("replay", "--state", str(unpacked(FINISHED, tmp_path / "state")), "--json").json
    assert found["differing"] == []
    assert found["trials"] == found["agree"] == 12


class StandIn(FakeRig):
    """A rig that answers for whatever a specification names."""

    spec = None
    stood = None
    """What the counters say: nothing is used any more."""

    async def control(self, setpoints):
        self.world.do("control", setpoints=dict(setpoints))
        names = (w.name for w in self.spec.rig.variables)
        return {name: ActuatorState(name in setpoints, setpoints.get(name)) for name in names}

    async def measure(self):
        self.world.do("time", s=60.0)
        space, outcomes = self.spec.problem.space, self.spec.rig.outcome_names
        middle = {v.name: Measurement((v.low + v.high) / 2, 0.01, 5) for v in space.variables}
        return middle | {name: Measurement(9.5, 0.01, 5) for name in outcomes}

    async def meters(self):
        return {name: replace(reading, time_s=self.world.now_s) for name, reading in self.stood.items()}

    async def safe(self):
        return SafeReport(tuple(self.spec.rig.limits), {})


async def resumed(state, spec, world):
    """Go on with the campaign on a rig that stands in for it."""
    with open_reader(state) as reader:
        pins, last = reader.pins.by_device(), max(e.trial for e in reader.events() if e.event == "ARM")
        stood = reader.meter_readings(last, "after") or reader.meter_readings(last, "before")
    found = {name: Identity(pin.model, serial=pin.serial) for name, pin in pins.items()}

    def make(doses, news):
        rig = StandIn(world, doses, news.alarm, found=found)
        rig.spec, rig.stood = spec, stood
        return rig

    return await run_campaign(
        spec, state, make, FakeClock(world), lambda _: None, open_journal=open_journal, decider=ThreadDecider()
    )


@pytest.mark.slow
@every
async def test_a_campaign_is_gone_on_with(bench, tmp_path, left):
    """The trial under way is lost and charged, those before it stay as they were, one more is decided and recorded."""
    state, spec = unpacked(left, tmp_path / "state"), campaign_spec(load(left / "rig.yaml"))
    (state / "safe.json").unlink()  # the rig that it names is long gone
    with open_reader(state) as reader:
        before, spent = reader.trials(), reader.campaign().spent
    closed = [row for row in before if row.state.final]
    with World(tmp_path / "world.jsonl") as world:
        ended = await resumed(state, replace(spec, max_trials=len(before) + 1), world)
    assert ended.ending == "trials"
    assert ended.spent > spent
    with open_reader(state) as reader:
        after = reader.trials()
        assert len(reader.starts()) > 1
    assert after[: len(closed)] == tuple(closed)
    assert [str(row.state) for row in after[len(closed) :]] == ["LOST"] * (len(before) - len(closed)) + ["RECORDED"]
    assert after[-1].origin == "policy"
    assert to_units(ended.budget) == 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seed: 11", "seed: 12", "seed: was 11, is 12"),
        ("mean: 5.85", "mean: 6.2", "variables.ph.marginal.loc: was "),
        ("natural:\n      learned:\n        at_least: 4", "natural: uniform", "variables.k.marginal.kind: was "),
    ],
)
async def test_a_campaign_is_refused_to_another_configuration(bench, tmp_path, old, new, said):
    """What it kept of its configuration still counts."""
    text = (UNFINISHED / "rig.yaml").read_text(encoding="utf-8")
    assert old in text
    changed = bench.write("changed.yaml", text.replace(old, new))
    state = unpacked(UNFINISHED, tmp_path / "state")
    (state / "safe.json").unlink()
    with World(tmp_path / "world.jsonl") as world, pytest.raises(UsageError, match=said):
        await resumed(state, campaign_spec(load(Path(changed))), world)
