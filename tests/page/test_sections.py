import re
from dataclasses import replace
from datetime import timedelta

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.status import Status
from rigctl.campaign.trial import Event
from rigctl.core.advice.answer import answer_of
from rigctl.core.experiment.persistence import ReadBefore
from rigctl.page.facts import gather
from rigctl.page.figures import why_axis
from rigctl.page.render import sections
from rigctl.page.shown import Phase, Study, Supply
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from rigctl.text import Names
from tests.campaign.records import LINES, STEPS, record_trial
from tests.console.conftest import BENCH, TRIALS, Bench
from tests.fixtures import UNFINISHED, unpacked
from tests.page.conftest import NOON, study, told


def text_of(html):
    """What is read, without marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.fixture(scope="module")
def halfway(tmp_path_factory):
    """A campaign whose process died in the middle of a trial."""
    left = unpacked(UNFINISHED, tmp_path_factory.mktemp("unfinished"))
    with told(left, now=NOON + timedelta(days=3650)) as (facts, campaign):
        return facts, study(campaign.reader, campaign.loaded)


@pytest.mark.slow
def test_the_choice_on_one_axis(shown):
    """One row per control set; the chosen one is marked; what would be run today stands in each."""
    facts, known = shown
    html = sections(facts, known)["why"]
    rows = re.findall(r'<tr class="(chosen|open|out)">(.*?)</tr>', html, re.DOTALL)
    assert [kind for kind, _ in rows].count("chosen") == 1
    assert len(rows) == len(facts.why.sets)
    for (kind, row), fact in zip(rows, facts.why.sets, strict=True):
        assert fact.label in text_of(row)
        assert ('class="band"' in row) == (fact.band is not None)
        assert ("chosen:" in row) == (kind == "chosen")
        assert ('class="line"' in row) == (facts.why.threshold is not None)
        assert 'class="today"' in row
    assert f"{answer_of(known.recommendation).run.expected:.4g}" in text_of(html)


def test_places_on_the_axis_are_right(shown):
    """Bands of all sets are drawn by one scale: equal differences of outcome are equal distances."""
    facts, known = shown
    html = sections(facts, known)["why"]
    drawn = re.findall(r'class="band" x="([\d.]+)%" width="([\d.]+)%"', html)
    bands = [s.band for s in facts.why.sets if s.band]
    places = [(float(x), float(x) + float(w)) for x, w in drawn]
    (low, high), (start, end) = (bands[0][0], bands[0][2]), places[0]
    scale = (end - start) / (high - low)
    for (lower, _, upper), (left, right) in zip(bands, places, strict=True):
        assert left == pytest.approx(start + scale * (lower - low), abs=0.5)
        assert right == pytest.approx(start + scale * (upper - low), abs=0.5)


def test_a_category_that_was_read_is_a_word_without_an_axis(shown):
    """Its levels have no order: no mean, no spread, no drawing; a number beside it has them all."""
    facts, _ = shown
    number, held = facts.labels.units, frozenset(facts.why.control_set)
    names = [name for name in number if name not in held][:2]
    labels = replace(facts.labels, units=Names(number.units, {}, {names[0]: {0.0: "soft", 1.0: "hard"}}))
    reads = tuple(ReadBefore(name, 1.0, 0.0, 0.9, 12, 0.9, 0.1, 0.5, 0.3) for name in names)
    html = sections(replace(facts, labels=labels, why=replace(facts.why, reads=reads)), None)["why"]
    word, figures = re.findall(r"<tr><th scope=.row.*?</tr>", html[html.index("rows reads") :], re.DOTALL)
    assert ("hard" in word, "±" in word, "<svg" in word) == (True, False, False)
    assert ("hard" in figures, "±" in figures, "<svg" in figures) == (False, True, True)
    assert "90 %" in text_of(word)


def test_what_would_change_it_is_of_this_decision(shown):
    """Those of an earlier choice say whose they are: to find them takes longer than a quick rig takes for a trial."""
    facts, known = shown
    flip, trial = "At 1 EUR a trial, ca would be chosen.", facts.why.trial
    own = replace(known, flips=(flip,), flips_of=trial)
    for found, title in ((own, "to another choice<"), (replace(own, flips_of=trial - 1), f"in trial {trial - 1}<")):
        assert (flip in sections(facts, found)["why"], title in sections(facts, found)["why"]) == (True, True)
    assert "another choice" not in sections(facts, replace(own, flips=None))["why"]


def test_a_model_that_says_nothing_is_no_reason_to_show_nothing(shown):
    """The best trial stands in place of its answer, at once; and why there is none, if it is known."""
    facts, _ = shown
    best = f"Best so far is trial {facts.best.trial}: "
    assert best in sections(facts, None)["advice"]
    failed = sections(facts, Study(0, 0, None, trouble="no such plug-in"))
    assert (best in failed["advice"], "no such plug-in" in failed["advice"]) == (True, True)


def test_a_study_that_is_behind_says_so(shown, golden):
    """What was worked out of fewer trials is not passed off as today's, nor compared with a later decision."""
    facts, known = shown
    running = replace(facts, phase=Phase("running"), asks=True)
    fresh, old = sections(running, known), sections(running, replace(known, trials=known.trials - 5))
    for name in ("why", "advice", "model"):
        assert f"first {known.trials - 5} trials" in text_of(old[name])
        assert f"first {known.trials - 5}" not in text_of(fresh[name])
    golden(fresh["now"])
    assert len(old["now"]) < len(fresh["now"])


