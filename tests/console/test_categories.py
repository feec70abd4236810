"""Categories in a configuration, and by hand: words wherever people read or write."""

import csv
import re

import pytest

from rigctl.config.load import load_text
from tests.console.conftest import GOLDEN

SPRAYER = (GOLDEN / "sprayer.yaml").read_text(encoding="utf-8")


def test_levels_are_numbers_inside(tmp_path):
    """By their place in the list, or as they are given; shares need not add up to 1; settings are given by words."""
    loaded = load_text(SPRAYER, tmp_path / "sprayer.yaml")
    nozzle, salt, _ = loaded.problem.space.variables
    assert nozzle.words == {0.0: "fine", 1.0: "flat", 2.0: "cone"}
    assert salt.words == {10.0: "Acme", 20.0: "Best", 30.0: "Cheap"}
    assert nozzle.marginal.weights == pytest.approx((0.75, 0.25, 0.0))
    assert salt.marginal.weights == pytest.approx((0.75, 0.0, 0.25))
    assert loaded.problem.space.levels == (3, 3, 0)
    assert loaded.today == {"nozzle": 1.0}
    assert loaded.problem.reference.setting == (1.0, 0.5)


OLD = """\
nozzle,Salt,ph,cover,drift,cost,control_set
fine,Acme,6.1,71,9,1.2,nozzle
Flat,best,5.9,82,14,1.2,nozzle+ph
cone,Cheap,6.0,77,8,1.3,nozzle+salt
fine,Best,6.2,70,9.5,1.1,nozzle
"""
BY_HAND = ("ingest", "sprayer.yaml", "--control-set", "nozzle", "--outcome", "75", "--cost", "1.2", "--values")


@pytest.fixture
def sprayer(bench):
    """A bench with four old trials out of a spreadsheet, and one by hand."""
    bench.write("sprayer.yaml", SPRAYER)
    bench.write("old.csv", OLD)
    bench.rigctl("trial", "import", "sprayer.yaml", "old.csv")
    bench.rigctl(*BY_HAND, "nozzle=cone,salt=Best,ph=6,drift=8")
    return bench


@pytest.mark.slow
def test_people_read_words(sprayer):
    """On the card, in the answer, in the report and in exports; the command that comes next has them, too."""
    sprayer.rigctl("report", "sprayer.yaml", "--out", "report.html")
    report = (sprayer.folder / "report.html").read_text(encoding="utf-8")
    for said in (report, *(sprayer.rigctl(verb, "sprayer.yaml").out for verb in ("suggest", "recommend"))):
        assert any(f"{lead}{word}" in said for lead in ("nozzle = ", "nozzle to ") for word in ("fine", "flat", "cone"))
        assert re.search(r"(nozzle|supplier)( =|=| to) ?[\d-]", said) is None
    for drawn in ("readings of nozzle", "cover expected against Salt supplier"):
        drawing = report[report.index(drawn) :].partition("</svg></svg>")[0]
        words = ("fine", "flat", "cone") if "nozzle" in drawn else ("Acme", "Best", "Cheap")
        assert [word for word in words if f">{word}</text>" not in drawing] == []
    assert re.search(r"recommended at (fine|flat|cone);", report)
    rows = csv.DictReader(sprayer.rigctl("journal", "export", "sprayer.yaml", "--format", "csv").out.splitlines())
    assert [row["nozzle"] for row in rows] == ["fine", "flat", "cone", "fine", "cone"]
    assert [word for word in ("Acme", "Cheap") if word not in report] == []
