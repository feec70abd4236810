from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.trial import State
from rigctl.codec import fields_of
from rigctl.page.facts import gather
from rigctl.page.figures import Tracks, axes, costs, runs, thinned
from rigctl.page.shown import ShownLabels, ShownOutcome
from tests.campaign.records import make_decision, record_trial
from tests.page.conftest import NOON


def row(trial, outcome=1.0, cost=500_000, names=("a",), state=State.RECORDED):
    decision = make_decision(trial, names)
    came = {"state": state, "measured": {"a": 2.0}, "outcome": outcome, "whole": True, "because": ""}
    spent = {"cost": cost, "estimated": False, "started_utc": "", "ended_utc": None, "changed_s": 3600.0 * trial}
    return TrialRow(**fields_of(decision), **came, **spent)


@given(
    arrays(float, st.integers(1, 400), elements=st.floats(-1e6, 1e6) | st.just(float("nan"))),
    st.integers(1, 40),
)
def test_thinning_keeps_every_extreme(ys, columns):
    """First, last, lowest and highest points stay, of the whole and of every column; few are left."""
    xs = np.arange(len(ys), dtype=float)
    kept = thinned(xs, ys, columns)
    known = np.flatnonzero(np.isfinite(ys))
    assert set(kept) <= set(known)
    assert len(kept) <= 2 * columns + 2
    if not len(known):
        return
    assert {known[0], known[-1]} <= set(kept)
    assert ys[kept].min() == ys[known].min()
    assert ys[kept].max() == ys[known].max()
    if len(known) > 2 * columns:
        places = (xs[known] - xs[known[0]]) / (xs[known[-1]] - xs[known[0]]) * columns
        column = np.minimum(places.astype(int), columns - 1)
        for c in np.unique(column):
            mine = set(known[column == c])
            assert max(ys[i] for i in mine) == max(ys[i] for i in mine & set(kept))
            assert min(ys[i] for i in mine) == min(ys[i] for i in mine & set(kept))


def labels(*further, maximise=True):
    return ShownLabels("tank", "EUR", {"a": ""}, (ShownOutcome("growth", "", maximise), *further))


def test_best_so_far_is_within_the_limits():
    """A trial over a limit is no best one; one in which the limited outcome was not measured may be."""
    told = ((5.0, 3.0), (9.0, 3.3), (6.0, 3.2))
    rows = [replace(row(n, y), further={"rough": rough}) for n, (y, rough) in enumerate(told, start=1)]
    kept = labels(ShownOutcome("rough", "um", maximise=False, limits=(-np.inf, 3.2)))
    np.testing.assert_array_equal(Tracks.of([*rows, row(4, 7.0)], kept).best, [5.0, 5.0, 6.0, 7.0])


def test_best_so_far_follows_the_direction():
    """The best is the highest so far or, where less is better, the lowest; a failed trial changes nothing."""
    rows = [row(1, None, state=State.FAILED), row(2, 5.0), row(3, 3.0), row(4, 9.0, state=State.FAILED), row(5, 6.0)]
    up, down = (Tracks.of(rows, labels(maximise=more)) for more in (True, False))
    np.testing.assert_array_equal(up.best, [np.nan, 5.0, 5.0, 5.0, 6.0])
    np.testing.assert_array_equal(down.best, [np.nan, 5.0, 3.0, 3.0, 3.0])
    np.testing.assert_allclose(up.money, [0.5, 1.0, 1.5, 2.0, 2.5])
    assert (up.sets, up.played.tolist()) == ((("a",),), [0] * 5)


def test_runs_join_what_no_eye_can_tell_apart():
    """Stretches with less than a gap between them are one."""
    starts, held = np.arange(6.0), np.array([True, True, False, True, False, True])
    assert runs(held, starts, starts + 1, 0.5) == [(0, 2), (3, 4), (5, 6)]
    assert runs(held, starts, starts + 1, 1.0) == [(0, 6)]
    assert runs(held & False, starts, starts + 1, 1.0) == []


def test_trials_are_shown_along_what_tells_them_apart():
    """Those of a spreadsheet cost nothing and have no time: along money they would lie on one another."""
    rig, sheet = [row(n) for n in range(1, 9)], [replace(row(n, cost=0), changed_s=0.0) for n in range(1, 9)]
    assert axes(Tracks.of(rig, labels())) == ("money", "trial", "time")
    assert axes(Tracks.of(sheet, labels())) == ("trial",)
    assert axes(Tracks.of([*sheet[:2], *rig[2:]], labels())) == ("money", "trial", "time")
    typed = [replace(r, changed_s=float(r.trial)) for r in rig]
    assert axes(Tracks.of(typed, labels())) == ("money", "trial")
    assert axes(Tracks.of([], labels())) == ("trial",)


def test_what_cost_nothing_has_no_costs_drawn(journal, tmp_path):
    """A mean of costs is of trials that were paid for, and of the last ten of them."""
    record_trial(journal)
    with open_reader(tmp_path) as reader:
        facts = gather(reader, None, None, NOON)
    rows = [row(1, cost=0), *(row(n, cost=100_000 * n) for n in range(2, 13))]
    assert costs(facts, Tracks.of(rows[:1], labels()), "trial") == ""
    assert "0.75 EUR, mean of the last 10 trials" in costs(facts, Tracks.of(rows, labels()), "trial")
