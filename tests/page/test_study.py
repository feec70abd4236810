"""What is worked out of all trials for the page and the report."""

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.trial import Event, State, undecided
from rigctl.config.load import load_text
from rigctl.core.experiment.history import History
from rigctl.page import study
from rigctl.page.facts import gather
from tests.campaign.fakes import make_spec
from tests.campaign.records import READINGS, make_decision, record_trial
from tests.config.conftest import ROOT
from tests.page.conftest import NOON


def test_what_the_outcome_is_worth_is_recommended_by(monkeypatch):
    """As the configuration has it; so the page, the report and `rigctl recommend` say what looking earns."""
    monkeypatch.setattr(study, "recommend_again", lambda *_, **options: options)
    text = (ROOT / "config/greenhouse.yaml").read_text(encoding="utf-8")
    loaded = load_text(text, ROOT / "config/greenhouse.yaml")
    assert study.recommended(loaded, History.of(()), {})["price"] == 0.3


def looks(journal):
    journal.look(undecided(2, 7, 100_000_000, History()), READINGS)


def ends_while_it_looks(journal):
    looks(journal)
    journal.finish(2, State.LOOKING, Event.FAIL, ())


def is_explored(journal):
    journal.propose(make_decision(2, origin="rejected", note="the policy failed"))


@pytest.mark.parametrize(("second", "decided"), [(looks, 1), (ends_while_it_looks, 1), (is_explored, 2)])
def test_what_would_change_a_decision_is_asked_of_the_one_that_is_shown(
    journal, tmp_path, second, decided, monkeypatch
):
    """Never of a trial that still looks, for it has no decision that could be made again."""
    record_trial(journal)
    second(journal)
    monkeypatch.setattr(study, "campaign_spec", lambda _: make_spec())
    with open_reader(tmp_path) as reader:
        assert study.past(reader, None).last.trial == decided
        assert gather(reader, None, None, NOON).why.trial == decided
