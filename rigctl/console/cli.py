"""The command line: verbs and their options, and nothing else.

What a verb needs is imported when it runs, so that `rigctl --help` stays fast.
"""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from rigctl.console import trial_cli
from rigctl.console.options import (
    AsJson,
    Budget,
    Bus,
    Config,
    IfLeftDriven,
    InitFlags,
    MaxTrials,
    Seed,
    Serve,
    State,
    Watch,
    Wish,
    buses,
)
from rigctl.console.output import (
    Answer,
    after_check,
    after_demo,
    after_run,
    after_status,
    console,
    print_json,
    recommend_command,
    remark,
    tell,
)
from rigctl.console.verbs import PANELS, Commands, Here, Verbs, full_disk_told
from rigctl.signals import INTERRUPTED_EXIT
from rigctl.threads import keep_to_one_thread

if TYPE_CHECKING:
    from rich.console import Console

    from rigctl.config.load import LoadedConfig
    from rigctl.signals import Signals

PROBE_HELP = (
    "Ask who is there, read-only, repeatable: a serial port, a host, host:port, or a URL as in `buses`. With "
    "NAME= before it the device gets that name."
)
Why = Annotated[str, Option(help="Reason, kept for later readers.")]


class _WithGroups(Verbs):
    """Makes a group when one of its verbs is asked for: making all of them takes longer than what most verbs do."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in PANELS["About one thing"] and cmd_name not in self.commands:
            from rigctl.console import group_cli

            group = typer.main.get_group(getattr(trial_cli if cmd_name == "trial" else group_cli, cmd_name))
            group.name = cmd_name
            self.commands[cmd_name] = group
        return super().get_command(ctx, cmd_name)


app = Commands(
    cls=_WithGroups,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Decide which variables of an experiment are worth controlling, drive them, and meter what it cost.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rigctl {version('rigctl')}")
        raise typer.Exit


@app.callback()
def common(
    *,
    debug: Annotated[bool, Option("--debug", help="Log everything; show tracebacks.")] = False,
    version: Annotated[  # noqa: ARG001  # its callback does the work, before a verb is asked for
        bool, Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    from rigctl.logs import configure_logs

    configure_logs(debug=debug)


@app.command()
def demo(
    ctx: typer.Context,
    *,
    scenario: Annotated[str, Option(help="greenhouse, lathe or wind-tunnel.")] = "greenhouse",
    seed: Seed = None,
    speed: Annotated[float | None, Option(help="Rig seconds per wall second.")] = None,
    data: Annotated[Path | None, Option(metavar="DIR", help="Arrays to use as the response.")] = None,
    keep: Annotated[Path | None, Option("--keep", "--state", metavar="DIR", help="Keep the state here.")] = None,
    budget: Budget = None,
    max_trials: MaxTrials = None,
    serve: Serve = False,
    blind: Annotated[bool, Option("--blind/--look", help="Do not look before a trial is decided.")] = False,
    compare: Annotated[
        bool, Option("--compare", help="Run it once more, blind, and compare: the worth of looking.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Run a whole campaign against a simulated rig that speaks the real protocols."""
    from rigctl.config.load import Overrides
    from rigctl.console import demo as demonstration

    changes = Overrides(budget=budget, seed=seed, max_trials=max_trials, speedup=speed)
    where, out = {"data": data, "keep": keep}, console(stderr=json)

    def tell(done: demonstration.Demo) -> None:
        if json:
            print_json(demonstration.to_json(done))
        else:
            demonstration.show(done, out)
            typer.echo(after_demo())

    done = demonstration.demo(
        scenario, changes, out, ctx.obj, **where, tell=tell, serve=serve, blind=blind, compare=compare
    )
    raise typer.Exit(done.exit_code)


