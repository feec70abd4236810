"""`rigctl report`, `explain`, `replay`, `export`: what came of a campaign, for people and for other programs."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rigctl.console.options import AsJson, Format, MaybeConfig, Records, State, Technical
from rigctl.console.output import say, tell
from rigctl.errors import UsageError

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Default: report.html here; - is standard output."),
]
Pdf = Annotated[bool, typer.Option("--pdf", help="Also print it to PDF, by a browser that is installed.")]
STDOUT = Path("-")
"""Names standard output, as for other programs."""
Figures = Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each drawing as SVG, PNG and CSV.")]


def add_to(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (report, explain, replay, export):
        app.command()(verb)


def report(
    config: MaybeConfig = None,
    out: Out = None,
    state: State = None,
    *,
    pdf: Pdf = False,
    figures: Figures = None,
    json: AsJson = False,
) -> None:
    """Write what a campaign found as one HTML file: what to run, what it is worth, what was paid and learned."""
    from datetime import UTC, datetime

    from rigctl.console.assemble import open_campaign
    from rigctl.files import whole
    from rigctl.page import report as reporting
    from rigctl.page import report_files

    target = out or Path("report.html")
    if (to_stdout := target == STDOUT) and (pdf or json):
        raise UsageError("--out -: standard output gets the HTML alone; name a file for it beside --pdf or --json")
    if pdf:
        report_files.browser()  # before anything that takes time
    if target.suffix.lower() == ".pdf":
        raise UsageError(
            f"--out {target}: is where HTML goes; give {target.stem}.html, and --pdf prints {target} beside it"
        )
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: cannot be written: there is no directory {target.parent}")
    with open_campaign(config, state) as campaign:
        found = reporting.report(campaign.reader, campaign.loaded, datetime.now(UTC))
    written: dict[str, Any] = {"report": str(target)}
    now = target
    try:
        if not to_stdout:
            with whole(target) as new:
                new.write_text(reporting.document(found), encoding="utf-8")
        if pdf:
            now = target.with_suffix(".pdf")
            report_files.write_pdf(target, now)
            written["pdf"] = str(now)
        if figures is not None:
            now = figures
            written["figures"] = [str(path) for path in report_files.write_figures(found.drawings, figures)]
    except OSError as error:
        raise UsageError(f"{now}: cannot be written: {error.strerror or error}; choose another place") from error
    if to_stdout:
        typer.echo(reporting.document(found).encode())
    else:
        tell(written, json)


def explain(
    config: MaybeConfig = None,
    trial: Annotated[int | None, typer.Option(min=1, help="Default: the last one.")] = None,
    state: State = None,
    *,
    technical: Technical = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out what would have changed the choice.")] = False,
    json: AsJson = False,
) -> None:
    """Say why a trial was chosen, what would have changed that, and what came of it."""
    from rigctl.console import query
    from rigctl.console.assemble import open_campaign

    with open_campaign(config, state) as campaign:
        found = query.explained(campaign, trial, technical=technical, quick=quick)
    say(found, found.sentences, json)


def replay(config: MaybeConfig = None, state: State = None, *, json: AsJson = False) -> None:
    """Recompute every decision from the journal; each must come out the same."""
    from rigctl.console import query
    from rigctl.console.assemble import open_campaign

    with open_campaign(config, state) as campaign:
        trials = query.replayed(campaign)
    say(query.replay_json(trials), query.replay_lines(trials), json)
    raise typer.Exit(0 if all(trial.agrees for trial in trials) else 1)


def export(
    config: MaybeConfig = None,
    state: State = None,
    form: Annotated[Format, typer.Option("--format", help="csv or jsonl.")] = Format.CSV,
    records: Annotated[
        Records, typer.Option(help="trials, ledger, measurements, events, doses, alarms or acts.")
    ] = Records.TRIALS,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write what the journal holds for other programs."""
    from rigctl.console import export as exporting
    from rigctl.console.assemble import open_campaign

    with open_campaign(config, state) as campaign:
        exporting.export(campaign, records, form, None if out == STDOUT else out)
