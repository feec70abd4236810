"""Whose a state directory is, and who answers in it (fault 86)."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, closing

import pytest
from pyModbusTCP.server import ModbusServer

from rigctl.campaign import control, safe_file
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.lock import FILE_NAME, Writer, state_lock
from rigctl.campaign.safe_file import Driven, SafeFile
from rigctl.console.safe import safe_first
from rigctl.errors import JournalUnwritable, RigctlError, UsageError
from rigctl.page import access
from rigctl.page.access import TokenFile
from rigctl.rig.values import SafeReport
from tests.fixtures import FINISHED, unpacked
from tests.forked import run

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


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777, pytest.param(None, marks=root)])
def test_fault_86_a_directory_whose_files_others_may_replace_is_refused(tmp_path, mode):
    """Nothing is written into it, nor into one of another owner."""
    os.chown(tmp_path, 12345, 12345) if mode is None else tmp_path.chmod(mode)
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
        assert fake.stdout.readline().strip() == "not asked"


@pytest.mark.system
@pytest.mark.parametrize("lives", [False, True], ids=["by what was left", "beside a campaign that lives"])
def test_fault_86_rigctl_safe_is_not_talked_out_of_it_by_whoever_answers(tmp_path, lives):
    """At speed 1, a PLC of pyModbusTCP with a coil on: it is off, or it is said who must be ended first."""
    plc = ModbusServer("127.0.0.1", 0, no_block=True)
    plc.start()
    plc.data_bank.set_coils(2, [True])
    try:
        url = f"modbus_tcp://127.0.0.1:{plc._service.server_address[1]}"
        valve = Driven("valve", "modbus", url, {"address": 1, "enable": {"coil": 2}}, 1.0, "actuator", "off")
        safe_file.write(tmp_path, SafeFile("rig", True, 1.0, (valve,), Writer(1, "2", "3")))
        where = tmp_path / control.FILE_NAME
        (tmp_path / FILE_NAME).write_text("1\n2 3\n", encoding="ascii")  # as one of another boot has signed it
        with ExitStack() as living:
            if lives:
                living.enter_context(state_lock(tmp_path))
            fake = living.enter_context(
                subprocess.Popen([sys.executable, "-c", FAKE, where], stdout=subprocess.PIPE, text=True)
            )
            assert fake.stdout.readline() == "ready\n"
            done = run(["rigctl", "safe", "--state", tmp_path, "--json"])
            assert fake.stdout.readline().strip() == "not asked"
        assert done.returncode == (1 if lives else 0), done
        assert plc.data_bank.get_coils(2, 1) == [lives]
        if not lives:
            answer = json.loads(done.stdout)
            assert (answer["ok"], answer["reached"], answer["by"]) == (True, ["valve"], "rigctl safe")
            assert str(fake.pid) in answer["notes"][0]
    finally:
        plc.stop()


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


def test_fault_86_every_file_of_ours_replaces_a_link_instead_of_following_it(tmp_path):
    """Word of what is driven, tokens and their lock, the page's audit: no victim of six is touched."""
    state = tmp_path / "state"
    state.mkdir(0o700)
    names = ("safe.new", "safe.json", "tokens.new", "tokens.lock", "page-audit.jsonl", "control.sock")
    victims = {name: tmp_path / f"victim of {name}" for name in names}
    for name, victim in victims.items():
        victim.write_text("precious", encoding="utf-8")
        victim.chmod(0o644)
        (state / name).symlink_to(victim)
    safe_file.put(state / "safe.json", {"version": 1})
    with pytest.raises(RigctlError):
        TokenFile(state).create("Anna", by="a test")
    (state / "tokens.lock").unlink()
    TokenFile(state).create("Anna", by="a test")
    access.keep(state, "denied", "somebody", "the page", "wrong token")
    asyncio.run(listened(state))
    assert {v.read_text(encoding="utf-8") for v in victims.values()} == {"precious"}
    assert {v.stat().st_mode & 0o777 for v in victims.values()} == {0o644}
    assert {f.stat().st_mode & 0o777 for f in (state / "safe.json", state / "tokens.json")} == {0o600}


async def listened(state):
    """Have the control socket made; its file is its owner's alone."""
    async with control.serving(state, {}):
        assert (state / control.FILE_NAME).lstat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_fault_86_no_token_is_made_where_others_may_write(tmp_path, mode):
    """Nothing is written there, the lock of the tokens neither."""
    tmp_path.chmod(mode)
    with pytest.raises(UsageError):
        TokenFile(tmp_path).create("Anna", by="a test")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["mode", "link", "pipe", pytest.param("owner", marks=root)])
def test_fault_86_word_that_others_may_have_left_drives_nothing(tmp_path, monkeypatch, how):
    """A start goes safe by the file beside the journal before all else: never by one that others could write."""
    word, driven = tmp_path / safe_file.FILE_NAME, []
    valve = Driven("valve", "modbus", "modbus_tcp://127.0.0.1:1", {"address": 1}, 0.2, "actuator", 1.0)
    safe_file.write(tmp_path, SafeFile("rig", True, 1.0, (valve,), Writer(1, "2", "3")))
    monkeypatch.setattr("rigctl.console.safe.go_safe", lambda devices, *_: driven.append(devices) or SafeReport(()))
    assert safe_first(tmp_path / "rig.yaml", tmp_path) is not None
    assert len(driven) == 1
    if how == "mode":
        word.chmod(0o666)
    elif how == "owner":
        os.chown(word, 12345, 12345)
    else:
        word.rename(tmp_path / "elsewhere")
        word.symlink_to("elsewhere") if how == "link" else os.mkfifo(word)
    assert safe_first(tmp_path / "rig.yaml", tmp_path) is None
    with pytest.raises(RigctlError):
        safe_file.read(tmp_path)
    assert len(driven) == 1


@root
def test_root_goes_safe_by_what_the_owner_of_the_directory_left(tmp_path):
    """A service of another user has left its rig driven: root may help."""
    safe_file.write(tmp_path, SafeFile("rig", True, 1.0, (), Writer(1, "2", "3")))
    for path in (tmp_path, tmp_path / safe_file.FILE_NAME):
        os.chown(path, 12345, 12345)
    assert safe_file.read(tmp_path).driven


def test_fault_86_a_journal_is_not_recovered_to_where_others_may_write(tmp_path):
    """Nothing of it is written there."""
    to = tmp_path / "shared"
    to.mkdir()
    to.chmod(0o777)
    with pytest.raises(UsageError):
        recover_journal(unpacked(FINISHED, tmp_path) / "journal.sqlite", to, "Ada", "now")
    assert list(to.iterdir()) == []