@app.command()
def check(
    config: Config,
    *,
    probe: Annotated[bool, Option("--probe", help="Also ask every device, without writing.")] = False,
    bus: Bus = None,
) -> Answer:
    """Check a configuration, and with --probe the devices."""
    from rigctl.console import checking

    found = checking.checked(_load(config, bus, to_run=True), probe=probe)
    following = after_check(found.loaded, probed=probe, silent=found.silent)
    fields = checking.to_json(found, probed=probe)
    return Answer(fields, lambda screen: checking.show(found, screen), following, 1 if found.silent else 0)


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
) -> Answer:
    """Run a campaign until its budget is spent, or resume it."""
    with safe_before(ctx, config, state, json=json):
        from rigctl.console import run as running
        from rigctl.console.assemble import state_directory

        loaded = _load(config, bus, to_run=True, seed=seed, budget=budget, max_trials=max_trials)
        directory = state_directory(state, loaded.name)
        with _shown(loaded, directory, serve=serve, json=json) as screen:
            outcome = running.run_campaign(loaded, directory, screen, ctx.obj)
        ask = recommend_command(config, state)
        found, shown = outcome.recommendation, lambda screen: running.show(outcome, loaded, screen, ask=ask)
        following = after_run(config, state, outcome.result.ending, None if found is None else found.rule)
        return Answer(running.to_json(outcome), shown, following, outcome.exit_code)


@contextmanager
def _shown(loaded: LoadedConfig, directory: Path, *, serve: bool, json: bool) -> Iterator[Console]:
    """Tell what a configuration is warned of; give where a run is shown, with its page beside it if one is wanted."""
    from rigctl.console import checking
    from rigctl.console.serving import page_beside

    for warning in checking.checked(loaded).warnings:
        remark(f"warning: {warning}")
    screen = console(stderr=json)
    with page_beside(serve, directory, screen):
        yield screen


@app.command()
def status(here: Here, *, watch: Watch = False, json: AsJson = False) -> Answer | None:
    """Show how a campaign stands, running or not."""
    from rigctl.console import standing

    if watch:
        from rigctl.console import watch as watching

        watching.watch(here.directory, console(), json=json)
        return None
    answer = standing.status(here.directory)
    return Answer(answer if json else standing.for_people(answer), None, after_status(answer, here.config, here.state))


@app.command()
def stop(here: Here) -> Answer:
    """End a running campaign after the trial under way."""
    answer = _asked(here, "stop")
    return Answer({"ok": True, **answer}, exit_code=1 if answer.get("failed") else 0)


@app.command()
def safe(
    ctx: typer.Context,
    here: Here,
    bus: Bus = None,
    *,
    if_left_driven: IfLeftDriven = False,
    force: Annotated[bool, Option("--force", help="End a campaign that does not answer.")] = False,
) -> Answer:
    """Drive everything to its safe state now, ending a running campaign."""
    from rigctl.console.safe import make_left_safe, make_safe

    what = here.config, here.state, buses(bus), ctx.obj
    done = make_left_safe(*what) if if_left_driven else make_safe(*what, force=force)
    return Answer(done.to_json(), exit_code=done.exit_code)


@app.command()
def operate(
    ctx: typer.Context,
    config: Config,
    *,
    wish: Wish,
    state: State = None,
    bus: Bus = None,
    serve: Serve = False,
    json: AsJson = False,
) -> Answer:
    """Run for production, batch after batch until stopped, what a campaign has found to be best."""
    with safe_before(ctx, config, state, json=json):
        from rigctl.console import run as running

        loaded, decides, directory = running.prepared(config, state, buses(bus), wish)
        with _shown(loaded, directory, serve=serve, json=json) as screen:
            done = running.operate(loaded, (decides, wish.batches), directory, screen, ctx.obj)
        fields, code = running.operated_json(done), running.exit_code(done.result)
        return Answer(fields, lambda screen: running.show_operated(done, loaded, screen), exit_code=code)


@contextmanager
def safe_before(ctx: typer.Context, config: Path, state: Path | None, *, json: bool) -> Iterator[None]:
    """Make safe what a dead process has left driven, before anything that takes time or may be refused.

    Raises:
        typer.Exit: a signal has come by then.
    """
    from rigctl.console.safe import left_safe, make_left_safe, safe_json

    with left_safe(config, state, ctx.obj) as before:
        if before is not None and ctx.obj is not None and ctx.obj.heard:
            left = before if before.ok else make_left_safe(config, state, {}, ctx.obj).report
            tell({"ending": "abandoned", "reason": ctx.obj.heard[0], "safe": safe_json(left)}, json)
            raise typer.Exit(1 if not left.ok else INTERRUPTED_EXIT if ctx.obj.heard[0] == "SIGINT" else 0)
        yield


