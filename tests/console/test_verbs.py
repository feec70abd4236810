"""How verbs refuse, tell programs of it, and are completed by a shell."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rigctl.console.options import complete_config
from rigctl.console.verbs import error_fields
from rigctl.errors import DeviceTimeout, GuardRefused, UsageError
from rigctl.flaws import got
from tests import forked
from tests.console.conftest import ROOT
from tests.console.test_cli import commands

REFUSED = {
    "check": ("none.yaml",),
    "run": ("none.yaml",),
    "demo": ("--scenario", "moon"),
    "suggest": ("none.yaml",),
    "ingest": ("bench.yaml",),
    "trial explain": ("bench.yaml", "--trial", "99"),
    "safe": ("none.yaml",),
    "device accept": ("a", "b", "c"),
}
"""Verbs called so that they must refuse; the others have no campaign to be about."""


TOLD_TO_PROGRAMS = [name for name, verb in commands().items() if any("--json" in p.opts for p in verb.params)]


@pytest.mark.parametrize("verb", [v for v in TOLD_TO_PROGRAMS if v not in ("tools drivers", "tools bench latency")])
def test_a_refusal_is_told_to_programs(bench, verb):
    """Under --json standard output is one object that says the same as standard error, with the exit code."""
    told = bench.rigctl(*verb.split(), *REFUSED.get(verb, ("none.yaml",)), "--json", code=2)
    error = told.json["error"]
    assert told.json["exit_code"] == 2
    assert error["kind"].endswith("Error")
    assert told.err == f"rigctl: {error['what']}\n"


def test_what_a_message_says_is_told_by_its_parts(bench, golden):
    """Where, got, allowed and remedy, as far as a message has them."""
    golden(error_fields(UsageError(got("x", "must be NAME=URL", where="--bus"))))
    device = error_fields(
        DeviceTimeout(got(None, "must be a reading", "look at its cable"), device="ph", bus="tcp://x")
    )
    assert (device["devices"], device["device"], device["bus"]) == (["ph"], "ph", "tcp://x")
    golden(device["remedy"])
    assert device["got"] == "nothing"
    golden(error_fields(GuardRefused("the pump is latched")))


@pytest.mark.parametrize("words", [("status",), ("serve", "--port", "0"), ("import", "a.yaml", "b.csv")])
def test_a_folder_that_has_gone_is_said_to_be(tmp_path, monkeypatch, bench, words, golden):
    """Whoever deletes the folder that a terminal stands in is told so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    golden(bench.rigctl(*words, code=2).err)


def test_configurations_are_offered_and_the_way_to_them(bench):
    """YAML files and directories, nothing hidden and nothing else."""
    (bench.folder / "config").mkdir()
    for name in ("config/lathe.yml", "config/.secret.yaml", "config/notes.txt"):
        bench.write(name, "")
    assert list(complete_config("")) == ["bench.yaml", "config/"]
    assert list(complete_config("b")) == ["bench.yaml"]
    assert list(complete_config("config/")) == ["config/lathe.yml"]
    assert list(complete_config(f"{bench.folder}/config/l")) == [f"{bench.folder}/config/lathe.yml"]
    assert list(complete_config("nowhere/")) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_verbs_options_and_configurations(bench):
    """With the function that `rigctl --show-completion` has bash define."""
    command = bench.folder / "bin/rigctl"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rigctl "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    asked = {"recom": "recommend", "recommend --sta": "--state", "check be": "bench.yaml", "bench fi": "figures"}
    lines = [
        'export _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1; eval "$(rigctl --show-completion bash)"',
        *(
            f"COMP_WORDS=(rigctl {words}); COMP_CWORD={len(words.split())}\n"
            '_rigctl_completion rigctl; echo "${COMPREPLY[@]}"'
            for words in asked
        ),
    ]
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        ["bash"], input="\n".join(lines), capture_output=True, text=True, env=environment, check=True
    )
    assert found.stdout.split("\n")[:-1] == list(asked.values()), found.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", [("schema",), ("--help",), ("explain", "--state", "nowhere", "--json")])
def test_no_room_for_what_is_printed_is_told_in_a_line(words):
    """No traceback, neither as it is written nor when the process ends."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        found = forked.run(["rigctl", *words], stdout=full)
    told = "rigctl: standard output: cannot be written: No space left on device; what is there is not whole\n"
    assert (found.returncode, found.stderr) == (1, told)


@pytest.mark.slow
def test_what_belongs_to_somebody_else_is_told_with_its_owner(ingested, monkeypatch, golden):
    """In one line, of every verb; and nobody is told to kill a campaign that is well because it is not theirs."""

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "state/bench/journal.sqlite")

    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    monkeypatch.setattr("socket.socket.connect", refused)
    asked = ingested.rigctl("pause", "bench.yaml", code=1).err
    golden(asked)
    assert f"`sudo -u '#{owner}' rigctl ...`" in asked
    assert "kill" not in asked
    monkeypatch.setattr("rigctl.console.journals.back_up", refused)
    told = ingested.rigctl("backup", "bench.yaml", code=1).err
    golden(told)
    assert f"'#{owner}'" in told
    monkeypatch.setattr("os.geteuid", lambda: owner)
    golden(ingested.rigctl("backup", "bench.yaml", code=1).err)
