import numpy as np
import pytest

from sim_rig.plants import lathe as lathe_physics
from sim_rig.plants.lathe import Lathe
from sim_rig.plants.tunnel import SelfNoise, Tunnel


def loaded(lathe):
    lathe.command_load(True)
    lathe.advance(600.0)
    lathe.command_load(False)
    return lathe


def hold(drives, **setpoints):
    for name, value in setpoints.items():
        drives.channels[name].impose(value)
        drives.channels[name].enabled = True


def test_a_drive_holds_its_setpoint_and_lets_go():
    """Enabled, a variable is at its setpoint; released, it goes back to what this workpiece brought."""
    lathe = Lathe(np.random.SeedSequence(2))
    hold(lathe, speed=250.0)
    loaded(lathe)
    assert lathe.channels["speed"].value == pytest.approx(250.0, abs=3.0)
    lathe.channels["speed"].enabled = False
    lathe.advance(100.0)
    assert lathe.channels["speed"].value == pytest.approx(lathe.channels["speed"].natural)


def test_wear_and_coolant_follow_taylor_and_the_cut():
    """One workpiece wears the tool and loses coolant as the formulas say for the cut's duration, and then no more."""
    lathe = Lathe(np.random.SeedSequence(3))
    hold(lathe, speed=200.0, feed=0.1, depth=1.0, coolant=6.0, hardness=220.0)
    lathe.advance(200.0)
    x = lathe.values()[None, :]
    wear, lost = lathe.wear_mm3, lathe.concentrate_ml
    loaded(lathe)
    x = (x + lathe.values()[None, :]) / 2
    minutes = lathe_physics.cutting_min(x[:, 0], x[:, 1])[0]
    assert lathe.wear_mm3 - wear == pytest.approx(lathe_physics.wear_mm3_per_min(x)[0] * minutes, rel=0.05)
    assert lathe.concentrate_ml - lost == pytest.approx(8.0 * 6.0 * minutes, rel=0.05)
    after = lathe.wear_mm3
    lathe.advance(3600.0)
    assert lathe.wear_mm3 == after


def test_lathe_energy_is_power_times_time():
    """An idle lathe takes base power plus engaged drives."""
    lathe = Lathe(np.random.SeedSequence(4))
    hold(lathe, depth=1.0)
    lathe.advance(100.0)
    before = lathe.energy.total_kwh
    lathe.advance(7200.0)
    expected_w = 1400.0 + 3600.0
    assert lathe.power_w() == expected_w
    assert lathe.energy.total_kwh - before == pytest.approx(2 * expected_w / 1000.0)


def test_quality_has_an_interior_optimum_in_speed_and_feed():
    """Neither the slowest nor the fastest cut is the best, nor the finest feed."""
    x = np.array([[252.0, 0.09, 0.95, 8.0, 220.0]] * 5)
    x[1, 0], x[2, 0], x[3, 1], x[4, 1] = 100.0, 320.0, 0.05, 0.3
    q = lathe_physics.quality(x)
    assert (q > 0).all()
    assert q[0] == q.max()


@pytest.fixture
def response(data_directory):
    from sim_rig.plants.arrays import load

    return SelfNoise(load(data_directory, "airfoil.npz"))


def test_tunnel_maps_octaves_and_decades_to_the_arrays(response):
    """The ends of the variables' ranges are the ends of the arrays' physical ranges, logarithmic where they are."""
    low = np.array([[0.0, 0.0, 25.4, 31.7, np.log10(0.400682)]])
    high = np.array([[np.log2(100.0), 22.2, 304.8, 71.3, np.log10(58.4113)]])
    assert response(low) == pytest.approx(response.arrays(np.zeros((1, 5))))
    assert response(high) == pytest.approx(response.arrays(np.ones((1, 5))))
    assert response((low + high) / 2) == pytest.approx(response.arrays(np.full((1, 5), 0.5)))


def test_the_fan_is_the_larger_load_at_speed(response):
    """Power grows with the cube of the velocity."""
    tunnel = Tunnel(np.random.SeedSequence(5), response)
    hold(tunnel, velocity=71.3)
    tunnel.advance(300.0)
    fast_w = tunnel.power_w()
    tunnel.channels["velocity"].impose(35.65)
    tunnel.advance(300.0)
    slow_w = tunnel.power_w()
    fixed_w = 1500.0 + 1100.0
    assert (fast_w - fixed_w) / (slow_w - fixed_w) == pytest.approx(8.0, rel=0.1)
    before = tunnel.energy.total_kwh
    tunnel.advance(3600.0)
    assert tunnel.energy.total_kwh - before == pytest.approx(slow_w / 1000.0, rel=1e-3)
