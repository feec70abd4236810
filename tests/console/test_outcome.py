"""`rigctl outcome`: what a person says is converted, doubted, recorded once, and known from then on."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.books import Awaiting
from rigctl.campaign.trial import Event, State
from rigctl.config.load import load_text
from rigctl.page.campaign import campaign_spec
from rigctl.rig.protocols import ActuatorState
from rigctl.rig.values import Measurement
from tests.campaign.records import SetClock, make_decision
from tests.config.test_late import late

CONFIG = late("by: hand, within: 3 d, plausible: [0, 5]", "\nfurther_outcomes: [{name: taste, unit: '1', by: hand}]")


@pytest.fixture
def awaited(bench):
    """Four trials whose outcomes are awaited; nobody runs them now."""
    loaded = load_text(CONFIG, bench.folder / "tank.yaml")
    bench.write("tank.yaml", CONFIG)
    directory = bench.folder / "state/tank"
    directory.mkdir(parents=True)
    with closing(Journal(directory, SetClock(), "boot-1")) as journal:
        journal.begin(campaign_spec(loaded), "0.0")
        for n in range(1, 5):
            journal.propose(make_decision(n, control_set=("ph",), setpoints={"ph": 6.0}))
            journal.arm(n, {})
            journal.run(n, {"ph": ActuatorState(True, 6.0)})
            measured = {"ph": Measurement(6.0, 0.0, 5), "ca": Measurement(2.0 + n, 0.0, 5)}
            journal.measure(n, measured, loaded.rig.outcome_names, {})
            journal.finish(n, State.MEASURED, Event.AWAIT, (), awaiting=Awaiting("hand", 3 * 86400.0))
        journal.beat(ended="stopped")
    return bench


def trials():
    with open_reader(Path("state/tank")) as reader:
        return {row.trial: (row.state, row.outcome, dict(row.further)) for row in reader.trials()}


def test_what_is_awaited_is_listed_and_recorded_in_any_unit(awaited):
    """Out of order; units are converted; the others go on waiting."""
    listed = awaited.rigctl("outcome").out.splitlines()
    assert [line.split(", awaited until ")[0] for line in listed] == [f"trial {n}: ph at ph 6" for n in range(1, 5)]
    said = awaited.rigctl("outcome", "tank.yaml", "3", "0.0312", "m2/day", "--values", "taste=7", "--force").out
    assert said == "trial 3: growth 312, taste 7; 3 outcomes still awaited\n"
    assert trials()[3] == (State.RECORDED, 312.0, {"taste": 7.0})
    assert awaited.rigctl("outcome", "1", "--lost", "--why", "spilt").out.startswith("trial 1: ends without an outcome")
    assert [row["trial"] for row in awaited.rigctl("outcome", "--json").json] == [2, 4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("2", "9", "--values", "taste=1"), "growth: 9 is outside the plausible 0 to 5"),
        (("2", "-1", "--values", "taste=1"), "growth: -1 is worse than the floor of 0"),
        (("2", "1 kg", "--values", "taste=1"), "must be a quantity in cm2/day; kg cannot be converted to cm2/day"),
        (("2", "1"), "got growth, must be all that it awaits: growth, taste"),
        (("2", "1", "--values", "colour=1"), "colour: is no outcome of this campaign; known: growth, taste"),
        (("9", "1"), "trial 9: not in this journal"),
        (("2",), "must be [CONFIG] TRIAL VALUE [UNIT]"),
        (("2", "--lost"), "say why none comes"),
        (("--lost",), "give the trial's number, too"),
    ],
)
def test_what_looks_mistyped_or_cannot_be_is_refused(awaited, words, told):
    """With the words that say why; nothing is written."""
    before = trials()
    answer = awaited.rigctl("outcome", *words, code=2)
    assert told in " ".join((answer.out + answer.err).split())
    assert trials() == before


def test_a_file_is_taken_whole_and_may_be_given_again(awaited):
    """Every mistake of it with its line; what was recorded of it before is left as it is."""
    awaited.write("lab.csv", "trial,growth,unit,taste,why\n2,1.5,,3,lab 17\n4,0.0002,m2/day,4,\n\n")
    assert awaited.rigctl("outcome", "--from", "lab.csv").out.splitlines() == [
        "trial 2: growth 1.5, taste 3; 3 outcomes still awaited",
        "trial 4: growth 2, taste 4; 2 outcomes still awaited",
    ]
    again = awaited.rigctl("outcome", "--from", "lab.csv").out.splitlines()
    assert again == [f"trial {n}: is recorded so already" for n in (2, 4)]
    with open_reader(Path("state/tank")) as reader:
        assert [row.came.why for row in reader.trials() if row.came] == ["lab 17", ""]
    awaited.write("bad.csv", "trial,growth\n2,1\nx,1\n2,3\n")
    told = awaited.rigctl("outcome", "--from", "bad.csv", code=2)
    assert 'bad.csv:3: trial: got "x", must be a number of a trial' in told.err
    assert "bad.csv:4: trial 2: stands here twice" in told.err
    awaited.write("none.csv", "number,growth\n2,1\n")
    assert "column trial is missing" in awaited.rigctl("outcome", "--from", "none.csv", code=2).err
    second = awaited.rigctl("outcome", "2", "1.7", "--values", "taste=3", code=2).err
    assert "has its outcome already, 1.5" in second
    assert "`rigctl amend 2" in second
