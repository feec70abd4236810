"""Whoever is told hangs, and what tells them is killed: messages are lost, nothing else, and no secret gets out."""

import json
import signal

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.notify.party import PLANTED, listening
from tests.system.signal_matrix import is_safe
from tests.system.stack import greenhouse, wait_until

pytestmark = pytest.mark.system


def tellers(run):
    """The processes that tell people."""
    children = psutil.Process(run.process.pid).children(recursive=True)
    return [child for child in children if "rigctl.notify.process" in " ".join(child.cmdline())]


def test_fault_46_who_is_told_hangs_and_what_tells_is_killed(sim, stack, tmp_path):
    """Trials go on; the others are told; one alarm; the secret is in its file and in messages' addresses only."""
    secrets, numbers = tmp_path / "secrets.txt", tmp_path / "rig.prom"
    tells = {
        "notify": {"urls": {"file": str(secrets)}, "alive": {"url": {"env": "PING_URL"}}},
        "metrics": {"textfile": str(numbers)},
    }
    config = greenhouse(tmp_path / "rig.yaml", edit=lambda rig: rig.update(tells))
    with listening() as ready, listening(hangs=True) as hanging:
        secrets.touch(0o600)
        secrets.write_text(f"{ready.url}\n{hanging.url}\n", encoding="utf-8")
        run = stack.run(config, tmp_path / "state", PING_URL=ready.ping)
        run.until(lambda: ready.messages and ready.asked and hanging.came.is_set(), "a message and a sign of life")
        run.until(numbers.exists, "numbers")
        (teller,) = tellers(run)
        family = psutil.Process(run.process.pid)
        shown = [" ".join(process.cmdline()) for process in (family, *family.children(recursive=True))]
        teller.send_signal(signal.SIGKILL)
        anew = "SELECT 1 FROM alarms WHERE source = 'telling' AND message LIKE '%started again%' AND action = 'warn'"
        run.until(lambda: run.rows(anew), "an alarm")
        before = run.count("RECORDED")
        run.until(lambda: run.count("RECORDED") > before, "trials")
        run.until(lambda: tellers(run) and tellers(run) != [teller], "another process")
        hanging.hangs = False
        hanging.free.set()
        status = stack.rigctl("status", "--state", tmp_path / "state", "--json")
        assert status.wait() == 0
        assert stack.rigctl("stop", "--state", tmp_path / "state").wait() == 0
        assert run.wait() == 0
        wait_until(lambda: any("ended" in m["title"] for m in ready.messages), "the last message")
    assert len(run.rows(anew)) == 1
    assert is_safe(sim)
    families = {f.name: f.samples for f in text_string_to_metric_families(numbers.read_text(encoding="utf-8"))}
    assert sum(s.value for s in families["rigctl_trials"] if s.labels["state"] == "RECORDED") > 1
    written = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file() and f != secrets}
    assert [file for file, data in written.items() if PLANTED.encode() in data] == []
    assert PLANTED not in " ".join(shown) + json.dumps(ready.messages)
