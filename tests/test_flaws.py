"""What is wrong is kept in fields; its sentence is made of them, and nothing of it is lost on the way."""

from __future__ import annotations

import pickle

import pytest

from rigctl.errors import ConfigError, DeviceTimeout, Mistake, RigctlError, UsageError
from rigctl.flaws import Flaw, flaw_of, got, shown
from tests.golden import Golden

SENTENCES = {
    'got "5 mM", must be a duration; write "5 min"': got("5 mM", "must be a duration", 'write "5 min"'),
    'sensor: got "valve", which is no sensor; must be a device': got(
        "valve", "must be a device", where="sensor", lead=", which is no sensor"
    ),
    'got "=" at column 4, must be <': got("=", "must be <", lead=" at column 4"),
    "got nothing, must be a name": got("", "must be a name"),
    "is missing, must be given": Flaw("is missing", "must be given"),
    "--at: must be left out": Flaw("", "must be left out", where="--at"),
    "is a folder; name a file in it": Flaw("is a folder", remedy="name a file in it"),
    "got the end": Flaw(got="the end"),
    "": Flaw(),
}


@pytest.mark.parametrize(("sentence", "flaw"), SENTENCES.items())
def test_a_sentence_is_made_of_the_fields(sentence, flaw):
    """In one order, and without what is not known."""
    assert str(flaw) == sentence
    assert all(part in sentence for part in flaw.fields.values())


@pytest.mark.parametrize("error", [UsageError, ValueError, RigctlError, DeviceTimeout])
def test_an_error_carries_what_it_was_made_with(error, golden: Golden):
    """To whoever catches it, in another process, too; one that was only text has that as its lead."""
    flaw = got(5, "must be > 6", "write 7", where="x")
    raised = pickle.loads(pickle.dumps(error(flaw)))  # noqa: S301 - our own
    assert flaw_of(raised) == flaw
    golden(raised)
    text = "no such thing"
    assert flaw_of(error(text)) == Flaw(text)


def test_a_devices_error_says_whose_it_is(golden: Golden):
    """Device and bus are where; what was appended later is said, too."""
    error = DeviceTimeout(got(None, "must be a reading"), device="ph", bus="tcp://x")
    assert (error.flaw.where.split(": "), error.flaw.got) == (["ph", "tcp://x"], "nothing")
    error.extend("; NOT SAFE")
    assert str(error) == str(error.flaw)
    golden(error)
    assert error.added == ("; NOT SAFE",)


def test_what_is_part_of_something_else_says_both(golden: Golden):
    """The outer first."""
    golden(got(1, "must be 2", where="beta").within("policy ucb"))


def test_a_mistake_is_its_flaw_and_its_place(golden: Golden):
    """A configuration's error has one line for each."""
    mistakes = [Mistake("a.yaml:1: rig", Flaw("is missing")), Mistake("a.yaml:2: x", got("y", "must be z"))]
    golden(ConfigError(mistakes))


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "nothing"), (True, "true"), ("yes", '"yes"'), ([1.5, None], "[1.5, ]"), ({"a": [1]}, "{a: [1]}")],
)
def test_a_value_is_shown_as_the_file_has_it(value, said):
    """In YAML, not in Python; long ones are cut."""
    assert shown(value) == said
    assert len(shown("x" * 999)) == 60
