"""Who is told what, as a configuration says it; a secret that stands in it is refused and never repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigctl.config.load import load_text
from rigctl.errors import ConfigError
from rigctl.telling import MetricsSpec, NotifySpec, Secret
from tests.console.conftest import BENCH

PLANTED = "Zr7plantedsecretQ9"


def loaded(text, path=Path("bench.yaml"), *, to_run=False):
    return load_text(BENCH + text + "\n", path, to_run=to_run)


def refused(text):
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    return str(caught.value)


def test_all_of_it_is_converted(tmp_path):
    """Paths are from the configuration's folder, times in seconds, the time of day with two digits."""
    found = loaded(
        "notify: {urls: {file: secrets/n.txt}, at_least: MINOR, zone: Europe/Berlin, daily: 8:00,"
        " alive: {url: {env: PING_URL}, every: 5 min}}\n"
        "metrics: {textfile: /var/lib/node/rig.prom, port: 9108}",
        tmp_path / "bench.yaml",
    ).telling
    urls, alive = Secret(file=str(tmp_path / "secrets/n.txt")), Secret(env="PING_URL")
    assert found.notify == NotifySpec(urls, 1, alive, 300.0, "08:00", "Europe/Berlin")
    assert found.metrics == MetricsSpec("/var/lib/node/rig.prom", 9108)
    assert not loaded("").telling


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
def test_a_secret_in_the_open_is_refused_and_not_repeated(text):
    """However it is written."""
    said = refused(text.replace("PLANTED", PLANTED))
    assert PLANTED not in said
    assert "bench.yaml:12: notify" in said
    if "://" in text:
        assert "write it into a file, `chmod 600` it, and name it here: {file: PATH}" in said


def test_a_secret_that_is_missing_is_a_warning_where_a_rig_is_to_be_run(tmp_path):
    """No reason not to run it; nobody looks for it otherwise."""
    text, path = "notify: {urls: {file: n.txt}}", tmp_path / "bench.yaml"
    (warning,) = loaded(text, path, to_run=True).warnings
    assert "notify.urls: nobody can be told: file" in warning
    assert "chmod 600" in warning
    assert loaded(text, path).warnings == ()
    (tmp_path / "n.txt").touch(0o600)
    (tmp_path / "n.txt").write_text(f"json://{PLANTED}")
    assert loaded(text, path, to_run=True).warnings == ()
