"""Grids here, in worker processes and on a cluster: resumed, failing and killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rigctl.bench.asking.grid import Block, Grid
from rigctl.bench.cell import PolicySpec
from rigctl.bench.running.parallel import run_grid
from rigctl.bench.running.store import Store, load
from rigctl.errors import UsageError
from tests.bench.players import QUICK, RAISES, install_plugin
from tests.golden import Golden

ROOT = Path(__file__).parent.parent.parent


def quick_grid(seeds: int, *policies: PolicySpec) -> Grid:
    return Grid((Block(("hartmann3",), policies or (QUICK,), 0.4, seeds=tuple(range(seeds))),))


def without_seconds(directory):
    return load(directory).drop(columns="decision_s")


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
    grid = quick_grid(4)
    for jobs, name in ((1, "here"), (2, "there")):
        ran = run_grid(grid, grid.cells(), Store(tmp_path / name), jobs=jobs)
        assert (ran.finished, ran.failed) == (4, ())
    assert without_seconds(tmp_path / "here").equals(without_seconds(tmp_path / "there"))


def test_a_policy_that_raises_fails_its_cells_only(tmp_path, monkeypatch, golden: Golden):
    """A third party's bug is reported with its traceback; all other cells finish, and the failed one is tried again."""
    install_plugin(tmp_path, "faulty_policy", RAISES, "raises", "Raises")
    monkeypatch.syspath_prepend(tmp_path)
    grid, store = quick_grid(2, PolicySpec("faulty", "raises"), QUICK), Store(tmp_path / "out")
    ran = run_grid(grid, grid.cells(), store)
    assert (ran.finished, [o.cell.policy.label for o in ran.failed]) == (2, ["faulty", "faulty"])
    golden(ran.failed[0].error)
    told = (tmp_path / "out" / "failed" / f"{ran.failed[0].cell.id}.txt").read_text()
    assert "faulty_policy.py" in told
    assert run_grid(grid, grid.cells(), store).skipped == 2


@pytest.mark.system
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
def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch, golden: Golden):
    """With the address and how to start one."""
    monkeypatch.setattr("rigctl.bench.running.parallel.CONNECT_TIMEOUT_S", 0.2)
    grid = quick_grid(1)
    with pytest.raises(UsageError) as refused:
        run_grid(grid, grid.cells(), Store(tmp_path), dask="tcp://127.0.0.1:9")
    golden(refused.value)
