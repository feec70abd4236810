"""The command line of `rigctl init`: its flags, and nothing else."""

# ruff: noqa: PLC0415  # imports stand in the verb, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.options import AsJson

OUTCOME_HELP = (
    'What the campaign is for: "NAME UNIT", then if you like maximise or minimise, target=X, sensor=DEVICE; '
    'e.g. "growth cm2/day maximise".'
)
VARIABLE_HELP = (
    'What can be controlled, repeatable: "NAME UNIT LOW HIGH", then KEY=VALUE pairs, e.g. "ph pH 5 7 natural=6.3+-0.3 '
    'cost=0.4". Keys: natural (6.3+-0.3, 2..4, uniform or unknown), step; by hand cost (what controlling it adds to a '
    "trial); with wiring sensor, actuator (a device that was found, or a place in one: plc/input/0/float32/CDAB, "
    "plc/holding/2/float32/coil=2, camera/MEAS:GROW?), safe (off, or a value), and of a pump effect (change per mL), "
    "per_dose, per_day, price (per L), mix, treatment."
)
PROBE_HELP = (
    "Ask who is there, read-only, repeatable: a serial port, a host, host:port, or a URL as in `buses`. NAME=... gives "
    "the device that name."
)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(init)


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The configuration to write.")] = Path("rig.yaml"),
    *,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="A bench without wiring: a person does the trials.")
    ] = False,
    probe: Annotated[list[str] | None, typer.Option(metavar="[NAME=]PORT|HOST|URL", help=PROBE_HELP)] = None,
    units: Annotated[str, typer.Option(metavar="N-M", help="Modbus unit addresses that --probe asks.")] = "1-8",
    name: Annotated[str | None, typer.Option(help="The rig's name; default: the file's.")] = None,
    outcome: Annotated[str | None, typer.Option(metavar="TEXT", help=OUTCOME_HELP)] = None,
    variable: Annotated[list[str] | None, typer.Option(metavar="TEXT", help=VARIABLE_HELP)] = None,
    budget: Annotated[str | None, typer.Option(metavar="MONEY", help='Of the campaign, e.g. "40 EUR".')] = None,
    max_per_trial: Annotated[str | None, typer.Option(metavar="MONEY", help='Of one trial, e.g. "2 EUR".')] = None,
    currency: Annotated[str | None, typer.Option(metavar="CODE", help="Default: the budget's, else EUR.")] = None,
    per_trial: Annotated[str | None, typer.Option(metavar="MONEY", help="What every trial costs, once.")] = None,
    per_hour: Annotated[str | None, typer.Option(metavar="MONEY", help="What an hour of trial costs.")] = None,
    energy_price: Annotated[str | None, typer.Option(metavar="MONEY", help="Of 1 kWh, where a meter counts.")] = None,
    settle: Annotated[str | None, typer.Option(metavar="TIME", help="From setpoints to measuring.")] = None,
    measure: Annotated[str | None, typer.Option(metavar="TIME", help="How long is measured.")] = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Between two samples.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: AsJson = False,
) -> None:
    """Write a commented configuration: asks what it needs to know, or takes flags."""
    from rigctl.console import initialise
    from rigctl.console.output import print_json

    said = initialise.Said(
        name=name,
        currency=currency,
        budget=budget,
        max_per_trial=max_per_trial,
        outcome=outcome,
        variables=tuple(variable or ()),
        per_trial=per_trial,
        per_hour=per_hour,
        energy_price=energy_price,
        settle=settle,
        measure=measure,
        every=every,
        by_hand=by_hand,
    )
    done = initialise.initialise(file, said, tuple(probe or ()), units, force=force, stderr=json)
    print_json(initialise.to_json(done)) if json else typer.echo("\n".join(initialise.lines(done)))
