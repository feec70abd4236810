"""The command line: verbs and their options, and nothing else.

What a verb needs is imported when it runs, so that `rigctl --help` stays fast.
"""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rigctl.campaign.algebra import keep_to_one_thread
from rigctl.console import hand_cli, init_cli, outcome_cli, report_cli
from rigctl.console.acts_cli import add_acts
from rigctl.console.bench_cli import bench
from rigctl.console.hands_cli import add_hands
from rigctl.console.journals_cli import add_journals
from rigctl.console.operate_cli import add_operate, safe_before
from rigctl.console.options import (
    AsJson,
    Budget,
    Bus,
    Config,
    Form,
    HistoryFile,
    IfLeftDriven,
    MaxTrials,
    MaybeConfig,
    Now,
    Seed,
    Serve,
    State,
    Technical,
    Watch,
    buses,
)
from rigctl.console.output import console, print_json, say, tell
from rigctl.console.serve_cli import add_serve_verbs
from rigctl.console.service_cli import add_service
from rigctl.console.tell_cli import add_tell_verbs
from rigctl.console.verbs import Verbs, full_disk_told
from rigctl.errors import UsageError

if TYPE_CHECKING:
    from rigctl.config.load import LoadedConfig
    from rigctl.signals import Signals


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decide which variables of an experiment are worth controlling, drive them, and meter what it cost.",
)
app.add_typer(bench, name="bench")
for add in (
    init_cli.add_to,
    add_acts,
    add_hands,
    add_serve_verbs,
    add_journals,
    add_service,
    add_tell_verbs,
    add_operate,
):
    add(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rigctl {version('rigctl')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Log everything; show tracebacks.")] = False,
    version: Annotated[  # noqa: ARG001  # its callback does the work, before a verb is asked for
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    from rigctl.console.sink import configure_logs

    configure_logs(debug=debug)


@app.command()
def demo(
    ctx: typer.Context,
    *,
    scenario: Annotated[str, typer.Option(help="greenhouse, lathe or wind-tunnel.")] = "greenhouse",
    seed: Seed = None,
    speed: Annotated[float | None, typer.Option(help="Rig seconds per wall second.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Arrays to use as the response.")] = None,
    keep: Annotated[Path | None, typer.Option("--keep", "--state", metavar="DIR", help="Keep the state here.")] = None,
    budget: Budget = None,
    max_trials: MaxTrials = None,
    serve: Serve = False,
    blind: Annotated[bool, typer.Option("--blind/--look", help="Do not look before a trial is decided.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare", help="Then run it once more, blind: what looking is worth.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Run a whole campaign against a simulated rig that speaks the real protocols."""
    from rigctl.config.load import Overrides
    from rigctl.console import demo as demonstration
    from rigctl.console import next_steps

    changes = Overrides(budget=budget, seed=seed, max_trials=max_trials, speedup=speed)
    where = {"data": data, "keep": keep}
    done = demonstration.demo(
        scenario, changes, console(stderr=json), ctx.obj, **where, serve=serve, blind=blind, compare=compare
    )
    if json:
        print_json(demonstration.to_json(done))
    else:
        demonstration.show(done, console())
        typer.echo(next_steps.after_demo())
    raise typer.Exit(done.exit_code)


@app.command()
def check(
    config: Config,
    *,
    probe: Annotated[bool, typer.Option("--probe", help="Also ask every device, without writing.")] = False,
    bus: Bus = None,
    json: AsJson = False,
) -> None:
    """Check a configuration, and with --probe the devices."""
    from rigctl.console import checking, next_steps

    found = checking.checked(_load(config, bus, to_run=True), probe=probe)
    if json:
        print_json(checking.to_json(found, probed=probe))
    else:
        checking.show(found, console())
        typer.echo(next_steps.after_check(found.loaded, probed=probe, silent=found.silent))
    raise typer.Exit(1 if found.silent else 0)


@app.command()
def run(
    ctx: typer.Context,
    config: Config,
    *,
    state: State = None,
    bus: Bus = None,
    seed: Seed = None,
    budget: Budget = None,
    max_trials: MaxTrials = None,
    serve: Serve = False,
    json: AsJson = False,
) -> None:
    """Run a campaign until its budget is spent, or resume it."""
    with safe_before(ctx, config, state, json=json):
        from rigctl.console import checking
        from rigctl.console import run as running
        from rigctl.console.assemble import state_directory
        from rigctl.console.serving import page_beside

        loaded = _load(config, bus, to_run=True, seed=seed, budget=budget, max_trials=max_trials)
        for warning in checking.checked(loaded).warnings:
            typer.echo(f"rigctl: warning: {warning}", err=True)
        directory, shown = state_directory(state, loaded.name), console(stderr=json)
        with page_beside(serve, directory, shown):
            outcome = running.run_campaign(loaded, directory, shown, ctx.obj)
        print_json(running.to_json(outcome)) if json else running.show(outcome, loaded, console())
        raise typer.Exit(outcome.exit_code)


@app.command()
def status(config: MaybeConfig = None, state: State = None, *, watch: Watch = False, json: AsJson = False) -> None:
    """Show how a campaign stands, running or not."""
    from rigctl.console import query
    from rigctl.console import watch as watching
    from rigctl.console.assemble import find_state

    directory = find_state(config, state)
    if watch:
        watching.watch(directory, console(), json=json)
        return
    answer = query.status(directory)
    tell(answer if json else watching.for_people(answer), json)


@app.command()
def stop(config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """End a running campaign after the trial under way."""
    from rigctl.campaign import control
    from rigctl.campaign.people import this_person
    from rigctl.console.assemble import find_state

    answer = control.ask(find_state(config, state), "stop", who=this_person())
    tell(answer, json)
    raise typer.Exit(1 if answer.get("failed") else 0)


@app.command()
def safe(
    ctx: typer.Context,
    config: MaybeConfig = None,
    state: State = None,
    bus: Bus = None,
    *,
    if_left_driven: IfLeftDriven = False,
    force: Annotated[bool, typer.Option("--force", help="End a campaign that does not answer.")] = False,
    json: AsJson = False,
) -> None:
    """Drive everything to its safe state now, ending a running campaign."""
    from rigctl.console.safe import make_left_safe, make_safe

    there = buses(bus)
    if if_left_driven:
        done = make_left_safe(config, state, there, ctx.obj)
    else:
        done = make_safe(config, state, there, ctx.obj, force=force)
    tell(done.to_json(), json)
    raise typer.Exit(done.exit_code)


@app.command("reset-trip")
def reset_trip(config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """Let a tripped rig run again, once the cause is found."""
    from rigctl.console import trip
    from rigctl.console.assemble import find_own_state

    found = trip.reset(find_own_state(config, state))
    tell(found, json) if json or found["reset"] else typer.echo("nothing had tripped")


@app.command("accept-device")
def accept_device(
    which: Annotated[list[str], typer.Argument(metavar="[CONFIG] NAME", help="Default: as last started.")],
    state: State = None,
    bus: Bus = None,
    *,
    json: AsJson = False,
) -> None:
    """Expect the instrument that answers as this device now, once a person has looked at it."""
    from rigctl.console import trip
    from rigctl.console.assemble import find_own_state, loaded_here

    if len(which) > 2:
        raise UsageError(f"accept-device: got {' '.join(which)}, must be [CONFIG] NAME")
    config = Path(which[0]) if len(which) > 1 else None
    directory = find_own_state(config, state)
    tell(trip.accept_device(loaded_here(config, directory, buses(bus)), directory, which[-1]), json)


@app.command()
def suggest(
    config: Config,
    *,
    now: Now = None,
    history: HistoryFile = None,
    state: State = None,
    seed: Seed = None,
    budget: Budget = None,
    technical: Technical = False,
    json: AsJson = False,
) -> None:
    """Say what the next trial should be; needs no hardware."""
    from rigctl.console import next_steps
    from rigctl.console import suggest as suggesting
    from rigctl.console.assemble import state_directory

    loaded = _load(config, seed=seed, budget=budget)
    past = suggesting.read_past(loaded, state_directory(state, loaded.name), history)
    suggestion = suggesting.suggest(loaded, past, suggesting.readings(loaded, now))
    other = "its history is not the campaign's" if history else ""
    why_not = other or suggesting.keep(loaded, state_directory(state, loaded.name), suggestion.decision)
    if why_not:
        typer.echo(f"rigctl: this suggestion is not kept in the journal: {why_not}", err=True)
    answer = suggesting.to_json(loaded, past, suggestion)
    lines = suggesting.sentences(loaded, suggestion.proposal, technical=technical)
    following = [] if history else [next_steps.after_suggest(loaded, state, answer["setpoints"])]
    say(answer, [*lines, *following], json)


hand_cli.add_to(app)
outcome_cli.add_to(app)
report_cli.add_to(app)


@app.command()
def recommend(
    config: MaybeConfig = None,
    state: State = None,
    history: HistoryFile = None,
    *,
    now: Now = None,
    technical: Technical = False,
    json: AsJson = False,
) -> None:
    """Say what to run from now on, and what else there is."""
    from rigctl.console import next_steps, report
    from rigctl.console.assemble import open_campaign, state_directory
    from rigctl.console.board import Labels
    from rigctl.console.suggest import read_now, read_past

    if config is not None and history is not None:
        loaded = _load(config)
        past = read_past(loaded, state_directory(state, loaded.name), history)
        found = report.from_history(loaded, past.history, past.state, read_now(loaded, now))
    elif history is not None:
        raise UsageError("recommend: --history needs a configuration")
    else:
        with open_campaign(config, state) as campaign:
            loaded = campaign.loaded
            found = report.from_journal(loaded, campaign.reader, changes=True, now=read_now(loaded, now))
    if json:
        print_json(report.to_json(found))
    else:
        report.show(found, Labels.of(loaded), console(), technical=technical)
        if history is None:
            typer.echo(next_steps.after_recommend(config, state, found.rule))


@app.command()
def drivers(*, json: AsJson = False) -> None:
    """List the installed drivers."""
    from rigctl.console import query
    from rigctl.rig.registry import Registry

    found = Registry.installed().describe()
    say(found, query.driver_lines(found), json)


@app.command()
def schema(
    ctx: typer.Context,
    form: Annotated[Form, typer.Option("--as", help="json (default), configuration or commands.")] = Form.JSON,
) -> None:
    """Print the JSON schema of the configuration, for editors; or the reference of all keys, or of all commands."""
    from rigctl.config import editor, reference
    from rigctl.console.reference import page
    from rigctl.rig.registry import Registry

    keys = editor.json_schema(Registry.installed())
    made = {Form.JSON: lambda: editor.schema_text(keys), Form.CONFIGURATION: lambda: reference.page(keys)}
    typer.echo(made.get(form, lambda: page(ctx.find_root().command))(), nl=False)


def main(signals: Signals | None = None) -> None:
    """Run the verb on the command line; `signals` are caught already if it moves something."""
    keep_to_one_thread()
    if signals is None:
        with full_disk_told():
            app(prog_name="rigctl")
        return
    from rigctl.console.sink import outlets

    with outlets():
        app(prog_name="rigctl", obj=signals)


def _load(config: Path, bus: list[str] | None = None, *, to_run: bool = False, **changes: Any) -> LoadedConfig:
    from rigctl.config.load import Overrides, load

    return load(config, Overrides(buses=buses(bus), **changes), to_run=to_run)
