"""`rigctl report`: a campaign as one file that can be mailed, printed and kept."""

# ruff: noqa: PLC0415  # imports stand in the verb, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rigctl.console.options import AsJson, MaybeConfig, State
from rigctl.console.output import tell
from rigctl.errors import UsageError

Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: report.html here.")]
Pdf = Annotated[bool, typer.Option("--pdf", help="Also print it to PDF, by a browser that is installed.")]
Figures = Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each drawing as SVG, PNG and CSV.")]


def add_to(app: typer.Typer) -> None:
    app.command()(report)


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
    from rigctl.page import report as reporting
    from rigctl.page import report_files

    target = out or Path("report.html")
    if pdf:
        report_files.browser()  # before anything that takes time
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: cannot be written: there is no directory {target.parent}")
    with open_campaign(config, state) as campaign:
        found = reporting.report(campaign.reader, campaign.loaded, datetime.now(UTC))
    target.write_text(reporting.document(found), encoding="utf-8")
    written: dict[str, Any] = {"report": str(target)}
    if pdf:
        report_files.write_pdf(target, target.with_suffix(".pdf"))
        written["pdf"] = str(target.with_suffix(".pdf"))
    if figures is not None:
        written["figures"] = [str(path) for path in report_files.write_figures(found.drawings, figures)]
    tell(written, json)
