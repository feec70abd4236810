"""`rigctl serve` and `rigctl token`: verbs and their options, and nothing else."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from typing import Annotated

import typer

from rigctl.console.options import AsJson, MaybeConfig, State
from rigctl.console.output import print_json, tell

token = typer.Typer(no_args_is_help=True, help="Say who may act on a campaign from its page.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the person who is to have it.")]


def add_serve_verbs(app: typer.Typer) -> None:
    """Add them to the command line."""
    app.command("serve")(serve)
    app.add_typer(token, name="token")


def serve(
    config: MaybeConfig = None,
    state: State = None,
    *,
    host: Annotated[str, typer.Option(help="Address or name of this machine to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name the page is reached by, e.g. a proxy's; repeatable."),
    ] = None,
    readers: Annotated[int, typer.Option(min=1, help="Browsers that may follow the page live at a time.")] = 100,
    with_parent: Annotated[bool, typer.Option("--with-parent", help="End when standard input ends, too.")] = False,
    json: AsJson = False,
) -> None:
    """Show a campaign as a live page in a browser, running or not; acts need a token."""
    from rigctl.console import serving
    from rigctl.console.assemble import find_state

    serving.serve(
        find_state(config, state),
        host=host,
        port=port,
        allow_hosts=allow_host,
        readers=readers,
        with_parent=with_parent,
        json=json,
    )


@token.command("create")
def create(name: Name, config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """Make a token for a person and show it, this once."""
    from rigctl.console import serving
    from rigctl.console.assemble import find_state

    tell(serving.create_token(find_state(config, state), name), json)


@token.command("list")
def list_tokens(config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """Show who has a token."""
    from rigctl.console import serving
    from rigctl.console.assemble import find_state

    found = serving.list_tokens(find_state(config, state))
    if json:
        print_json(found)
    else:
        lines = [f"{entry['name']}, since {entry['created']}, made by {entry['by']}" for entry in found]
        typer.echo("\n".join(lines) or "nobody has a token: the page is read-only")


@token.command("revoke")
def revoke(name: Name, config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """Let a person's token hold no longer, at once."""
    from rigctl.console import serving
    from rigctl.console.assemble import find_state

    tell(serving.revoke_token(find_state(config, state), name), json)
