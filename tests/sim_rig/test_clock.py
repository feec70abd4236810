import pytest

from sim_rig.clock import SteppedTimer, Timer
from sim_rig.errors import CommandError, ControlError
from tests.sim_rig.fakes import ask, serial_port
from tests.simulated import start_sim


def test_a_stepped_clock_does_what_is_due_on_its_way():
    """Calls come in the order of their times, each at its own instant, with the plant brought up to it."""
    timer, seen = SteppedTimer(2400.0), []
    timer.sync = lambda: seen.append(("plant", timer.now_s()))

    def again():
        seen.append(("again", timer.now_s()))
        timer.after(3.0, lambda: seen.append(("late", timer.now_s())))

    timer.after(5.0, again)
    timer.after(2.0, lambda: seen.append(("first", timer.now_s())))
    timer.after(4.0, lambda: seen.append(("never", timer.now_s()))).cancel()
    timer.soon(0.3, lambda: seen.append(("soon", timer.now_s())))
    timer.go_to(6.0)
    happened = [("first", 2.0), ("again", 5.0)]
    assert seen == [("soon", 0.0), *(e for what in happened for e in (("plant", what[1]), what)), ("plant", 6.0)]
    timer.go_to(100.0)
    assert seen[-3:] == [("plant", 8.0), ("late", 8.0), ("plant", 100.0)]


@pytest.mark.parametrize("time_s", [4.9, float("nan"), float("inf")])
def test_a_stepped_clock_only_goes_on(time_s):
    """What is over stays over, and there is no such time as never."""
    timer = SteppedTimer()
    timer.go_to(5.0)
    with pytest.raises(ControlError, match="go_to"):
        timer.go_to(time_s)
    assert timer.now_s() == 5.0


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_is_positive(speed):
    """Time that stands still or runs backwards is refused, stepped or not."""
    for timer in (Timer, SteppedTimer):
        with pytest.raises(CommandError, match="--speed"):
            timer(speed)


def test_a_stepped_rig_stands_still_until_it_is_told(tmp_path):
    """A dose ends, and a reading changes, when the clock is told to go on, and not before."""
    rig = start_sim("greenhouse", tmp_path, seed=3, options=["--stepped"])
    try:
        with serial_port(rig.path("ca")) as pump, serial_port(rig.path("ph")) as ph:
            assert ask(pump, "D,10") == ["*OK"]
            assert ask(ph, "C,0") == ["*OK"]
            readings = [ask(ph, "R")[0] for _ in range(5)]
            assert ask(pump, "D,?")[0] == "?D,0.00,1"
            rig.control({"go_to": 5.0})
            assert ask(pump, "D,?")[0] == "?D,4.88,1"
            rig.control({"go_to": 60.0})
            assert pump.read_until(b"\r") == b"*DONE,10.00\r"
            readings.append(ask(ph, "R")[0])
        assert len(set(readings)) == 2
        (dose,) = rig.state()["doses"]
        assert (dose["started_s"], dose["ended_s"], rig.state()["time_s"]) == (0.0, pytest.approx(600 / 58.5), 60.0)
        assert not rig.ask({"go_to": 59.0})["ok"]
    finally:
        rig.stop()


def test_a_clock_that_runs_by_itself_is_not_told(greenhouse):
    """Asked to go somewhere, it says how to get a clock that does."""
    answer = greenhouse.ask({"go_to": 1e9})
    assert not answer["ok"]
    assert "--stepped" in answer["error"]
