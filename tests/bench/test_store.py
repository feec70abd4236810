"""Results on disk: whole or not there, the same in either form, and what was asked beside them."""

import json
import os
import signal
from math import nan
from pathlib import Path

import pytest

from rigctl.bench.asking.grid import Block, Grid
from rigctl.bench.cell import PolicySpec
from rigctl.bench.running.parallel import run_grid
from rigctl.bench.running.simulate import run_cell
from rigctl.bench.running.store import Store, code_version, load
from rigctl.errors import UsageError
from rigctl.plugins import need
from tests.bench.players import QUICK, RAISES, install_policy, quick_cell

ROOT = Path(__file__).parent.parent.parent


def quick_grid(seeds: int, *policies: PolicySpec) -> Grid:
    return Grid((Block(("hartmann3",), policies or (QUICK,), 0.4, seeds=tuple(range(seeds))),))


def without_seconds(directory):
    return load(directory).drop(columns="decision_s")


@pytest.mark.slow
def test_a_grid_goes_on_where_it_was(tmp_path):
    """Finished cells are skipped, new seeds are added, and nothing is written twice."""
    store, seen = Store(tmp_path), []

    def run(seeds):
        grid = quick_grid(seeds)
        return run_grid(grid, grid.cells(), store, on_attempt=lambda o: seen.append(o.cell.seed))

    first, second, third = run(2), run(3), run(3)
    assert [(r.cells, r.skipped, r.finished) for r in (first, second, third)] == [(2, 0, 2), (3, 2, 1), (3, 3, 0)]
    assert seen == [0, 1, 2]


@pytest.mark.slow
def test_worker_processes_give_the_same_tables(tmp_path):
    """Two workers, one process: every value the same but the seconds."""
    grid = quick_grid(2)
    for jobs, name in ((1, "here"), (2, "there")):
        ran = run_grid(grid, grid.cells(), Store(tmp_path / name), jobs=jobs)
        assert (ran.finished, ran.failed) == (2, ())
    assert without_seconds(tmp_path / "here").equals(without_seconds(tmp_path / "there"))


@pytest.mark.slow
def test_a_policy_that_raises_fails_its_cells_only(tmp_path, monkeypatch, golden):
    """A third party's bug is reported with its traceback; all other cells finish, and the failed one is tried again."""
    install_policy(tmp_path, "raises", RAISES)
    monkeypatch.syspath_prepend(tmp_path)
    grid, store = quick_grid(2, PolicySpec("faulty", "raises"), QUICK), Store(tmp_path / "out")
    ran = run_grid(grid, grid.cells(), store)
    assert (ran.finished, [o.cell.policy.label for o in ran.failed]) == (2, ["faulty", "faulty"])
    golden(ran.failed[0].error)
    told = (tmp_path / "out" / "failed" / f"{ran.failed[0].cell.id}.txt").read_text()
    assert "raises_policy.py" in told
    assert run_grid(grid, grid.cells(), store).skipped == 2


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # whatever the cluster's own processes warn of on their way out
def test_a_killed_cluster_worker_costs_nothing(tmp_path, monkeypatch):
    """Two worker processes, one killed without warning half way: every cell completes, and is recorded once."""
    from distributed import LocalCluster

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    grid, seen = quick_grid(12), []
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**options) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def kill_one(outcome):
            seen.append(outcome.cell.seed)
            if len(seen) == 3:
                os.kill(victim, signal.SIGKILL)

        ran = run_grid(grid, grid.cells(), Store(tmp_path), dask=cluster.scheduler_address, on_attempt=kill_one)
    assert (ran.finished, ran.failed) == (12, ())
    assert sorted(seen) == list(range(12))
    table = load(tmp_path)
    assert not table.duplicated(["cell", "trial"]).any()
    run_grid(grid, grid.cells(), Store(tmp_path / "here"))
    assert without_seconds(tmp_path).equals(without_seconds(tmp_path / "here"))


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch, golden):
    """With the address and how to start one."""
    monkeypatch.setattr("rigctl.bench.running.parallel.CONNECT_TIMEOUT_S", 0.2)
    grid = quick_grid(1)
    with golden.raises(UsageError):
        run_grid(grid, grid.cells(), Store(tmp_path), dask="tcp://127.0.0.1:9")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_table_comes_back_as_it_was(form, tmp_path):
    """Every value and kind, NaN and empty words included."""
    rows = run_cell(quick_cell())
    Store(tmp_path, form).write("a-cell", rows)
    frame = load(tmp_path)
    assert list(frame.columns) == list(rows[0])
    # NaN is not equal to itself, its text is
    assert repr(frame.to_dict("records")) == repr(rows)


