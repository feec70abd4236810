"""Profiles: which options a device gets, whose come first, and where a mistake in one is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.config.load import load
from rigctl.config.profiles import listed
from rigctl.errors import ConfigError
from rigctl.rig.protocols import DeviceOptions, Driver
from rigctl.rig.registry import Registry
from rigctl_drivers.scpi_instrument import ScpiDriver
from tests.config.texts import SMALL

OVEN = """\
instrument: Oven 7
source: Manual of the oven, page 3
url: "serial:///dev/ttyUSB0?baud=4800"
terminator: "\\r\\n"
quantities:
  inside: {unit: degC, query: "T1?"}
  wall: {unit: degC, query: "T2?", terminator: "\\n"}
"""
OUTCOME = 'scale: {driver: scpi, bus: "tcp://127.0.0.1:9", profile: PROFILE}\n'


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(ScpiDriver, "profiles", folder)
    (folder / "oven.yaml").write_text(OVEN)
    return folder


@pytest.fixture
def rig(tmp_path):
    def make(**device: object):
        given = {"driver": "scpi", "bus": "tcp://127.0.0.1:9", **device}
        text = ", ".join(f"{key}: {value}" for key, value in given.items())
        (tmp_path / "rig.yaml").write_text(SMALL.replace("devices:\n", f"devices:\n  oven: {{{text}}}\n"))
        return load(tmp_path / "rig.yaml").rig.devices["oven"].options

    return make


def refused(rig, **device: object) -> list[tuple[str, int, dict[str, str]]]:
    with pytest.raises(ConfigError) as caught:
        rig(**device)
    return [(Path(m.file).name, m.line, m.flaw.fields) for m in caught.value.mistakes]


def test_a_profile_gives_a_device_its_options(shipped, rig):
    """What the device says itself, then what the quantity says, then what holds for all of the instrument."""
    inside, wall = rig(profile="oven/inside"), rig(profile="oven/wall")
    assert (inside.query, inside.unit, inside.terminator) == ("T1?", "degC", "\r\n")
    assert (wall.query, wall.terminator) == ("T2?", "\n")
    assert rig(profile="oven/inside", terminator='"\\r"').terminator == "\r"
    (shipped / "oven.yaml").write_text(OVEN.replace("  wall", "  # wall"))
    assert rig(profile="oven").query == "T1?"  # of one quantity its name is enough


def test_options_are_complete_without_the_profile(shipped, rig):
    """What a process that makes safe is handed holds by itself."""
    options = rig(profile="oven/inside").model_dump(mode="json", exclude_unset=True)
    (shipped / "oven.yaml").unlink()
    assert ScpiDriver.options.model_validate(options).query == "T1?"


def test_ones_own_profile_goes_before_the_one_that_is_shipped(shipped, rig, tmp_path):
    """It lies in `profiles/DRIVER` beside the configuration."""
    own = tmp_path / "profiles" / "scpi"
    own.mkdir(parents=True)
    (own / "oven.yaml").write_text(OVEN.replace("T1?", "MINE?"))
    (own / "scale.yaml").write_text(OVEN)
    assert rig(profile="oven/inside").query == "MINE?"
    assert rig(profile="scale/wall").query == "T2?"


@pytest.mark.parametrize("said", ["oven", "oven/roof", "ovne/inside", "../shipped/oven"])
def test_a_profile_that_is_not_there_is_refused_with_those_that_are(shipped, rig, said, golden):
    """At the key of the configuration."""
    ((file, _, fields),) = refused(rig, profile=said)
    assert file == "rig.yaml"
    golden(fields["allowed"].replace(str(shipped), "shipped"))


def test_any_driver_takes_profiles_of_ones_own(rig, tmp_path):
    """Also one that comes with none; where there is none, that is refused at the key."""
    device = {"driver": "sdm120", "bus": '"modbus_tcp://127.0.0.1:9"', "profile": "mains"}
    with pytest.raises(ConfigError) as caught:
        rig(**device)
    assert [m.path for m in caught.value.mistakes] == [("devices", "oven", "profile")]
    own = tmp_path / "profiles" / "sdm120"
    own.mkdir(parents=True)
    (own / "mains.yaml").write_text("instrument: ours\nsource: its label\nquantities: {energy: {address: 7}}\n")
    assert rig(**device).address == 7


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        ("instrument: Oven 7\n", "", 0),
        ("source: Manual of the oven, page 3", "source: [3]", 2),
        ('query: "T1?"', "query: T1", 6),
        ('query: "T1?"', 'query: "T1?", kwery: 3', 6),
        ('terminator: "\\r\\n"', "terminator: x", 4),
        ('inside: {unit: degC, query: "T1?"}', "inside: degC", 6),
        ('inside: {unit: degC, query: "T1?"}', "inside: {unit: degC}", 6),
        ("quantities:", "quantities: {", 5),
    ],
)
def test_a_mistake_in_a_profile_is_told_where_it_stands(shipped, rig, was, now, line, golden):
    """File and line are the profile's; nothing is said of the configuration that names it."""
    (shipped / "oven.yaml").write_text(OVEN.replace(was, now))
    ((file, at, fields),) = refused(rig, profile="oven/inside")
    assert (file, at or line) == ("oven.yaml", line or at)
    golden(fields)


def test_a_mistake_is_told_once_and_that_of_the_device_in_the_configuration(shipped, rig, tmp_path):
    """Though it names a profile; two devices tell of one in theirs once."""
    ((file, _, _),) = refused(rig, profile="oven/inside", terminator="x")
    assert file == "rig.yaml"
    (shipped / "oven.yaml").write_text(OVEN.replace('terminator: "\\r\\n"', "terminator: x"))
    text = "  {}: {{driver: scpi, bus: 'tcp://127.0.0.1:9', profile: oven/inside}}\n"
    (tmp_path / "rig.yaml").write_text(SMALL.replace("devices:\n", "devices:\n" + text.format("a") + text.format("b")))
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "rig.yaml")
    assert len(caught.value.mistakes) == 1


class NeedsTopic(DeviceOptions):
    """Options that no profile can know."""

    topic: str
    """Where it is."""
    query: str = ""
    """What is asked."""


def test_profiles_are_listed_with_what_is_wrong_with_them(shipped, tmp_path, monkeypatch):
    """Also those that do not hold; an option that the device must give is none of their mistakes."""
    registry = Registry.installed()
    (shipped / "bad.yaml").write_text(OVEN.replace('query: "T1?"', "query: T1"))
    (shipped / "worse.yaml").write_text("no: [profile")
    found = {p.name: p for p in listed(replace(registry, drivers={"scpi": registry.drivers["scpi"]}), tmp_path)}
    assert (found["oven"].quantities, found["oven"].problems) == (("inside", "wall"), ())
    assert (found["oven"].instrument, found["oven"].url) == ("Oven 7", "serial:///dev/ttyUSB0?baud=4800")
    assert len(found["bad"].problems) == len(found["worse"].problems) == 1

    class Pushed(Driver):
        """One whose devices give more than a profile can."""

        name, summary, schemes, options, profiles = "scpi", "pushed", ("tcp",), NeedsTopic, shipped

        @staticmethod
        def connect(options, line):
            raise NotImplementedError

    for file in shipped.iterdir():
        file.write_text("instrument: a plug\nsource: its manual\nquantities: {power: {query: w}}\n")
    assert {p.problems for p in listed(Registry({"scpi": lambda: Pushed}), tmp_path)} == {()}
