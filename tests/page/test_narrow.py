"""The page in a real browser without a rig: names as long as people give them fit every screen."""

from dataclasses import replace

import pytest

from rigctl.page.render import MEDIA, asset, page
from rigctl.page.shown import Instrument, Pair, Pump
from tests.page.browser import IN_BROWSER, SIZES, chromium, cut_off, overflow, resize
from tests.page.conftest import told

pytest.importorskip("selenium.common", reason="needs the extra `browser`: pip install -e '.[browser]'")
pytestmark = IN_BROWSER
NAMES = ("ph_doser", "ca_doser", "calcium_doser_left", "nutrient_concentrate_doser_of_the_tank_at_the_window")


def with_names(facts, names):
    """These facts with a variable and a pump of each name, and a cap that takes much room."""
    pumps = tuple(Pump(name, 586.3, 1234, 586.3, per_dose_ml=50.0, per_day_ml=20_000.0) for name in names)
    pairs = tuple(Pair(name, "1234.5 umol/m2/s", "1198.7 umol/m2/s") for name in names)
    instruments = tuple(
        Instrument(name, ("calibrated 12 days ago",), ("calibration due",), held=False) for name in names
    )
    trial = replace(facts.trial, pumps=pumps, pairs=pairs)
    return replace(facts, trial=trial, instruments=instruments)


def test_long_names_fit_beside_the_trend(finished, tmp_path):
    """No table of the narrow column makes the page wider than the screen, and none is cut off."""
    (tmp_path / "assets").mkdir()
    for name in MEDIA:
        (tmp_path / "assets" / name).write_bytes(asset(name)[0])
    file = tmp_path / "page.html"
    found = {}
    with told(finished) as (facts, _), chromium() as driver:
        for names in (NAMES[:2], NAMES):
            file.write_text(page(with_names(facts, names), None), encoding="utf-8")
            driver.get(file.as_uri())
            for size in SIZES:
                resize(driver, size)
                found[len(names), size] = overflow(driver) + cut_off(driver)
    assert {case: wrong for case, wrong in found.items() if wrong} == {}
