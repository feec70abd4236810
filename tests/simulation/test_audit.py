"""The ledger is worked out once more, and whatever is not what it is made of is found."""

import sqlite3
from contextlib import closing, nullcontext
from decimal import Decimal
from types import SimpleNamespace

import pytest

from tests.simulation.audit import Audit
from tests.simulation.books import Violation

TABLES = """
CREATE TABLE trials (trial, control_set, state);
CREATE TABLE events (id INTEGER PRIMARY KEY, trial, state, at_s, start);
CREATE TABLE meter_readings (trial, meter, phase, value, at_s, severity);
CREATE TABLE ledger (id INTEGER PRIMARY KEY, trial, meter, quantity, amount_micros, estimated);
CREATE TABLE doses (trial, actuator, dispensed_ml, volume_ml);
CREATE TABLE idle (meter, before_trial, at_s, quantity, amount_micros, utc);
CREATE TABLE phases (id INTEGER PRIMARY KEY, start, phase, at_s);
INSERT INTO trials VALUES (1, '["a"]', 'RECORDED'), (2, '["a"]', 'RECORDED');
INSERT INTO events (trial, state, at_s, start) VALUES
    (1, 'ARMED', 0, 1), (1, 'RUNNING', 10, 1), (1, 'MEASURED', 3600, 1), (1, 'RECORDED', 3601, 1),
    (2, 'PROPOSED', 7000, 1), (2, 'ARMED', 7200, 1), (2, 'MEASURED', 9000, 1), (2, 'RECORDED', 9000, 1);
INSERT INTO meter_readings VALUES
    (1, 'power', 'before', 5, 0, 0), (1, 'power', 'after', 7, 3600, 0), (1, 'acid', 'before', 0, 0, 0),
    (1, 'acid', 'after', 30.02, 3600, 0), (2, 'power', 'before', 7.5, 7200, 0), (2, 'power', 'after', NULL, 9000, 3),
    (2, 'acid', 'before', 30.02, 7200, 0), (2, 'acid', 'after', 30.02, 9000, 0);
INSERT INTO ledger (trial, meter, quantity, amount_micros, estimated) VALUES
    (1, 'power', 2, 600000, 0), (1, 'acid', 30.02, 300200, 0), (1, 'hours', 1, 500000, 0), (1, 'water', 1, 50000, 0),
    (2, 'power', NULL, 600000, 1), (2, 'acid', 0, 0, 0), (2, 'hours', 0.5, 250000, 0), (2, 'water', 1, 50000, 0);
INSERT INTO doses VALUES (1, 'acid_pump', 10.0, 10.0), (1, 'acid_pump', NULL, 20.0);
INSERT INTO idle VALUES
    ('power', 2, 5000, 0.3, 90000, '2026-01-01'), ('power', 2, 7200, 0.2, 60000, '2026-01-01'),
    ('hours', 2, 7200, 0.5, 250000, '2026-01-01');
INSERT INTO phases (start, phase, at_s) VALUES (1, 'RUNNING', 0), (1, 'HOLDING', 4000), (1, 'RUNNING', 5800);
"""
"""Two trials: one whole, and one after which the energy could not be read; half an hour of hold between them."""


def meter(name, kind, device=None, price="0"):
    return SimpleNamespace(name=name, kind=kind, device=device, tariff=None, mean_price=Decimal(price))


METERS = [meter("power", "energy", "mains", "0.3"), meter("acid", "volume", "acid_pump", "0.01")]
METERS += [meter("hours", "time"), meter("water", "fixed")]
BY_TARIFF = meter("power", "energy", "mains", "0.3")
BY_TARIFF.tariff = SimpleNamespace(
    rates=[SimpleNamespace(name="night", price=Decimal("0.2")), SimpleNamespace(name="day", price=Decimal("0.3"))]
)


def assert_audit(change, said, meters, *, sound=True, awake=True):
    """Audit the two trials with this change; expect what is said to be wrong, or nothing where that is empty."""
    audit = Audit(SimpleNamespace(meters=meters, pumps={"acid_pump"}))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES + change)
        with pytest.raises(Violation, match=said) if said else nullcontext():
            audit.check(connection, sound=sound, awake=awake)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("", ""),
        ("UPDATE ledger SET quantity = 2.1 WHERE id = 1", "rose by 2"),
        ("UPDATE ledger SET quantity = 31, estimated = 1 WHERE id = 2", "30 mL were dosed"),
        ("UPDATE doses SET volume_ml = 19 WHERE dispensed_ml IS NULL", ""),
        ("UPDATE doses SET volume_ml = 17 WHERE dispensed_ml IS NULL", "27 mL were dosed"),
        ("UPDATE ledger SET quantity = 0.99 WHERE id = 3", "3600.000 s passed"),
        ("UPDATE ledger SET quantity = 2 WHERE id = 4", "once a trial"),
        ("UPDATE ledger SET amount_micros = 599999 WHERE id = 5", "mean of 1 before is 600000"),
        ("UPDATE meter_readings SET value = NULL WHERE meter = 'acid' AND trial = 1", "it was not read"),
        ("UPDATE idle SET quantity = 0.1 WHERE at_s = 5000", "0.3 idle before trial 2"),
        ("UPDATE idle SET amount_micros = 61000 WHERE at_s = 7200 AND meter = 'power'", "151000 for 0.5"),
        ("UPDATE idle SET before_trial = 1, at_s = 3601 WHERE at_s = 5000", "0.3 idle in trial 1"),
        ("UPDATE phases SET at_s = 5700 WHERE id = 3", "1700.000 s waited"),
    ],
)
def test_a_line_is_what_it_is_made_of(change, said):
    """Readings, doses, steps, what other trials have cost, and how long the campaign has waited."""
    assert_audit(change, said, METERS)


@pytest.mark.parametrize(("minute", "found"), [(31, True), (29, False), (5, True)])
def test_what_was_used_at_one_rate_costs_that_rate(minute, found):
    """By day it costs 0.3; a trial of two minutes that begins in one rate and ends in another is not judged."""
    change = f"""
    DELETE FROM trials WHERE trial = 2;
    UPDATE meter_readings SET at_s = 3480 WHERE meter = 'power' AND phase = 'before';
    INSERT INTO meter_readings VALUES (1, '(civil)', 'after', {60 * minute + 120 - 60 * (minute == 5)}, 3600, 0);"""  # noqa: S608 - ours
    assert_audit(change, r"400000 at 0\.2" if found else "", [BY_TARIFF], sound=False, awake=False)


@pytest.mark.parametrize(("utc", "found"), [("10:07:30", 0), ("10:29:30", 0), ("10:30:30", 0), ("10:40", 1)])
def test_what_was_used_between_trials_at_one_rate_costs_that_rate(utc, found):
    """Half a kWh in five minutes is charged by day, 0.3: wrong by night, which begins at half past."""
    change = f"""
    UPDATE meter_readings SET at_s = 6900 WHERE meter = 'power' AND phase = 'after';
    DELETE FROM idle WHERE at_s = 5000;
    UPDATE idle SET quantity = 0.5, amount_micros = 150000, utc = '2026-01-01T{utc}+00:00' WHERE meter = 'power';"""  # noqa: S608 - ours
    assert_audit(change, r"150000 for 0\.5" if found else "", [BY_TARIFF], awake=False)
