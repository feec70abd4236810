"""`rigctl init` by hand and by flags: what it writes holds, what it refuses it refuses whole."""

import re
from pathlib import Path

import pytest

from rigctl.config.draft import Draft, FoundDevice, configuration, missing
from rigctl.config.load import load, load_text
from rigctl.console import output
from rigctl.console.starting import initialise
from rigctl.console.starting.initialise import question_line
from rigctl.console.starting.interview import Interview

OUTCOME = ("--outcome", "growth cm2/day maximise target=300")


def test_many_variables_do_not_make_more_sets_than_allowed(bench):
    """With ten variables each alone, each pair and all together; the costs are those of these sets."""
    many = [part for i in range(10) for part in ("--variable", f"v{i} mM 0 {i + 1} cost=0.{i}")]
    bench.rigctl("init", "new.yaml", "--by-hand", *OUTCOME, *many, "--budget", "99")
    assert len(load(bench.folder / "new.yaml").problem.space.control_sets) == 10 + 45 + 1


# the questions, without a terminal --------------------------------------------------------------------------------

FOUND = (
    FoundDevice("probe", "ezo-ph", "serial:///dev/serial/by-id/usb-ph?baud=9600", {}, "EZO pH, 2.14"),
    FoundDevice("pump", "ezo-pmp", "serial:///dev/serial/by-id/usb-pump?baud=9600", {}, "EZO PMP, 1.06"),
    FoundDevice("camera", "scpi", "tcp://10.0.0.7:5025", {"model": "GC-1"}, "ACME GC-1"),
    FoundDevice("meter", "sdm120", "modbus_rtu:///dev/serial/by-id/usb-mains?baud=2400", {"address": 1}, "SDM120"),
    FoundDevice(
        "plc", "modbus", "modbus_tcp://10.0.0.9:502", {"address": 1}, "unit 1", (({"enable": {"coil": 5}}, "off"),)
    ),
)
WIRED = {
    "Shall rigctl drive them": ["perhaps", "yes"],
    "Its name": ["growth"],
    "Its unit": ["cm2/day"],
    "Name of the first": ["ph"],
    "Name of the next": ["b", ""],
    "ph: unit": ["pH"],
    "ph: lowest and highest": ["7 .. 5", "5", "5 .. 7"],
    "b: unit": ["uM"],
    "b: lowest and highest": ["5 to 60"],
    "growth: measured by": ["camera", "camera/MEAS:GROW", "camera/MEAS:GROW?"],
    "ph: measured by": ["pump", "nobody", "probe"],
    "ph: set by": ["probe", "pump"],
    "b: measured by": ["plc/input", "plc/input/2/float33", "plc/input/2/float32/CDAB"],
    "b: set by": ["plc/input/2", "plc/holding/2/float32", "plc/holding/2/float32/CDAB/coil=2"],
    "What may the whole campaign": ["40"],
    "What may one trial": ["0", "2"],
    "1 kWh": ["0.31"],
    "1 L": ["9 EUR/L"],
    "ph: change per mL": ["0", "-0.04"],
    "ph: treated by": ["plc/input/1", "plc/coil/1"],
    "b: safe is": ["99", "off"],
}


class Script:
    """Answers questions by how they begin, Enter to all others; what is wrong is told and asked again."""

    def __init__(self, answers):
        self.answers = {question: list(texts) for question, texts in answers.items()}
        self.said = []

    def section(self, title):
        self.said.append(title)

    def say(self, text):
        self.said.append(text)

    def ask(self, question, reader, default=None, example="", empty=""):
        self.said.append(question_line(question, default, example, empty))
        known = next((texts for start, texts in self.answers.items() if question.startswith(start)), [])
        while True:
            text = (known.pop(0) if known else "") or default or ""
            try:
                return reader(text)
            except ValueError as error:
                if not known:
                    raise AssertionError(f"{question}: {text!r} was the last answer") from error
                self.said.append(str(error))

    def fill(self, draft, devices=()):
        return Interview(self).fill(draft, devices)


def test_a_wired_rig_that_was_asked_for_holds_at_once():
    """Places in instruments become devices, pumps get their caps, and the rig is one that may be run."""
    script = Script(WIRED)
    draft = script.fill(Draft(name="rig", currency="EUR"), FOUND)
    assert missing(draft, FOUND) == {}
    assert [question for question, left in script.answers.items() if left] == []
    text = configuration(draft, FOUND)
    loaded = load_text(text, Path("rig.yaml"), to_run=True)
    assert (loaded.problem.budget, loaded.problem.cost_ceiling) == (40_000_000, 2.0)
    rig = loaded.rig
    assert set(rig.devices) == {"probe", "pump", "growth_sensor", "b_sensor", "b_actuator", "meter", "ph_treatment"}
    assert (rig.dosing["pump"].effect_per_ml, rig.dosing["pump"].treatment) == (-0.04, "ph_treatment")
    assert (rig.limits["pump"].per_dose_ml, rig.limits["pump"].per_day_ml) == (50, 500)
    assert {meter.kind for meter in rig.meters} == {"energy", "volume"}
    assert re.search("^#  plc_1: .*coil: 5", text, re.MULTILINE)


