"""A stage for every test that runs a campaign."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback

from rigctl.campaign import obstacles
from tests.campaign.fakes import Patient, Stage
from tests.campaign.records import SetClock, begun


@pytest.fixture(autouse=True, scope="package")
def plain_tracebacks() -> Iterator[None]:
    """Log errors without coloured source and locals, which take longer than the campaigns that failed."""
    structlog.reset_defaults()  # whatever a command line that ran here before has configured
    usual = structlog.get_config()["processors"]
    structlog.configure([*usual[:-1], ConsoleRenderer(exception_formatter=plain_traceback)])
    yield
    structlog.reset_defaults()


@pytest.fixture
def stage(tmp_path):
    """A campaign on the fake rig."""
    made = Stage(tmp_path)
    with made.world:
        yield made


@pytest.fixture
def patient(stage):
    """The same stage, where waits pass in small steps, so that somebody can say something meanwhile."""
    stage.clock = lambda: Patient(stage.world)
    return stage


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def journal(tmp_path, clock):
    """A journal with a campaign begun."""
    opened = begun(tmp_path, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def quick_roll_calls(monkeypatch):
    """Roll calls follow each other at once."""
    monkeypatch.setattr(obstacles, "ASK_S", 0.001)
