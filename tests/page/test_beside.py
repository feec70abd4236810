"""The page beside a campaign: real processes, the demo's rig."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from rigctl.page.access import TokenFile
from tests.forked import Forked, run
from tests.simulated import keep_clear, start_sim
from tests.system.stack import Stack, greenhouse, rows, wait_until
from tests.system.test_faults_stop import MARGIN_S, PROMISE_S

pytestmark = pytest.mark.system
DEMO = ["demo", "--serve", "--seed", "1", "--budget", "200"]


@contextmanager
def rigctl(*words, cwd):
    """A `rigctl` process; gives it and what it has said so far, line by line."""
    keep_clear()
    process = Forked(
        [sys.executable, "-P", "-m", "rigctl", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(cwd)},
    )
    said = []
    listening = threading.Thread(target=_listen, args=[process, said], daemon=True)
    listening.start()
    try:
        yield process, said
    finally:
        process.kill()  # page and simulator end with it, as two tests have it; no last recommendation is made
        process.wait(120)
        listening.join(60)


def _listen(process, said):
    with process.stdout as lines:
        for line in lines:
            said.append(line)


def until(process, said, happened, what):
    """As `wait_until`, but fails at once, with what it said, if the process ends first."""

    def looked():
        alive = process.poll() is None  # before the look: what happens last must still be seen
        answer = happened()
        assert answer or alive, f"ended with {process.returncode} before {what}: {''.join(said)[-2000:]}"
        return answer

    return wait_until(looked, what)


def page_of(process, said):
    """Where the page is, once it is told."""
    address = r"page: (http://\S+)"
    return until(process, said, lambda: next(iter(re.findall(address, "".join(said))), ""), "the page's address")


def servers(process):
    return [p for p in psutil.Process(process.pid).children() if "serve" in p.cmdline()]


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - the page beside the campaign
        return answer.read().decode()


def test_a_page_that_is_killed_does_not_disturb_the_campaign(tmp_path):
    """It is told once; trials go on, as many as there is money for, and the exit code is the campaign's own."""
    with rigctl(*DEMO, cwd=tmp_path) as (process, said):
        url = page_of(process, said)
        (server,) = servers(process)
        until(process, said, lambda: "greenhouse" in get(url), "the page of the campaign")
        server.send_signal(signal.SIGKILL)
        goes_on = re.compile(r"the page has ended.*trial \d+ recorded", re.DOTALL)
        until(process, said, lambda: goes_on.search("".join(said)), "a trial after the end of the page")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    assert "".join(said).count("the page has ended") == 1


def test_the_page_ends_with_its_campaign_however_that_ends(tmp_path):
    """Killed outright: nobody is left to say so, and the page ends all the same."""
    with rigctl(*DEMO, cwd=tmp_path) as (process, said):
        page_of(process, said)
        (server,) = servers(process)
        process.send_signal(signal.SIGKILL)
        process.wait(120)
        server.wait(60)
        assert not server.is_running()


def test_a_port_that_is_taken_costs_no_page_beside_a_campaign(tmp_path):
    """Another one is taken, and told."""
    with rigctl(*DEMO, cwd=tmp_path) as first, rigctl(*DEMO, cwd=tmp_path) as second:
        assert page_of(*first) != page_of(*second)


def test_what_a_person_does_on_the_command_line_is_in_status_and_export(tmp_path):
    """Pause and resume of the demo, by name."""
    kept = tmp_path / "kept"
    state = kept / "state"

    def ask(*words):
        done = run(["rigctl", *words, "--state", state, "--json"])
        return json.loads(done.stdout) if done.returncode == 0 else {}

    with rigctl("demo", "--seed", "1", "--budget", "200", "--keep", str(kept), cwd=tmp_path) as demo:
        begun = "SELECT 1 FROM trials WHERE trial > ?"
        until(*demo, lambda: rows(state, begun, 1), "trials")
        assert ask("pause", "--why", "a leak")
        paused = until(*demo, lambda: (s := ask("status")).get("phase") == "paused" and s, "the pause")
        assert "a leak" in paused["why"]
        assert paused["acts"][-1]["verb"] == "pause"
        assert str(os.getuid()) in paused["acts"][-1]["who"]
        assert ask("resume")
        until(*demo, lambda: rows(state, begun, paused["trials"]), "more trials")
        assert ask("stop")


def at_real_speed(config):
    """The rig's time is that of the wall; instruments take theirs to answer."""
    config["clock"] = {"speedup": 1}
    for device in config["devices"].values():
        device["timeout"] = "3 s"


def test_safe_from_the_page_lets_go_within_two_seconds_at_real_speed(tmp_path):
    """Told by a form of the page while a trial settles; the witness is the simulator."""
    rig = start_sim("greenhouse", tmp_path, speed=1.0, seed=5)
    stack = Stack(rig, tmp_path)
    try:
        config = greenhouse(tmp_path / "rig.yaml", [("b", "nh4", "k")], prepare="1 s", settle="1 h", edit=at_real_speed)
        run = stack.run(config, tmp_path / "state", "--serve")
        url = run.until(lambda: next(iter(re.findall(r"page: (http://\S+)", run.said)), ""), "the page")
        token = TokenFile(run.state).create("Anna", by="a test")
        with httpx2.Client(base_url=url, timeout=120) as client:
            assert client.post("/login", data={"token": token}).status_code == 303
            secret = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)[1]
            run.until(lambda: run.count("RUNNING"), "a trial that settles")
            assert set(rig.state()["plant"]["setpoints"]) == {"b", "nh4", "k"}
            began_s = time.monotonic()
            assert client.post("/act/safe", data={"csrf": secret}).status_code == 303
            took_s = time.monotonic() - began_s
            assert rig.state()["plant"]["setpoints"] == {}
        assert run.wait() == 0
        print(f"safe from the page, rig at speed 1: {took_s:.2f} s")
        assert took_s < PROMISE_S + MARGIN_S
        assert run.answer["ending"] == "abandoned"
        assert run.answer["safe_after_s"] < PROMISE_S + MARGIN_S
    finally:
        stack.end()
        rig.stop()
