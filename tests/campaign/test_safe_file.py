import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rigctl.campaign import safe_file
from rigctl.campaign.lock import Writer
from rigctl.campaign.safe_file import Driven, SafeFile, driven_by, go_safe, joined, of_rig, until_confirmed
from rigctl.codec import from_json, to_json
from rigctl.errors import JournalUnwritable, RigctlError
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.places import Seen
from rigctl.rig.values import News, SafeReport
from tests.campaign.fakes import make_rig_spec

VALVE = Driven(
    "valve", "modbus", "modbus_tcp://127.0.0.1:1", {"address": 1, "enable": {"coil": 2}}, 0.2, "actuator", "off"
)


def word(**changes):
    return SafeFile(
        **{"rig": "r", "driven": True, "speedup": 2.0, "devices": (VALVE,), "writer": Writer(1, "2", "3"), **changes}
    )


def test_what_is_written_is_read_again(tmp_path):
    """Nothing is lost on the way, and no other file is left."""
    safe_file.write(tmp_path, word())
    assert safe_file.read(tmp_path) == word()
    assert [p.name for p in tmp_path.iterdir()] == ["safe.json"]
    assert (tmp_path / "safe.json").stat().st_mode & 0o077 == 0  # it says how the rig is reached


def test_a_pump_is_stopped_as_what_doses_and_a_valve_is_let_go_as_what_is_set():
    """They are made safe by other words."""
    rig = make_rig_spec(
        speedup=60.0, limits=dict.fromkeys(("pump", "valve"), ActuatorLimits(low=0.0, high=1.0, safe_state="off"))
    )
    devices = {name: replace(rig.devices["pump"], name=name) for name in rig.limits}
    kinds = {d.name: d.kind for d in driven_by(replace(rig, devices=devices))}
    assert kinds == {"pump": "doser", "valve": "actuator"}
    told = of_rig(rig, {}, driven=True)
    assert (told.driven, told.speedup) == (True, rig.speedup)


def test_where_nothing_was_driven_there_is_no_word(tmp_path):
    """No file, and no directory either, is no error."""
    assert safe_file.read(tmp_path) is None
    assert safe_file.read(tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 9}'])
def test_a_word_that_cannot_be_read_is_named(tmp_path, text):
    """Spoilt, or of a newer version: an error with the file's name, never a traceback."""
    (tmp_path / "safe.json").write_text(text)
    with pytest.raises(RigctlError, match=r"safe\.json"):
        safe_file.read(tmp_path)


def test_a_word_of_a_newer_version_is_refused_as_that(tmp_path):
    """It is written with its version; another rigctl may drive what this one cannot read."""
    safe_file.write(tmp_path, word())
    content = json.loads((tmp_path / "safe.json").read_text())
    assert content["version"] == 2
    (tmp_path / "safe.json").write_text(json.dumps({**content, "version": 3}))
    with pytest.raises(RigctlError, match="newer"):
        safe_file.read(tmp_path)


def test_a_word_that_cannot_be_written_lets_nothing_move(tmp_path, golden):
    """JournalUnwritable, as for the journal itself."""
    with golden.raises(JournalUnwritable):
        safe_file.write(tmp_path / "nowhere", word())


def test_a_process_is_told_from_a_later_one_with_its_number():
    """Alive: this process; not: one that has ended, one of another boot, one that started at another time."""
    me = Writer.this_process()
    done = subprocess.Popen([sys.executable, "-c", ""])
    gone = Writer(done.pid, me.started, me.boot)
    done.wait()
    assert me.alive
    others = (gone, Writer(me.pid, me.started, "other"), Writer(me.pid, "1", me.boot))
    assert not any(other.alive for other in others)
    assert from_json(Writer, to_json(me)) == me


def test_a_device_whose_driver_is_gone_keeps_no_other_from_going_safe():
    """Each that cannot be reached or made is told with its reason."""
    lost = Driven("pump", "no-such-driver", "serial:///nowhere", {}, 0.2, "doser", "off")
    odd = Driven("odd", "modbus", VALVE.url, {"spoon": 1}, 0.2, "actuator", "off")
    report = go_safe((lost, VALVE, odd), 1.0)
    assert set(report.failed) == {"pump", "valve", "odd"}
    assert "no-such-driver" in report.failed["pump"]
    assert "spoon" in report.failed["odd"]
    assert "127.0.0.1:1" in report.failed["valve"]


def test_a_safe_state_is_meant_for_the_instrument_that_stood_there(monkeypatch):
    """Whoever stands there now must not be given a value of another's; of one that was never seen nothing is known."""
    seen, expected = Seen("io8", "0042", ""), {}

    async def safe():
        return SafeReport(("valve",))

    async def close():
        pass

    rig = SimpleNamespace(hands=SimpleNamespace(expect=expected.__setitem__), safe=safe, close=close)
    monkeypatch.setattr(safe_file, "_rig", lambda *_: rig)
    assert go_safe((replace(VALVE, seen=seen), replace(VALVE, name="other")), 1.0).ok
    assert expected == {"valve": seen}


async def test_a_moment_is_over_sooner_if_there_is_something_to_see():
    """And not before; the next one begins anew."""
    sooner = asyncio.Event()
    waiting = asyncio.ensure_future(safe_file.moment(600.0, sooner))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    sooner.set()
    await waiting
    assert not sooner.is_set()


def test_the_same_instrument_under_two_names_is_driven_once(golden):
    """Joined by place; another instrument of the same name is called by its origin."""
    renamed = Driven("b", *(getattr(VALVE, f) for f in Driven.__slots__[1:]))
    moved = Driven(
        VALVE.name, VALVE.driver, "modbus_tcp://127.0.0.1:2", *(getattr(VALVE, f) for f in Driven.__slots__[3:])
    )
    assert joined((VALVE,), (renamed,)) == (VALVE,)
    golden([d.name for d in joined((VALVE,), (moved,))])


async def test_what_is_not_confirmed_safe_is_tried_again_and_logged_every_minute(monkeypatch):
    """Pauses double from one second to ten; an alarm when it begins and when it is over, however often it is tried."""
    clock, pauses, alarms, logged_s = SimpleNamespace(now_s=0.0), [], [], []
    news, left = News(), SafeReport((), {"valve": "silent"})
    news.alarm = lambda alarm: alarms.append((alarm.kind, alarm.state, clock.now_s))
    log = SimpleNamespace(error=lambda *_, **__: logged_s.append(clock.now_s))

    async def moment(within_s, _):
        pauses.append(within_s)
        clock.now_s += within_s

    async def safe():
        return left if clock.now_s < 135.0 else SafeReport(("valve",))

    monkeypatch.setattr(safe_file, "moment", moment)
    monkeypatch.setattr(safe_file, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    monkeypatch.setattr(safe_file, "logger", lambda _: log)
    assert (await until_confirmed(safe, left, news, lambda: False, what="it stays")).ok
    assert pauses == [1.0, 2.0, 4.0, 8.0, *[10.0] * 12]
    assert logged_s == [65.0, 125.0]
    assert alarms == [("unconfirmed", "stands", 0.0), ("unconfirmed", "over", 135.0)]
