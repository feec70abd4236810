"""Outcomes that come later, and who is told what, from the file to the rig."""

from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.config.load import load_text
from rigctl.console.checking import lines, plan
from rigctl.errors import ConfigError
from rigctl.rig.spec import OutcomeSpec
from rigctl.telling import AliveSpec, MetricsSpec, NotifySpec, Secret
from tests.config.conftest import loaded, loaded_to_run
from tests.config.texts import BY_HAND, SMALL
from tests.console.conftest import BENCH

OUTCOME = "sensor: camera, floor: 0}"
PLAIN = SMALL.replace("sensor: probe, actuator", "plausible: [3, 10], sensor: probe, actuator")


def late(said, rest=""):
    assert OUTCOME in PLAIN
    return PLAIN.replace(OUTCOME, f"{said}, floor: 0}}{rest}")


def test_what_is_said_of_a_late_outcome():
    """By a person within 7 days unless the file says otherwise, or by the sensor, read when it is time."""
    assert loaded_to_run(PLAIN).rig.late is None
    by_hand = loaded_to_run(late("by: hand")).rig
    growth = OutcomeSpec(name="growth", unit="cm2/day", floor=0.0, by="hand")
    assert (by_hand.late, growth.until_s, growth.due_s) == (growth, 7 * 86_400.0, 7 * 86_400.0)
    more = "by: hand, within: 3 d, then: hold, pending: 4, at_end: end, plausible: [0, 5]"
    held = loaded_to_run(late(more))
    assert held.rig.late == replace(
        growth, within_s=3 * 86_400.0, then="hold", pending=4, at_end="end", plausible=(0.0, 5.0)
    )
    assert held.plausible == {"ph": (3.0, 10.0), "growth": (0.0, 5.0)}
    read = loaded_to_run(late("sensor: camera, after: 20 h")).rig
    assert (read.late_names, read.late.until_s, read.late.due_s) == (("growth",), 144_000.0, 72_000.0)
    further = (
        "\nfurther_outcomes:\n  - {name: taste, unit: '1', by: hand}\n  - {name: mass, unit: cm2/day, sensor: camera}"
    )
    assert loaded_to_run(late("by: hand", further)).rig.late_names == ("growth", "taste")
    for by_itself in ("by: hand, floor: 0", "then: hold, floor: 0"):
        assert loaded(BY_HAND.replace("floor: 0", by_itself)).rig.late is None


@pytest.mark.parametrize(
    ("said", "figures"),
    [
        ("by: hand, within: 3 d", {"3 days", "16 trials"}),
        ("sensor: camera, after: 20 h, then: hold, at_end: end", {"20 h", "1 day 16 h"}),
    ],
)
def test_check_says_what_follows(said, figures):
    """In figures: how long an outcome is waited for, and how many trials may await theirs."""
    found = loaded_to_run(late(said))
    told = " ".join(lines(plan(found), found, 200))
    assert {figure for figure in figures if figure in told} == figures


PLANTED = "Zr7plantedsecretQ9"


def telling_of(text, path=Path("bench.yaml"), *, to_run=False):
    return load_text(BENCH + text + "\n", path, to_run=to_run)


def refused(text):
    with pytest.raises(ConfigError) as caught:
        telling_of(text)
    return str(caught.value)


def test_all_of_it_is_converted(tmp_path):
    """Paths are from the configuration's folder, times in seconds, the time of day with two digits."""
    found = telling_of(
        "notify: {urls: {file: secrets/n.txt}, at_least: MINOR, zone: Europe/Berlin, daily: 8:00,"
        " alive: {url: {env: PING_URL}, every: 5 min}}\n"
        "metrics: {textfile: /var/lib/node/rig.prom, port: 9108}",
        tmp_path / "bench.yaml",
    ).telling
    urls, alive = Secret(file=str(tmp_path / "secrets/n.txt")), Secret(env="PING_URL")
    assert found.notify == NotifySpec(urls, "MINOR", AliveSpec(alive, 300.0), "08:00", "Europe/Berlin")
    assert found.metrics == MetricsSpec("/var/lib/node/rig.prom", 9108)
    assert not telling_of("").telling


@pytest.mark.parametrize(
    "text",
    [
        "notify: {urls: ntfy://PLANTED}",
        "notify: {urls: [ntfy://PLANTED]}",
        "notify: {urls: {file: ntfy://PLANTED}}",
        "notify: {urls: {ntfy://PLANTED}}",
        "notify: ntfys://PLANTED",
        "notify: PLANTED",
        "notify: {url: PLANTED}",
        "notify: {urls: PLANTED}",
        "notify: {urls: {env: -PLANTED}}",
        "notify: {urls: {token: PLANTED}}",
        "notify: {urls: [PLANTED]}",
        "notify: {alive: PLANTED}",
        "notify: {alive: {url: https://PLANTED}}",
        "notify: {alive: {url: PLANTED, every: 1 h}}",
    ],
)
def test_a_secret_in_the_open_is_refused_and_not_repeated(text, golden):
    """However it is written."""
    said = refused(text.replace("PLANTED", PLANTED))
    assert PLANTED not in said
    golden(said)


def test_a_secret_that_is_missing_is_a_warning_where_a_rig_is_to_be_run(tmp_path):
    """No reason not to run it; nobody looks for it otherwise."""
    text, path = "notify: {urls: {file: n.txt}}", tmp_path / "bench.yaml"
    (warning,) = telling_of(text, path, to_run=True).warnings
    assert "notify.urls" in warning
    assert "chmod 600" in warning
    assert telling_of(text, path).warnings == ()
    (tmp_path / "n.txt").touch(0o600)
    (tmp_path / "n.txt").write_text(f"json://{PLANTED}")
    assert telling_of(text, path, to_run=True).warnings == ()
