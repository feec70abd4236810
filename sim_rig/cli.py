"""The command line: `python -m sim_rig SCENARIO` serves a rig, `python -m sim_rig truth SCENARIO` tells the truth."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sim_rig.clock import SteppedTimer, Timer
from sim_rig.errors import CommandError, SimError
from sim_rig.process import Place, serve
from sim_rig.scenarios import NAMES, build, scenario


def main(arguments: Sequence[str]) -> int:
    """Run, and return the exit code: 0 stopped or answered, 1 could not, 2 wrong usage."""
    try:
        if arguments and arguments[0] == "truth":
            return _tell(_truth_parser().parse_args(arguments[1:]))
        return _serve(_serve_parser().parse_args(arguments))
    except SimError as error:
        sys.stderr.write(f"sim_rig: {error}\n")
        return 2 if isinstance(error, CommandError) else 1


def _serve(options: argparse.Namespace) -> int:
    timer = (SteppedTimer if options.stepped else Timer)(options.speed)
    assembly = build(options.scenario, timer, options.seed, options.data, more_pumps=options.more_pumps)
    place = Place(options.dir, options.port, options.ready, options.with_parent, options.network)
    asyncio.run(serve(assembly, place))
    return 0


def _tell(options: argparse.Namespace) -> int:
    from sim_rig.truth import Truth  # noqa: PLC0415  # serving a rig needs none of it

    truth = Truth(scenario(options.scenario, options.data), blind=options.blind)
    if options.rule is not None:
        sys.stdout.write(json.dumps(truth.rule(_lines(options.rule))) + "\n")
        return 0
    if options.setpoints is not None:
        setting = truth.setting(_checked(options.setpoints, options.control_set))
        report = truth.report()
        share = truth.share(setting.outcome, report["best"]["outcome"])
        told = asdict(setting) | {"share_of_best": share, **{key: report[key] for key in ("best", "scenario")}}
        told["sets"] = report["control_sets"]
    elif options.control_set is not None:
        told = _only(truth.report(), options.control_set)
    else:
        told = truth.report()
    sys.stdout.write((json.dumps(told) if options.json else _table(told)) + "\n")
    return 0


def _only(told: dict[str, Any], control_set: str) -> dict[str, Any]:
    wanted = set(control_set.split("+"))
    found = [s for s in told["control_sets"] if set(s["control_set"]) == wanted]
    if not found:
        allowed = ", ".join("+".join(s["control_set"]) for s in told["control_sets"])
        raise CommandError(f"--control-set: got {control_set}, must be one of {allowed}")
    chosen: dict[str, Any] = found[0]
    return chosen | {"best": told["best"], "scenario": told["scenario"]}


def _lines(text: str) -> list[dict[str, Any]]:
    try:
        lines = [dict(line) for line in json.loads(text)]
    except (ValueError, TypeError):
        lines = []
    if not lines or any({"when", "set"} - line.keys() for line in lines):
        raise CommandError(f"--rule: got {text:.80}, must be JSON: lines with `when` and `set`")
    return lines


def _checked(text: str, control_set: str | None) -> dict[str, float]:
    """Parse setpoints from JSON or from `a=1.2,b=3`, and refuse those that are not the control set's."""
    try:
        given = json.loads(text) if text.lstrip().startswith("{") else dict(p.split("=") for p in text.split(",") if p)
        setpoints = {str(name).strip(): float(value) for name, value in given.items()}
    except (ValueError, TypeError) as error:
        raise CommandError(f"--setpoints: got {text!r}, must be JSON or a=1.2,b=3") from error
    if control_set is not None and set(control_set.split("+")) != set(setpoints):
        raise CommandError(f"--setpoints: got {', '.join(setpoints)}, must be those of --control-set {control_set}")
    return setpoints


def _table(told: dict[str, Any]) -> str:
    sets = told.get("control_sets", [told])
    width = max(len("+".join(s["control_set"])) for s in sets)
    rows = []
    for s in sets:
        at = ", ".join(f"{name} {value:.4g}" for name, value in s["setpoints"].items())
        label = "+".join(s["control_set"]).ljust(width)
        rows.append(f"{label}  {s['outcome']:9.4f}  {s['share_of_best']:7.1%}  {s['cost']:7.3f}  at {at}")
    header = f"{'control set'.ljust(width)}    outcome  of best     cost"
    return "\n".join([header, *rows])


def _serve_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sim_rig",
        description="A simulated rig that speaks the real protocols. `sim_rig truth SCENARIO` tells what is best.",
    )
    parser.add_argument("scenario", choices=NAMES)
    parser.add_argument("--dir", type=Path, required=True, help="where serial ports and the control socket appear")
    parser.add_argument("--port", type=int, default=0, help="TCP port of the PLC on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per wall second")
    parser.add_argument("--more-pumps", action="store_true", help="greenhouse: with a base pump and a feed pump")
    parser.add_argument("--stepped", action="store_true", help="time moves only when told so on the control socket")
    parser.add_argument("--seed", type=int, default=0, help="of supply, noise and actuator errors")
    parser.add_argument("--data", type=Path, help="directory with plant_growth.npz, airfoil.npz")
    parser.add_argument("--ready", type=Path, help="JSON file written once everything listens")
    parser.add_argument("--network", action="store_true", help="every port over TCP; stops when standard input ends")
    parser.add_argument("--with-parent", type=int, metavar="PID", help="stop when this process is gone")
    return parser


def _truth_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sim_rig truth", description="What is truly best on a simulated rig.")
    parser.add_argument("scenario", choices=NAMES)
    parser.add_argument("--data", type=Path, help="directory with plant_growth.npz, airfoil.npz")
    parser.add_argument("--control-set", metavar="A+B", help="only this one")
    parser.add_argument("--setpoints", metavar="JSON", help='the true value of this setting: {"a": 1.2} or a=1.2')
    parser.add_argument("--rule", metavar="JSON", help="the true value of a rule: lines of when and set; as JSON")
    parser.add_argument("--blind", action="store_true", help="of trials that do not look before they are decided")
    parser.add_argument("--json", action="store_true")
    return parser
