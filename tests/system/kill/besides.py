"""Kills what is done beside a campaign: a backup, and the recovery of a damaged copy of its journal."""

import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from rigctl.campaign.journal.backup import back_up
from rigctl.campaign.journal.reader import FILE_NAME
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.journal.verifying import verified
from rigctl.errors import JournalCorrupt, RigctlError

PAGE = 4096
MEAN_S = 0.03
"""What is done takes some tenths of a second."""
UTC = "2026-11-24T12:00:00+00:00"


def killed(work: Callable[[], object], after_s: float) -> bool:
    """Do something in a child that is killed after this time; return whether it was killed before its end."""
    pid = os.fork()
    if not pid:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child must not return into its parent's code
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    time.sleep(after_s)
    os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise AssertionError(f"exit {status}")
    return status != 0


def backup_killed(state: Path, home: Path, chance: random.Random) -> Iterator[str]:
    """Kill a backup; what has a backup's name is whole, and the next one succeeds."""
    folder = home / "backups"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    first, second = folder / "first.sqlite", folder / "second.sqlite"
    killed(lambda: back_up(state / FILE_NAME, first), chance.expovariate(1 / MEAN_S))
    back_up(state / FILE_NAME, second)
    for file in (first, second):
        if file.exists() and (found := verified(file).violations):
            yield f"backup {file.name}: {found[0]}"


def recovery_killed(state: Path, home: Path, chance: random.Random) -> Iterator[str]:
    """Kill the recovery of a copy with a spoilt page; the copy stays, and what was begun is refused, empty or whole."""
    folder = home / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in (FILE_NAME, f"{FILE_NAME}-wal"):
        if (state / file).exists():
            shutil.copy(state / file, folder / file)
    damaged = folder / FILE_NAME
    data = bytearray(damaged.read_bytes())
    if len(data) < 8 * PAGE:  # nearly all of it is in its log
        return
    at = PAGE * chance.randrange(1, len(data) // PAGE)
    data[at : at + PAGE] = bytes(PAGE)
    damaged.write_bytes(data)
    begun, whole = home / "begun", home / "whole"
    for target in (begun, whole):
        shutil.rmtree(target, ignore_errors=True)
    killed(lambda: _recovered(damaged, begun), chance.expovariate(1 / (5 * MEAN_S)))
    if damaged.read_bytes() != bytes(data):
        yield "recover: the damaged file was touched"
    if not _recovered(damaged, whole):
        return
    left = _violations(whole / FILE_NAME)  # what was on the page may be missing in both
    if any(table == "file" for table, _, _ in left):
        yield f"recover: {left}"
    if more := _violations(begun / FILE_NAME) - left:
        yield f"recover, killed: {more}"


def _recovered(damaged: Path, target: Path) -> bool:
    try:
        recover_journal(damaged, target, "Ada", UTC)
    except JournalCorrupt:
        return False
    return True


def _violations(journal: Path) -> set[tuple[str, str, str]]:
    try:
        return {(v.table, v.row, v.what) for v in verified(journal).violations} if journal.exists() else set()
    except RigctlError:  # it never came to be a journal
        return set()
