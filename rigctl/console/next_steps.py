"""What to do next, in one line that can be run as it stands but for what is in capitals."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from rigctl.config.load import LoadedConfig
from rigctl.core.rule import Rule

HEAD = "Next: "


def after_demo() -> str:
    return f"{HEAD}rigctl init   (a configuration of your own; --by-hand for a bench without wiring)"


def after_init(path: Path) -> str:
    return f"{HEAD}rigctl check {_word(path)}"


def after_check(loaded: LoadedConfig, *, probed: bool, silent: bool) -> str:
    """Ask the instruments, then run; a bench by hand has a first trial at once."""
    config = _word(loaded.path)
    if not loaded.wired:
        return f"{HEAD}rigctl suggest {config}   (trials of the past first: rigctl import {config} OLD.csv)"
    if silent or not probed:
        again = "   (once more, when those that are silent are mended)" if silent else ""
        return f"{HEAD}rigctl check {config} --probe{again}"
    return f"{HEAD}rigctl run {config}"


def after_suggest(loaded: LoadedConfig, state: Path | None, setpoints: Mapping[str, float]) -> str:
    """Write what came of it: what was set stands there, what is to be measured is left to fill in."""
    names = (*loaded.problem.space.names, *(further.name for further in loaded.problem.further))
    values = ",".join(f"{n}={setpoints[n]:.4g}" if n in setpoints else f"{n}=MEASURED" for n in names)
    words = f"--control-set {'+'.join(setpoints)} --values {values} --outcome MEASURED --cost PAID"
    return f"{HEAD}rigctl ingest {_word(loaded.path)} {words}{_where(state)}"


def after_ingest(loaded: LoadedConfig, state: Path | None, *, spent: bool) -> str:
    """Go on with the next trial, or, once the budget is spent, read what came of it."""
    config, where = _word(loaded.path), _where(state)
    recommend = f"rigctl recommend {config}{where}"
    return f"{HEAD}{recommend}" if spent else f"{HEAD}rigctl suggest {config}{where}   (at any time: {recommend})"


def after_recommend(config: Path | None, state: Path | None, rule: Rule | None) -> str:
    """Write it all down for others; where readings count, ask what is best at just what was read."""
    which = f"{'' if config is None else f' {_word(config)}'}{_where(state)}"
    report = f"{HEAD}rigctl report{which}   (one page to read, mail and print)"
    if rule is None or not rule.follows:
        return report
    read = ",".join(f"{trust.variable}=READ" for trust in rule.trust if trust.rho > 0)
    return f"On a day: rigctl recommend{which} --now {read}   (what is best at just that)\n{report}"


def _word(path: Path) -> str:
    return shlex.quote(str(path))


def _where(state: Path | None) -> str:
    return "" if state is None else f" --state {_word(state)}"
