"""`rigctl init --web`: the questions of the terminal as a form, for one browser of this computer."""

import html
import re

import pytest
from starlette.testclient import TestClient

from rigctl.config.load import load
from rigctl.console.options import InitFlags
from rigctl.console.starting import initialise
from rigctl.console.starting.in_browser import Visit, application
from tests.console.test_init import FOUND

AT = "/word/"
FIRST = {"Its name": "growth", 'Its unit ("1" for none)': "cm2/day"}
PH = {'ph: unit ("1" for none)': "pH", "ph: lowest and highest value you would set": "5 .. 7"}
MONEY = {"What may the whole campaign cost": "40", "Controlling ph costs": "0.4"}


@pytest.fixture
def asked(tmp_path):
    """Return what serves the form for these flags, and two browsers of this computer."""

    def start(said, probes=(), find=initialise.find):
        visit = Visit(initialise.wanted_of(tmp_path / "new.yaml", said, probes, "1-8", force=False), find)
        app = application(visit, "word")
        return visit, Browser(app), Browser(app)

    return start


class Browser:
    """Sends the form back as it came, with some answers changed."""

    def __init__(self, app):
        self.client = TestClient(app, base_url="http://127.0.0.1")
        self.text = ""

    def open(self, path=AT):
        answer = self.client.get(path)
        self.text = answer.text
        return answer.status_code

    @property
    def fields(self):
        return {html.unescape(k): html.unescape(v) for k, v in re.findall(r'name="([^"]*)" value="([^"]*)"', self.text)}

    @property
    def wrong(self):
        """The names of fields beside which something is said to be wrong."""
        return [html.unescape(k) for k in re.findall(r'name="([^"]*)"[^>]* aria-invalid', self.text)]

    def send(self, answers=None, **headers):
        answer = self.client.post(AT, data=self.fields | (answers or {}), headers=headers)
        self.text = answer.text
        return answer.status_code


@pytest.mark.slow
def test_a_form_writes_what_the_terminal_writes(asked, tmp_path):
    """Group by group to the same file; the form ends when it is written."""
    visit, browser, _ = asked(InitFlags())
    browser.open()
    assert list(browser.fields) == ["Ports and hosts"]
    ended = []
    visit.end = lambda: ended.append(browser.fields)
    for answers in ({}, FIRST, {"Name of the first": "ph"}, PH, MONEY):
        assert visit.written is None
        assert not (tmp_path / "new.yaml").exists()
        browser.send(answers)
    loaded = load(tmp_path / "new.yaml")
    assert (loaded.problem.known_costs, loaded.problem.budget) == ((0.4,), 40_000_000)
    assert (visit.written.path, len(ended)) == (tmp_path / "new.yaml", 1)


def test_what_is_wrong_is_said_beside_each_field(asked):
    """All wrong answers of a group at once; what was right stays, also where it is not asked for the moment."""
    visit, browser, _ = asked(InitFlags(by_hand=True))
    browser.open()
    browser.send(FIRST)
    browser.send({"Name of the first": "ph"})
    browser.send(PH | {'ph: unit ("1" for none)': "furlongs/fortnite", "ph: uncontrolled": "often"})
    assert browser.wrong == ['ph: unit ("1" for none)', "ph: uncontrolled"]
    browser.send({"Name of the first": "a+b"})
    assert browser.wrong == ["Name of the first"]
    browser.send({"Name of the first": "ph"})
    assert browser.fields["ph: lowest and highest value you would set"] == "5 .. 7"
    browser.send({'ph: unit ("1" for none)': "pH", "ph: uncontrolled": "unknown"})
    browser.send(MONEY | {"Every trial costs besides": "little"})
    assert browser.wrong == ["Every trial costs besides"]
    assert visit.written is None


@pytest.mark.slow
def test_no_limit_of_a_pump_is_made_of_an_example(asked):
    """Its largest dose is proposed only once a person has said what one mL does."""
    flags = InitFlags(
        outcome="growth g sensor=camera/MEAS:GROW?",
        variable=["ph pH 5 7 sensor=probe actuator=pump treatment=plc/coil/1"],
        budget="9 EUR",
        per_hour="0",
        per_trial="1",
    )
    visit, browser, _ = asked(flags, ["10.0.0.7"], lambda places, units: (FOUND, ()))
    browser.open()
    while "ph: change per mL dispensed" not in browser.fields:
        browser.send()
    assert "ph: most in one dose" not in browser.fields
    browser.send({"ph: change per mL dispensed": "-0.5"})
    assert browser.fields["ph: most in one dose"] == "4 mL"
    browser.send()
    browser.send()
    assert 'role="alert"' in browser.text  # so strong a stock cannot be dosed finely; the answers are kept
    assert visit.wanted.file.with_name("new.draft.yaml").exists()
    assert visit.written is None
    browser.send(
        {"ph: change per mL dispensed": "-0.04", "ph: most in one dose": "50 mL", "ph: most in any 24 hours": "500 mL"}
    )
    assert visit.written is not None


def test_it_answers_one_browser_of_this_computer(asked, tmp_path):
    """The address without its word, a second browser, another site's form: none learns or changes anything."""
    visit, first, second = asked(InitFlags(by_hand=True))
    assert second.open("/") == 404
    assert second.open("/wor/") == 404
    assert first.open() == 200
    assert second.open() == 403
    assert first.send(Origin="http://evil.example") == 403
    first.open()
    assert first.send(Host="evil.example") == 421
    assert visit.written is None
    assert list(tmp_path.iterdir()) == []


def test_an_answer_is_no_markup(asked):
    """What a person types comes back as text."""
    visit, browser, _ = asked(InitFlags(by_hand=True))
    browser.open()
    browser.send(FIRST | {"Its name": '"><b>x</b>'})
    assert "<b>" not in browser.text
    assert browser.fields["Its name"] == '"><b>x</b>'
    assert visit.written is None


def test_what_does_not_go_together_is_said_and_can_be_mended(asked, tmp_path):
    """A file that somebody has put there meanwhile: the form stays, with all answers."""
    visit, browser, _ = asked(InitFlags(outcome="y g", variable=["x mM 0 1 cost=1"], per_trial="0"))
    (tmp_path / "new.yaml").write_text("mine", encoding="utf-8")
    browser.open()
    browser.send({})
    browser.send({"What may the whole campaign cost": "9"})
    assert 'role="alert"' in browser.text
    assert browser.fields["What may the whole campaign cost"] == "9"
    assert visit.written is None
    assert (tmp_path / "new.yaml").read_text(encoding="utf-8") == "mine"
