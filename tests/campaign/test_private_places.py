"""Whose a state directory is, and who answers in it (fault 86)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from rigctl.campaign import control, safe_file
from rigctl.campaign.lock import FILE_NAME, state_lock
from rigctl.errors import JournalUnwritable, RigctlError, UsageError

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
FAKE = """
import socket, sys
with socket.socket(socket.AF_UNIX) as ear:
    ear.bind(sys.argv[1])
    ear.listen()
    print("ready", flush=True)
    line, _ = ear.accept()
    asked = line.makefile("rb").readline()
    print("asked" if asked else "not asked", flush=True)
    line.sendall(b'{"ok": true, "reached": [], "failed": {}}' + bytes([10])) if asked else None
"""


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_fault_86_a_directory_whose_files_others_may_replace_is_refused(tmp_path, mode):
    """Nothing is written into it."""
    tmp_path.chmod(mode)
    with pytest.raises(UsageError), state_lock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


@root
def test_fault_86_a_directory_of_another_owner_is_refused(tmp_path):
    """Nothing is written into it."""
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(UsageError), state_lock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_fault_86_no_link_in_the_directory_leads_what_is_written_elsewhere(tmp_path):
    """Temporary file and lock: the file that a link leads to stays as it was."""
    state, victim = tmp_path / "state", tmp_path / "victim"
    state.mkdir(0o700)
    victim.write_text("precious", encoding="utf-8")
    (state / "word.new").symlink_to(victim)
    safe_file.put(state / "word.json", {"version": 1})
    (state / FILE_NAME).symlink_to(victim)
    with pytest.raises(JournalUnwritable), state_lock(state):
        pass
    assert victim.read_text(encoding="utf-8") == "precious"


def test_fault_86_who_does_not_hold_the_lock_is_asked_nothing(tmp_path):
    """A process that listens where a campaign would: the kernel says that it is another one."""
    where = tmp_path / control.FILE_NAME
    with (
        state_lock(tmp_path),
        subprocess.Popen([sys.executable, "-c", FAKE, where], stdout=subprocess.PIPE, text=True) as fake,
    ):
        assert fake.stdout.readline() == "ready\n"
        with pytest.raises(RigctlError):
            control.ask(tmp_path, "safe")
        assert fake.stdout.readline() == "not asked\n"


def test_who_holds_the_lock_is_asked(tmp_path):
    """The process that signed it, and no other."""
    with state_lock(tmp_path), closing(socket.socket(socket.AF_UNIX)) as ear:
        ear.bind(str(tmp_path / control.FILE_NAME))
        ear.listen()
        with pytest.raises(RigctlError):  # it never answers, but it was asked
            control.ask(tmp_path, "status", timeout_s=0.05)
        line, _ = ear.accept()
        with line:
            assert b"status" in line.recv(100)