def test_leaving_everything_alone_stands_beside(shown):
    """Every recommendation is held against doing nothing."""
    facts, known = shown
    html = sections(facts, known)["advice"]
    assert "control nothing" in html
    assert len(re.findall(r'scope="row"', html)) >= len(known.recommendation.alternatives) + 2


def test_money_says_where_it_went(shown):
    """Every meter has its part of the gauge and its line; what stopping returns is said."""
    facts, known = shown
    html = sections(facts, known)["money"]
    bar = re.search(r'<svg class="gauge".*?</svg>', html, re.DOTALL)[0]
    assert len(re.findall(r'class="fill-\d"', bar)) == len(facts.money.parts)
    assert all(part.meter in text_of(html) for part in facts.money.parts)
    assert "if you stop now" in html


@pytest.mark.slow
def test_slices_say_where_nothing_was_tried(halfway):
    """A slice is dashed where no trial was, solid where one was, and marks the recommendation."""
    facts, known = halfway
    html = sections(facts, known)["model"]
    figures = html.split("<figure>")[1:]
    assert len(figures) == len(facts.labels.units)
    for drawn, found in zip(figures, known.slices, strict=True):
        assert ('class="guess"' in drawn) == (not all(found.tried))
        assert ('class="today"' in drawn) == (found.chosen is not None)
        assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))


def test_slices_go_through_the_recommendation(shown):
    """Where a controlled variable is as recommended, the slice is what is expected of the recommendation."""
    _, known = shown
    choice = known.recommendation.choice
    for found in known.slices:
        if found.chosen is None:
            continue
        at = min(range(len(found.at)), key=lambda i: abs(found.at[i] - found.chosen))
        near = found.mean[max(0, at - 1) : at + 2]
        assert min(near) - 1e-6 <= choice.expected <= max(near) + 1e-6


def test_a_change_of_supply_is_a_step(shown):
    """Stretches of different supply are levels of their own, the change is named with its trial."""
    facts, known = shown
    changed = replace(known, supplies=(Supply("k", 1, 12, 4.0), Supply("k", 13, 24, 7.0)))
    html = sections(facts, changed)["readings"]
    assert html.count('class="supply"') == 2
    date = next(row.started_utc[:10] for row in facts.course.rows if row.trial == 13)
    assert f" {date}, trial 13" in html
    assert 'class="supply"' not in sections(facts, known)["readings"]


def test_the_front_is_of_two_outcomes(shown):
    """Trials and those that no other beats are drawn where there are several outcomes, nothing where there is one."""
    facts, known = shown
    html = sections(facts, known)["front"]
    assert 'class="held"' in html
    one = replace(facts, labels=replace(facts.labels, outcomes=facts.labels.outcomes[:1]), drawn={})
    assert sections(one, known)["front"] == ""


def test_a_dead_process_is_no_quiet_matter(halfway, golden):
    """A campaign that nobody runs is shown as abnormal, by sign, word and class, and not as controlling anything."""
    facts, known = halfway
    parts = sections(facts, known)
    golden(parts["now"])
    assert "▲" in parts["now"]
    assert "not running" in text_of(parts["now"])
    assert "Controls" not in parts["now"]


def test_all_quiet_is_grey(shown):
    """Where nothing is abnormal, nothing is coloured."""
    parts = sections(*shown)
    assert "abnormal" not in parts["now"]
    assert not re.search(r'class="alarm (minor|major|invalid)"', parts["now"])


def looked(directory, status=None):
    with open_reader(directory) as reader:
        return gather(reader, None, status and Status.of(status), NOON)


def test_an_alarm_has_sign_word_and_colour(journal, tmp_path, golden):
    """An alarm in the log is told by its sign and word besides its colour; it can be acknowledged by who may act."""
    journal.alarms.add(Alarm(Severity.MAJOR, "pump", "stuck", kind="stuck"))
    html = sections(looked(tmp_path, {"phase": "running"}), None, acting="t")["log"]
    row = re.search(r'<tr class="alarm major">.*?</tr>', html, re.DOTALL)[0]
    assert "▲" in row
    assert "warning" in row
    assert 'action="act/ack"' in row
    golden(row)
    for state in ("stands", "over"):  # it says so, and the message is read in ink again
        journal.alarms.add(Alarm(Severity.MAJOR, "ph", "low", kind="low", state=state))
    assert '<tr class="major">' in sections(looked(tmp_path, {"phase": "running"}), None)["log"]