def test_an_empty_answer_is_told_in_words(golden):
    """Enter at each question that needs an answer: what is needed is said, and it is asked again."""
    needed = ("Its name", "Its unit", "ph: unit", "ph: lowest", "What may the whole", "ph: change")
    answers = {asked: ["", *texts] if asked.startswith(needed) else list(texts) for asked, texts in WIRED.items()}
    script = Script(answers)
    script.fill(Draft(name="rig", currency="EUR"), FOUND)
    told = [said for said in script.said if said.startswith("got nothing")]
    assert len(told) == len(needed)
    golden("\n".join(told))


def test_volumes_are_asked_for_in_full():
    """Two thousand litres are written as a person writes them."""
    script = Script({**WIRED, "ph: change per mL": ["-0.000001"]})
    script.fill(Draft(name="rig", currency="EUR"), FOUND)
    asked = [said.partition("[")[2] for said in script.said if said.startswith(("ph: most in one", "ph: most in any"))]
    assert asked == ["2000000 mL]", "20000000 mL]"]


def test_what_cannot_be_measured_is_left_to_a_person(golden):
    """A bench by hand comes of it, and what was found stands in it as comments."""
    script = Script({**WIRED, "growth: measured by": ["none"]})
    draft = script.fill(Draft(name="rig", currency="EUR"), FOUND)
    assert draft.by_hand
    golden([said for said in script.said if "growth" in said])
    text = configuration(draft, FOUND)
    assert not load_text(text, Path("rig.yaml"), to_run=True).wired
    golden([line for line in text.splitlines() if "camera:" in line])


@pytest.fixture
def at_a_terminal(monkeypatch):
    """Lets a script answer the questions of `rigctl init`, about instruments that seem to be there."""

    def sit(answers):
        script = Script(answers)
        monkeypatch.setattr(initialise, "find", lambda places, units: (FOUND, ()))
        monkeypatch.setattr(initialise.Terminal, "ask", lambda _, *asked, **more: script.ask(*asked, **more))
        monkeypatch.setattr(output, "at_a_terminal", lambda: True)

    return sit


def test_answers_that_do_not_go_together_are_kept_beside(bench, at_a_terminal, golden):
    """An acid cannot raise pH: the file is not written, and what was answered is in another, to be mended there."""
    at_a_terminal({**WIRED, "ph: uncontrolled": ["5.5 +- 0.1"], "ph: treated by": [""]})
    said = bench.rigctl("init", "new.yaml", "--probe", "10.0.0.7", code=2).err
    golden(said)
    assert not (bench.folder / "new.yaml").exists()
    draft = (bench.folder / "new.draft.yaml").read_text(encoding="utf-8")
    mended = draft.replace("natural: {truncated_normal: {mean: 5.5, sd: 0.1}}", "natural: learned")
    bench.write("new.draft.yaml", mended)
    bench.rigctl("check", "new.draft.yaml")


def test_flags_that_do_not_go_together_leave_no_file(bench, monkeypatch, golden):
    """The same from flags: told, and nothing is kept, as the flags can be given again."""
    monkeypatch.setattr(initialise, "find", lambda places, units: (FOUND, ()))
    pump = "sensor=probe actuator=pump effect=-0.04 per_dose=9mL per_day=99mL"
    flags = ("--outcome", "growth g sensor=camera/MEAS:GROW?", "--variable", f"ph pH 5 7 natural=5.5+-0.1 {pump}")
    said = bench.rigctl("init", "new.yaml", "--probe", "x:1", *flags, "--budget", "9", "--per-trial", "1", code=2).err
    golden(said)
    assert list(bench.folder.glob("new*")) == []


def test_the_questions_fit_a_terminal_of_80_columns():
    """With room for a short answer; what is told of a wrong one may take two lines."""
    for answers in (WIRED, {**WIRED, "growth: measured by": ["none"]}):
        script = Script({question: texts[-1:] if texts[-1] else texts for question, texts in answers.items()})
        script.fill(Draft(name="rig", currency="EUR"), FOUND)
        assert [line for text in script.said for line in text.splitlines() if len(line) > 80] == []
