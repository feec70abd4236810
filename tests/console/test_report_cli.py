"""`rigctl report`: a campaign as one file."""

import re
from pathlib import Path

import pytest

from rigctl.console.assemble import open_campaign
from tests.full_disk import full_disk
from tests.profiles import slow_beyond


@pytest.mark.slow
def test_a_bench_by_hand_has_a_report(ingested):
    """One HTML file, where it is asked for; programs are told where."""
    answer = ingested.rigctl("report", "-o", "found.html", "--figures", "figures", "--json").json
    assert answer["report"] == "found.html"
    text = Path("found.html").read_text(encoding="utf-8")
    assert "5 trials" in text
    assert "by control set, every trial" in text
    assert {Path(name).suffix for name in answer["figures"]} == {".svg", ".png", ".csv"}
    assert all(Path(name).stat().st_size for name in answer["figures"])


@pytest.mark.slow
def test_a_report_carries_who_wrote_it_and_money_a_month(ingested):
    """A bench has no pace of its own, so its month is said; the logo is in the file, and no script can be."""
    Path("logo.svg").write_text('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', encoding="utf-8")
    words = ("--author", "Anna <Berg>", "--logo", "logo.svg", "--trials-per-month", "30")
    page = ingested.rigctl("report", "-o", "-", *words).out
    for part in ("Anna &lt;Berg&gt;", 'src="data:image/svg+xml;base64,', "At 30 trials a month"):
        assert part in page
    assert " trials a month" not in ingested.rigctl("report", "-o", "-").out


@pytest.mark.slow
def test_a_dash_is_standard_output(ingested):
    """The page alone, byte for byte that of a file but for the time; no file of that name, and nothing beside it."""
    page = ingested.rigctl("report", "-o", "-").out
    assert (page.startswith("<!doctype html>"), page.endswith("</html>\n")) == (True, True)
    assert "report:" not in page.splitlines()[-1]
    assert ingested.rigctl("export", "--out", "-").out == ingested.rigctl("export").out
    assert not Path("-").exists()


@pytest.mark.slow
def test_before_any_outcome_there_is_a_report_too(bench, golden):
    """It says that nothing can be said yet."""
    bench.rigctl("ingest", "bench.yaml", "--control-set", "ph", "--cost", "1")
    assert bench.rigctl("report", "--json").json["report"] == "report.html"
    found = re.search(r"<p class=.sentence.>(.*?)</p>", Path("report.html").read_text(encoding="utf-8"))
    golden(found[1])


def test_pdf_without_a_browser_is_refused_before_anything_is_written(ingested, monkeypatch, golden):
    """One message with the remedy."""
    monkeypatch.setenv("PATH", str(ingested.folder))
    refused = ingested.rigctl("report", "--pdf", code=1)
    golden(refused.err)
    assert not Path("report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    slow_beyond(
        1, [("report", "-o", "kept"), ("export", "--out", "kept"), ("export", "--out", "kept", "--format", "jsonl")]
    ),
)
def test_a_full_disk_leaves_what_was_there(ingested, words, golden):
    """The older file, whole, and nothing beside it; the newer one is told as not written."""
    Path("kept").write_text("an older one, whole", encoding="utf-8")
    there = sorted(Path().iterdir())
    with open_campaign(None, Path("state/bench")), full_disk():  # SQLite's own file beside the journal is there already
        refused = ingested.rigctl(*words, code=2)
    golden(refused.err)
    golden(Path("kept").read_text(encoding="utf-8"))
    assert sorted(Path().iterdir()) == there