@pytest.mark.slow
def test_both_forms_may_share_a_directory(tmp_path):
    """A cell counts as finished in either, and a directory is read as one table."""
    for form, seed in (("parquet", 0), ("csv", 1)):
        Store(tmp_path, form).write(f"cell-{seed}", run_cell(quick_cell(seed)))
    assert Store(tmp_path).finished() == {"cell-0", "cell-1"}
    assert set(load(tmp_path)["seed"]) == {0, 1}


@pytest.mark.slow
def test_a_half_written_table_never_counts(tmp_path, golden):
    """Killed before the rename, the draft is neither finished nor read; a success clears an earlier traceback."""
    store = Store(tmp_path)
    (tmp_path / "cells" / ".a-cell.parquet.4242").write_bytes(b"PAR1 and then the power went")
    assert store.finished() == frozenset()
    with golden.raises(UsageError):
        load(tmp_path)
    store.write("a-cell", run_cell(quick_cell()))
    assert store.finished() == {"a-cell"}
    path = store.write_failure("a-cell", "Traceback: a bug")
    assert path.read_text() == "Traceback: a bug"
    store.write("a-cell", run_cell(quick_cell()))
    assert not path.exists()


def test_a_write_that_fails_leaves_nothing_under_the_name(tmp_path):
    """What cannot be encoded is not there afterwards; an empty table of a policy that found nothing worth it is."""
    store = Store(tmp_path, "parquet")
    with pytest.raises(Exception, match=r"(?i)mixed|convert|complex"):
        store.write("odd", [{"cell": "odd", "y": complex(1, 2)}, {"cell": "odd", "y": "text"}])
    assert store.finished() == frozenset()
    store = Store(tmp_path)
    store.write("empty", [])
    store.write("full", [{"cell": "full", "simple": nan, "recommended": ""}])
    assert store.finished() == {"empty", "full"}
    assert list(load(tmp_path)["cell"]) == ["full"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_cells_made_by_other_code_are_known(form, tmp_path):
    """By what stands in their tables; one from before that was written counts as made by other code."""
    store, rows = Store(tmp_path, form), run_cell(quick_cell())
    older = [{k: v for k, v in row.items() if k != "code"} for row in rows]
    cells = {"same": rows, "other": [{**row, "code": "00000000"} for row in rows], "old": older, "empty": []}
    for name, table in cells.items():
        store.write(name, table)
    assert store.of_other_code(list(cells), code_version()) == {"other", "old"}
    assert store.of_other_code(["same"], code_version()) == frozenset()


def test_what_was_asked_is_kept(tmp_path):
    """Grids run into one directory are listed once each."""
    first, second = (Grid((Block(("hartmann3",), (PolicySpec(p, p),), 1.0),)) for p in ("a", "b"))
    for grid in (first, first, second):
        Store(tmp_path).write_grid(grid)
    asked = json.loads((tmp_path / "grid.json").read_text())["grids"]
    assert [block["policies"][0]["label"] for block in asked] == ["a", "b"]
    assert asked[0]["seeds"] == list(range(10))


def test_damaged_files_are_named(tmp_path, golden):
    """A table, and the record of what was asked: each says what to do; so does an extra that is missing."""
    store = Store(tmp_path)
    (tmp_path / "cells" / "a-cell.parquet").write_bytes(b"PAR1 no more")
    with golden.raises(UsageError):
        load(tmp_path)
    (tmp_path / "grid.json").write_text("{")
    with golden.raises(UsageError):
        store.write_grid(Grid((Block(("hartmann3",), (PolicySpec("a", "a"),), 1.0),)))
    with golden.raises(UsageError):
        need("no_such_library", "dask")


@pytest.mark.slow
def test_a_full_disk_is_told(tmp_path, monkeypatch, golden):
    """What was being written is gone, what is finished stays, and the remedy is said."""
    store = Store(tmp_path)
    store.write("first", run_cell(quick_cell()))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with golden.raises(UsageError):
        store.write("second", run_cell(quick_cell(1)))
    assert [p.name for p in (tmp_path / "cells").iterdir()] == ["first.parquet"]
