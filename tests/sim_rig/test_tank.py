import numpy as np
import pytest

from sim_rig.errors import PlantError
from sim_rig.plants.tank import VARIABLES, Tank, growth


def new_tank():
    return Tank(np.random.SeedSequence(1))


def refilled(tank):
    tank.command_change(True)
    tank.advance(100.0)
    tank.command_change(False)
    return tank


@pytest.mark.slow
def test_each_refill_brings_a_new_independent_draw_of_the_supply():
    """Over many fills each concentration has its declared mean and sd, and no two vary together."""
    tank = new_tank()
    fills = np.array([refilled(tank).values() for _ in range(1500)])
    for column, variable in enumerate(VARIABLES):
        natural = variable.natural
        assert fills[:, column].mean() == pytest.approx(natural.mean, abs=4 * natural.sd / np.sqrt(1500))
        assert fills[:, column].std() == pytest.approx(natural.sd, rel=0.08)
    correlation = np.corrcoef(fills.T) - np.eye(5)
    assert np.abs(correlation).max() < 0.1


def test_the_supply_does_not_depend_on_what_is_controlled():
    """With one seed, a fill brings the same free concentrations whatever else is controlled."""
    free, valved = new_tank(), new_tank()
    valved.channels["k"].impose(9.0)
    valved.channels["k"].enabled = True
    first, second = refilled(free).values(), refilled(valved).values()
    assert first[[0, 1, 2, 4]] == pytest.approx(second[[0, 1, 2, 4]])
    assert second[3] == pytest.approx(9.0, abs=0.3)


def test_a_valve_brings_its_ion_to_the_setpoint_and_leaves_it_there():
    """An enabled valve imposes its setpoint within the actuator's error; disabled, the tank keeps what it has."""
    tank = new_tank()
    tank.channels["nh4"].impose(3.0)
    tank.channels["nh4"].enabled = True
    tank.advance(300.0)
    reached = tank.channels["nh4"].value
    tank.channels["nh4"].enabled = False
    tank.advance(300.0)
    assert reached == pytest.approx(3.0, abs=0.08)
    assert tank.channels["nh4"].value == reached


def test_treatments_give_a_known_start():
    """Softened water has almost no calcium, alkalised water a pH above the highest setpoint."""
    tank = new_tank()
    for treatment in (tank.softener, tank.alkaliser):
        treatment.switch(True, refilling=tank.change.running)
    refilled(tank)
    values = dict(zip((v.name for v in VARIABLES), tank.values(), strict=True))
    assert values["ca"] == pytest.approx(0.45)
    assert values["ph"] == pytest.approx(7.06)


def test_a_treatment_without_a_refill_passes_the_tank_once():
    """What is in the tank is treated within its time; what is dosed after that stays, though it is still on."""
    tank = refilled(new_tank())
    tank.softener.switch(True, refilling=False)
    tank.advance(90.0)
    assert tank.channels["ca"].value == pytest.approx(0.45)
    tank.pumps["ca_doser"].start(20.0, 58.5, 1)
    tank.advance(200.0)
    assert tank.channels["ca"].value == pytest.approx(0.45 + 20.0 * 0.048, rel=0.02)
    assert tank.softener.commanded


def test_only_a_rising_command_changes():
    """A command that stays on, or is repeated, drains the tank once."""
    tank = new_tank()
    for _ in range(3):
        tank.command_change(True)
        tank.advance(200.0)
    assert tank.change.count == 1
    tank.command_change(False)
    tank.command_change(True)
    assert tank.change.count == 2


def test_calcium_is_conserved():
    """What the pump delivered is in the tank, once it has mixed."""
    tank = refilled(new_tank())
    before = tank.channels["ca"].value
    tank.pumps["ca_doser"].start(20.0, 58.5, 1)
    tank.advance(200.0)
    assert tank.channels["ca"].value - before == pytest.approx(tank.pumps["ca_doser"].delivered_ml * 0.048, rel=1e-6)
    assert tank.pumps["ca_doser"].delivered_ml == pytest.approx(20.0, rel=0.02)


def test_acid_lowers_the_ph_a_little_less_than_its_label_says():
    """A full dose by the label's -0.04 pH/mL never overshoots, and comes within a tenth."""
    tank = new_tank()
    tank.alkaliser.switch(True, refilling=tank.change.running)
    refilled(tank)
    before = tank.channels["ph"].value
    tank.pumps["ph_doser"].start((before - 5.6) / 0.04, 58.5, 1)
    tank.advance(200.0)
    moved = before - tank.channels["ph"].value
    assert 0.9 * (before - 5.6) < moved <= before - 5.6


def test_energy_is_power_times_time():
    """The counter integrates the power of everything that is switched on, for as long as it is."""
    tank = refilled(new_tank())
    tank.advance(50.0)
    before, power_w = tank.energy.total_kwh, tank.power_w()
    tank.advance(3600.0)
    assert tank.energy.total_kwh - before == pytest.approx(power_w / 1000.0)
    tank.softener.switch(True, refilling=tank.change.running)
    tank.channels["k"].impose(12.0)
    tank.channels["k"].enabled = True
    more_w = tank.power_w()
    before = tank.energy.total_kwh
    tank.advance(3600.0)
    assert more_w == power_w + 900.0 + 900.0 + 1400.0
    assert tank.energy.total_kwh - before == pytest.approx(more_w / 1000.0)


def test_pumps_and_refill_are_charged_for_the_time_they_ran():
    """What runs for a part of the time takes energy for that part only."""
    tank = new_tank()
    tank.command_change(True)
    tank.pumps["ca_doser"].start(29.25, 58.5, 1)
    before = tank.energy.total_kwh
    tank.advance(3600.0)
    joules = 550 * 3600 + 750 * 90 + 12 * 30
    assert tank.energy.total_kwh - before == pytest.approx(joules / 3.6e6, rel=1e-6)


@pytest.mark.parametrize("portion_s", [0.37, 7.0, 61.0])
def test_time_may_pass_in_any_portions(portion_s):
    """Advancing in small portions comes to the same place as advancing at once."""
    whole, parts = new_tank(), new_tank()
    for tank in (whole, parts):
        tank.softener.switch(True, refilling=tank.change.running)
        tank.command_change(True)
    whole.advance(120.0)
    for _ in range(int(120.0 / portion_s)):
        parts.advance(portion_s)
    parts.advance(120.0 - int(120.0 / portion_s) * portion_s)
    assert parts.values() == pytest.approx(whole.values(), rel=1e-6)
    assert parts.energy.total_kwh == pytest.approx(whole.energy.total_kwh, rel=1e-9)


def test_a_setpoint_outside_the_range_is_refused():
    """An actuator does not take what it cannot impose."""
    tank = new_tank()
    with pytest.raises(PlantError, match="outside"):
        tank.channels["k"].impose(12.5)


def test_growth_peaks_inside_the_ranges():
    """The response is positive, highest at an interior point, and lower at every corner."""
    corners = np.array(np.meshgrid(*([v.low, v.high] for v in VARIABLES))).reshape(5, -1).T
    middle = np.array([[2.975, 28.1, 1.738, 9.58, 5.6]])
    assert growth(corners).min() > 0
    assert growth(middle)[0] > 1.5 * growth(corners).max()