@app.command()
def pause(
    here: Here,
    why: Why = "",
    now: Annotated[bool, Option("--now", help="Break off the trial under way; it is charged.")] = False,
) -> Answer:
    """Let a running campaign begin no trial, everything safe, until `resume`; also after a restart."""
    return Answer(_asked(here, "pause", why=why, now=now))


@app.command()
def resume(here: Here, why: Why = "") -> Answer:
    """Let a paused campaign go on."""
    return Answer(_asked(here, "resume", why=why))


def _asked(here: Here, verb: str, **arguments: Any) -> Mapping[str, Any]:
    from rigctl.campaign import control
    from rigctl.people import this_person

    answer = control.ask(here.directory, verb, who=this_person(), **arguments)
    return {name: value for name, value in answer.items() if name != "ok"}


@app.command()
def serve(
    here: Here,
    *,
    host: Annotated[str, Option(help="Address or name of this machine to listen at.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Another name the page is reached by, e.g. a proxy's; repeatable."),
    ] = None,
    wall: Annotated[
        list[str] | None,
        Option(metavar="DIR|URL", help="Cards of several campaigns instead: a state directory or page; repeatable."),
    ] = None,
    readers: Annotated[int, Option(min=1, help="Browsers that may follow the page live at a time.")] = 100,
    with_parent: Annotated[bool, Option("--with-parent", help="End when standard input ends, too.")] = False,
    json: AsJson = False,
) -> None:
    """Show a campaign as a live page in a browser, running or not; acts need a token."""
    from rigctl.console import serving
    from rigctl.errors import UsageError

    if wall and (here.config or here.state):
        raise UsageError("--wall: takes neither CONFIG nor --state; name each campaign by a --wall of its own")
    serving.serve(
        Path() if wall else here.directory,
        wall=wall or (),
        host=host,
        port=port,
        allow_hosts=allow_host,
        readers=readers,
        with_parent=with_parent,
        json=json,
    )


@app.command()
def init(
    file: Annotated[Path, Argument(metavar="[FILE]", help="The configuration to write.")] = Path("rig.yaml"),
    *,
    said: InitFlags,
    probe: Annotated[list[str] | None, Option(metavar="PORT|HOST|URL", help=PROBE_HELP)] = None,
    units: Annotated[str, Option(metavar="N-M", help="Modbus unit addresses that --probe asks.")] = "1-8",
    force: Annotated[bool, Option("--force", help="Write over a file that is there.")] = False,
    web: Annotated[bool, Option("--web", help="Ask in a browser of this computer.")] = False,
    json: AsJson = False,
) -> Answer:
    """Write a commented configuration: asks what it needs to know, or takes flags."""
    from rigctl.console.starting import initialise

    wanted = initialise.wanted_of(file, said, probe or (), units, force=force)
    if web:
        from rigctl.console.starting.in_browser import ask_in_browser

        done = ask_in_browser(wanted, partial(typer.echo, err=json))
    else:
        done = initialise.initialise(wanted, stderr=json)
    return Answer(initialise.to_json(done), initialise.lines(done))


@app.command("help")
def help_(
    topic: Annotated[list[str] | None, Argument(metavar="[TOPIC]", help="Name of a page or command.")] = None,
) -> Answer:
    """Show a page of the manual, or list them: how to wire a pump, go on after a trip, what a word means."""
    from rigctl.console import manual
    from rigctl.console.verbs import ALONE

    some, words = manual.at_terminal(), topic or []
    if words and words[0] in {*ALONE, *chain(*PANELS.values())} and "-".join(words) not in some:
        app([*words, "--help"], prog_name="rigctl")
    some = manual.found(" ".join(words), some) if words else some
    return Answer(some, lambda screen: manual.show(some, screen))


for verb in (trial_cli.suggest, trial_cli.ingest, trial_cli.recommend, trial_cli.report):
    app.command()(verb)


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
