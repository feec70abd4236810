import math

import pytest

from sim_rig.errors import ControlError
from sim_rig.faults import SensorTap, WireFault, WireFaults


@pytest.mark.parametrize(
    ("fault", "chunks"),
    [
        (WireFault("drop_reply"), []),
        (WireFault("delay", seconds=0.7), [(0.7, b"\x01\x02\x03\x04")]),
        (WireFault("corrupt"), [(0.0, b"\x01\x02\x07\x04")]),
        (WireFault("truncate"), [(0.0, b"\x01\x02")]),
        (WireFault("garbage", data=b"\xaa"), [(0.0, b"\xaa\x01\x02\x03\x04")]),
        (WireFault("dribble", seconds=0.02), [(0.02, bytes([b])) for b in (1, 2, 3, 4)]),
        (WireFault("stale"), [(0.0, b"before")]),
    ],
    ids=lambda v: v.kind if isinstance(v, WireFault) else "",
)
def test_each_fault_shapes_one_reply(fault, chunks):
    """A fault applies once, then the wire works again."""
    faults = WireFaults()
    faults.shape(b"before")
    faults.add(fault)
    assert faults.shape(b"\x01\x02\x03\x04") == chunks
    assert faults.shape(b"after") == [(0.0, b"after")]


def test_faults_queue_and_count():
    """Faults are consumed in order, each as often as asked; -1 stays until cleared."""
    faults = WireFaults()
    faults.add(WireFault("drop_reply", count=2))
    faults.add(WireFault("truncate", count=-1))
    seen = [faults.shape(b"abcd") for _ in range(5)]
    assert seen == [[], [], [(0.0, b"ab")], [(0.0, b"ab")], [(0.0, b"ab")]]
    faults.clear()
    assert faults.shape(b"abcd") == [(0.0, b"abcd")]


def test_a_fault_for_no_reply_is_refused():
    """A count of zero means nothing."""
    with pytest.raises(ControlError, match="count"):
        WireFaults().add(WireFault("delay", count=0))


def test_sensor_faults():
    """A tap shows the value, no value, an end of the scale, an offset, or for ever the last value."""
    values = iter([3.0, 4.0, 5.0, 6.0])
    tap = SensorTap(lambda: next(values), full_scale=14.0)
    assert tap() == 3.0
    tap.mode = "frozen"
    assert [tap(), tap()] == [3.0, 3.0]
    tap.mode = "nan"
    assert math.isnan(tap())
    tap.mode = "zero"
    assert tap() == 0.0
    tap.mode = "fullscale"
    assert tap() == 14.0
    tap.mode, tap.offset = "offset", 0.5
    assert tap() == 4.5
    tap.mode = "ok"
    assert tap() == 5.0
