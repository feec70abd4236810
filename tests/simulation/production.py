"""Lives that produce: from when on a seed's lives run batches (`rigctl operate`), and what whoever starts them asks.

Mostly they run a rule that is drawn: making one of the model takes seconds, and says seldom that a reading matters.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
import scipy.stats.qmc
import sklearn.gaussian_process

from rigctl.campaign.production import for_production
from rigctl.campaign.spec import CampaignSpec
from rigctl.config.load import LoadedConfig
from rigctl.console import run
from rigctl.console.options import Wish
from rigctl.core.advice.rule import Between, RuleLine, Setting, Slope
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.experiment.space import Space
from rigctl.core.operating import policy
from rigctl.core.operating.playing import Way, at_any_reading
from rigctl.errors import PolicyError

OFTEN: Final = 1 / 6
"""How many seeds go over to production."""
LEARNS: Final = {"": 8, "0 %": 1, "5 %": 3, "50 %": 2}
SOONER: Final = (scipy.stats.qmc, sklearn.gaussian_process)
"""What decisions import when they need it: before time and threads are the simulator's, or it could not be imported."""
REAL: Final = 0.1
"""Of these seeds so many make what is run as the program does."""
MOST_LINES: Final = 3


def produces(seed: int) -> bool:
    """Tell whether the lives of a seed go over from a campaign to production."""
    return random.Random(f"{seed} produces").random() < OFTEN


class Plan:
    """Says of each life of one seed whether it produces, and how it is told to."""

    def __init__(self, draw: random.Random, space: Space, lives: int, *, produces: bool) -> None:
        self._draw = draw
        self._space = space
        self.produces = produces
        self.real = draw.random() < REAL
        self._first = draw.randrange(1, max(2, 2 * lives // 3))
        """Life from which on it does, if there is an outcome by then."""
        learn = draw.choices(list(LEARNS), list(LEARNS.values()))[0]
        self._learn = "" if self.real else learn  # else it would be made nearly as often as there are batches

    def wish(self, life: int, recorded: int) -> Wish | None:
        """Return what this life is told; None: it runs trials of the campaign.

        Args:
            life: its number.
            recorded: trials that have given an outcome; with none it is asked for too early now and then.
        """
        if not self.produces or life < self._first or (not recorded and self._draw.random() < 0.8):
            return None
        kind = self._draw.choices(("usual", "campaign", "anew", "told", "other"), (12, 2, 2, 1, 1))[0]
        if kind == "campaign":
            return None
        batches = self._draw.choice((None, None, None, 1, 2))
        if kind == "told":
            return Wish(at=self._setting(), batches=batches)
        learn = self._learn if kind != "other" or self.real else self._draw.choice(list(LEARNS))
        return Wish(learn, batches=batches, anew=kind == "anew")

    def _setting(self) -> str:
        chosen = self._draw.choice(self._space.control_sets)
        own = (self._space.variables[i] for i in chosen.indices)
        return ",".join(f"{v.name}={v.low + (v.high - v.low) * self._draw.random():.3f}" for v in own)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have rules drawn, unless this seed makes real ones."""
        with ExitStack() as stack:
            if self.produces and not self.real:
                stack.enter_context(patch.object(policy, "made", drawn_rule))
            yield


def producing(spec: CampaignSpec, loaded: LoadedConfig, state: Path, wish: Wish) -> CampaignSpec:
    """Return what `rigctl operate` would run in this state directory; the configuration is as it was.

    Raises:
        UsageError, JournalError: as `rigctl operate` has it.
    """
    with (
        patch.object(run, "load", lambda *_, **__: loaded),
        patch.object(run, "configured", lambda *_, **__: loaded),
    ):
        _, decides, _ = run.prepared(loaded.path, state, {}, wish)
    return for_production(spec, replace(decides, policy=spec.policy), wish.batches)


def drawn_rule(
    problem: Problem, history: History, _state: JsonState, rng: np.random.Generator, _tolerance: float
) -> tuple[tuple[Way, ...], tuple[RuleLine, ...]]:
    """Return the best setting so far and any others, and where somebody looks any rule: in place of `playing.made`."""
    if not history.complete:
        raise PolicyError("no trial has given an outcome")
    space, count = at_any_reading(problem).space, len(problem.space.control_sets)
    ways = [_best(space, problem, history)]
    for index in rng.permutation(count)[: int(rng.integers(1, count))]:
        chosen = space.control_sets[index]
        setting = space.evenly(int(index), [float(u) for u in rng.random(len(chosen.indices))])
        ways.append(Way(chosen.names, space.setpoints(int(index), setting)))
    lines = int(rng.integers(1, MOST_LINES + 1)) if problem.looks else 0
    return tuple(ways), tuple(_line(space, rng, last=i == lines - 1) for i in range(lines))


def _best(space: Space, problem: Problem, history: History) -> Way:
    """Return what gave most, so that trying anything else may lose."""
    known = [o for o in history.complete if o.y is not None and o.x is not None and o.control_set >= 0]
    best = max(known, key=lambda o: sign(problem) * (o.y or 0.0))
    chosen, x = space.control_sets[best.control_set], best.x or ()
    setting = space.evenly(best.control_set, [min(max(x[i], 0.0), 1.0) for i in chosen.indices])
    return Way(chosen.names, space.setpoints(best.control_set, setting))


def _line(space: Space, rng: np.random.Generator, *, last: bool) -> RuleLine:
    """Return a line that holds at about half of all readings; the last may hold always, as real ones do."""
    usual = {v.name: [float(q) for q in v.marginal.quantile(np.array([0.3, 0.5, 0.7]))] for v in space.variables}
    chosen = space.control_sets[int(rng.integers(len(space.control_sets)))]
    when, settings = [], []
    if not last or rng.random() < 0.5:
        v = space.variables[int(rng.integers(len(space.variables)))]
        limit = v.low + (v.high - v.low) * usual[v.name][1]
        when = [Between(v.name, limit, None) if rng.random() < 0.5 else Between(v.name, None, limit)]
    for v in (space.variables[i] for i in chosen.indices):
        at = v.low + (v.high - v.low) * float(rng.random())
        by = space.variables[int(rng.integers(len(space.variables)))]
        low, middle, high = (by.low + (by.high - by.low) * x for x in usual[by.name])
        slopes = (Slope(by.name, middle, (v.high - v.low) * float(rng.normal()) / (high - low)),)
        settings.append(Setting(v.name, at, slopes if rng.random() < 0.4 else (), v.low, v.high, v.step))
    return RuleLine(tuple(when), chosen.names, tuple(settings), 0.5, 0.0, 0.0, 0.0, None, 1)