def test_what_says_the_same_is_one_alarm_with_a_count(journal, tmp_path, golden):
    """Thirty failures are one row; who has seen or shelved it is in it, and the buttons are for what is left to do."""
    for number in range(30):
        journal.alarms.add(Alarm(Severity.MAJOR, "trial", f"failed: {number} tries", kind="trial failed"))
    journal.alarms.add(Alarm(Severity.MINOR, "pump", "restarted", kind="restarted"))
    before = looked(tmp_path, {"phase": "running"})
    journal.alarms.add(Alarm(Severity.MAJOR, "ph", "low", kind="low", state="stands"))
    journal.alarms.acknowledge(32, "eve")
    journal.alarms.mind("shelve", 1, "eve", "known", 3600.0)
    with open_reader(tmp_path) as reader:  # going on from the look before
        facts = gather(reader, None, Status.of({"phase": "running"}), NOON, before=before)
    assert facts.alarms == looked(tmp_path).alarms
    assert facts.unseen == 1
    html = sections(facts, None, acting="t")["log"]
    first, second = re.findall(r'<tr class="alarm major">.*?</tr>', html.split("</table>")[0], re.DOTALL)
    golden(first)
    assert "ack" not in re.findall(r'action="act/(\w+)"', first)
    golden(second)
    assert re.findall(r'action="act/(\w+)"', second) == ["ack", "unshelve"]
    assert "restarted" not in html.split("</table>")[0]


def test_a_trial_that_was_stopped_is_not_ticked_off(journal, tmp_path, golden):
    """Steps that a failed trial never came to are not shown as done."""
    for event in (Event.PROPOSE, Event.ARM):
        STEPS[event](journal, 1)
    journal.finish(1, "ARMED", Event.FAIL, LINES, detail="pump stuck")
    html = sections(looked(tmp_path), None)["trial"]
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "stopped", "coming", "coming", "coming", "coming"]
    golden(html)


@pytest.mark.parametrize("phase", ["starting", "holding"])
def test_a_trial_that_a_dead_process_left_goes_on_no_more(journal, tmp_path, phase):
    """While everything is made safe and the next start waits, no step of it is the current one."""
    for event in (Event.PROPOSE, Event.ARM, Event.RUN):
        STEPS[event](journal, 1)
    html = sections(looked(tmp_path, {"phase": phase}), None)["trial"]
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "stopped", "coming", "coming"]


def test_the_lit_step_is_said(journal, tmp_path):
    """The step that is lit is the current one also for those who cannot see it."""
    for event in (Event.PROPOSE, Event.ARM, Event.RUN):
        STEPS[event](journal, 1)
    html = sections(looked(tmp_path, {"phase": "running"}), None)["trial"]
    assert re.findall(r'<li class="(\w+)" aria-current="step">', html) == ["now"]


def test_what_stands_worst_is_named_with_how_many_more(journal, tmp_path, golden):
    """Of several findings the worst is shown, the others counted."""
    record_trial(journal)
    standing = [
        {"severity": "MINOR", "source": "disk", "message": "full"},
        {"severity": "MAJOR", "source": "b_probe", "message": "stale"},
    ]
    facts = looked(tmp_path, {"phase": "holding", "why": "stale", "active": standing})
    assert (facts.worst.source, facts.worst.others) == ("b_probe", 1)
    html = sections(facts, None)["now"]
    golden(text_of(html))
    golden(html)


@pytest.mark.slow
def test_a_bench_by_hand_shows_what_is_suggested(tmp_path, monkeypatch):
    """Where a person does the trials, the last suggestion is explained, and no steps are shown as if a rig had run."""
    monkeypatch.chdir(tmp_path)
    bench = Bench(tmp_path)
    bench.write("bench.yaml", BENCH)
    bench.write("trials.csv", TRIALS)
    bench.rigctl("ingest", "bench.yaml", "trials.csv")
    bench.rigctl("suggest", "bench.yaml")
    with told(tmp_path / "state" / "bench") as (facts, campaign):
        parts = sections(facts, study(campaign.reader, campaign.loaded))
        rows = campaign.reader.trials()
    assert facts.phase.word == "by hand"
    assert facts.why.trial == len(rows) + 1
    assert f"trial {len(rows) + 1}" in text_of(parts["now"])
    assert "by hand" in parts["trial"]
    assert "<ol" not in parts["trial"]
    assert "chosen" in parts["why"]


def test_a_response_that_has_changed_is_told_beside_the_model(shown):
    """Each sentence, escaped; nothing where nothing has changed."""
    facts, known = shown
    aged = replace(known, response=("By that a<b has fallen by 1 to 2.",))
    model = sections(facts, aged)["model"]
    assert "a&lt;b" in model
    assert "a<b" not in model
    assert "has fallen" not in sections(facts, known)["model"]


def test_sets_that_are_out_do_not_stretch_the_axis_of_those_that_matter(shown):
    """One that may still be chosen does."""
    why = shown[0].why
    wide = replace(why.sets[0], band=(-1e4, 0.0, 1e4), chosen=False, eligible=False, why_not="tried enough")
    own = why_axis(why, None)
    assert why_axis(replace(why, sets=(*why.sets, wide)), None) == own
    assert why_axis(replace(why, sets=(*why.sets, replace(wide, eligible=True))), None).high > own.high
