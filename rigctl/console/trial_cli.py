"""Commands about trials: done by hand, recorded, corrected, explained; and what came of them all."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from rigctl.console.options import (
    STDOUT,
    AmendFlags,
    AsJson,
    Budget,
    Config,
    Details,
    HistoryFile,
    Now,
    Seed,
    State,
    TableFlags,
    Technical,
    TrialFlags,
    named,
    table_named,
)
from rigctl.console.output import (
    Answer,
    after_ingest,
    after_recommend,
    after_suggest,
    asked,
    at_a_terminal,
    before_recommend,
    columns,
    recommend_command,
    remark,
    write,
    yes,
)
from rigctl.console.verbs import Commands, Group, Here
from rigctl.errors import Ambiguous, Mistake, PolicyError, UsageError
from rigctl.flaws import got
from rigctl.printable import printable

T = TypeVar("T")
NOTHING = "nothing was recorded"
Force = Annotated[bool, Option("--force", help="Record what looks mistyped all the same.")]
Why = Annotated[str, Option("--why", help="Reason, kept for later readers.")]
Out = Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Default: report.html; - is standard output.")]
Pdf = Annotated[bool, Option("--pdf", help="Also print it to PDF, by a browser that is installed.")]
Figures = Annotated[Path | None, Option(metavar="DIR", help="Also write each drawing as SVG, PNG and CSV.")]

Author = Annotated[str, Option(help="Author of the report, shown below its title.")]
Logo = Annotated[Path | None, Option(metavar="FILE", help="PNG, JPEG or SVG to stand beside its title.")]
Monthly = Annotated[float | None, Option(min=0.1, help="Trials a month; default: the pace so far.")]

trial = Commands(cls=Group, no_args_is_help=True, help="Explain, correct and complete single trials; import old ones.")


def suggest(
    config: Config,
    *,
    now: Now = None,
    history: HistoryFile = None,
    state: State = None,
    seed: Seed = None,
    budget: Budget = None,
    technical: Technical = False,
    card: Annotated[Path | None, Option(metavar="FILE", help="Also write it as an HTML page to print.")] = None,
) -> Answer:
    """Say what the next trial should be, what to do for it, and why; needs no hardware."""
    from rigctl.config.load import Overrides, load
    from rigctl.console.assemble import state_directory
    from rigctl.console.benches import suggest as suggesting
    from rigctl.console.benches.card import TrialCard

    loaded = load(config, Overrides(seed=seed, budget=budget))
    past = suggesting.read_past(loaded, state_directory(state, loaded.name), history)
    suggestion = suggesting.suggest(loaded, past, suggesting.readings(loaded, now))
    other = "its history is not the campaign's" if history else ""
    why_not = other or suggesting.keep(loaded, state_directory(state, loaded.name), suggestion.decision)
    if why_not:
        remark(f"this suggestion is not kept in the journal: {why_not}")
    answer = suggesting.to_json(loaded, past, suggestion)
    following = "" if history else after_suggest(loaded, state, answer["setpoints"])
    left = answer["budget"]["total"] - answer["budget"]["spent"]
    why = suggesting.sentences(loaded, suggestion.proposal, technical=technical, titled=loaded.wired)
    made = TrialCard.of(loaded, suggestion.proposal, left, why, following)
    if card is not None:
        made.write(card)
    return Answer(answer, [*why, following] if loaded.wired or technical else made.lines())


def ingest(
    config: Config,
    source: Annotated[
        str | None, Argument(metavar="[FILE]", help="A spreadsheet or CSV file, or - for JSON on stdin.")
    ] = None,
    *,
    said: TrialFlags,
    flags: TableFlags,
    state: State = None,
    force: Force = False,
    json: AsJson = False,
) -> Answer:
    """Record trials done by hand; asks before it takes what looks mistyped."""
    from rigctl.config.load import load
    from rigctl.console.assemble import state_directory
    from rigctl.console.benches import ingest as ingesting
    from rigctl.console.benches.by_hand import read_rows

    if source is not None and source != "-":
        table_named("ingest", config, source)
    if source in (None, "-") and flags != TableFlags():
        raise UsageError("ingest: options say how a table is to be read; give FILE, too, or leave them out")
    loaded = load(config)
    if source == "-":
        rows = ingesting.rows_from_json(loaded, sys.stdin.read())
    elif source is not None:
        rows = answering(lambda said: read_rows(loaded, Path(source), said), flags, ask=not json)
    elif said.control_set is not None:
        rows = (ingesting.row_from_options(loaded, said),)
    else:
        raise UsageError("ingest: give --control-set, or a table, or - for JSON on standard input")
    if source is not None and said != TrialFlags():
        raise UsageError(f"ingest: {source} has trials of its own; give either a file or the options of one trial")
    sure = made_sure(force=force, ask=source != "-" and not json)
    done = ingesting.ingest(loaded, state_directory(state, loaded.name), rows, sure)
    if done.departed:
        remark(f"trial {done.trials[0]} is recorded as not following the suggestion: {done.departed}")
    fields, spent = done.to_json(), done.spent >= done.budget
    return Answer(fields, [_recorded(fields, loaded.currency)], after_ingest(loaded, state, spent=spent))


def _recorded(answer: Mapping[str, Any], currency: str) -> str:
    new = answer["trials"]
    trials = f"trials {new[0]} to {new[-1]}" if new[1:] else f"trial {new[0]}" if new else "no trial"
    return f"{trials} recorded; {answer['spent']:.2f} of {answer['budget']:.2f} {currency} spent"


def recommend(
    here: Here,
    history: HistoryFile = None,
    *,
    now: Now = None,
    details: Details = False,
    technical: Technical = False,
    json: AsJson = False,
) -> Answer:
    """Say what to run from now on, why, and how sure that is."""
    from rigctl.config.load import load
    from rigctl.console import report
    from rigctl.console.assemble import state_directory
    from rigctl.console.benches.suggest import read_now, read_past
    from rigctl.page.shown import ShownLabels

    changes = details or technical or json
    if here.config is not None and history is not None:
        loaded = load(here.config)
        past = read_past(loaded, state_directory(here.state, loaded.name), history)
        found = report.from_history(loaded, past.history, past.state, read_now(loaded, now), changes=changes)
    elif history is not None:
        raise UsageError("recommend: --history needs a configuration")
    else:
        with here.opened() as campaign:
            loaded = campaign.loaded
            try:
                found = report.from_journal(loaded, campaign.reader, changes=changes, now=read_now(loaded, now))
            except PolicyError as error:
                if error.awaited is not None:
                    wired = loaded.wired
                    error.extend(f"\n{before_recommend(here.config, here.state, error.awaited, wired=wired)}")
                raise
    ask, labels = recommend_command(here.config, here.state, history), ShownLabels.of(loaded)
    return Answer(
        report.to_json(found),
        lambda screen: report.show(found, labels, screen, ask=ask, technical=technical, details=details),
        "" if history is not None else after_recommend(here.config, here.state, found.rule),
    )


def report(
    here: Here,
    out: Out = None,
    *,
    pdf: Pdf = False,
    figures: Figures = None,
    author: Author = "",
    logo: Logo = None,
    trials_per_month: Monthly = None,
    json: AsJson = False,
) -> Answer | None:
    """Write what a campaign found as one HTML file: what to run, what it is worth, what was paid and learned."""
    from datetime import UTC, datetime

    from rigctl.files import whole
    from rigctl.page import report as reporting
    from rigctl.page import report_files

    target = out or Path("report.html")
    to_stdout = target == STDOUT
    if to_stdout and (pdf or json):
        raise UsageError("--out -: standard output gets the HTML alone; name a file for it beside --pdf or --json")
    if pdf:
        report_files.browser()  # before anything that takes time
    if target.suffix.lower() == ".pdf":
        raise UsageError(
            f"--out {target}: is where HTML goes; give {target.stem}.html, and --pdf prints {target} beside it"
        )
    if not target.parent.is_dir():
        raise UsageError(f"--out {target}: cannot be written: there is no directory {target.parent}")
    shown = "" if logo is None else report_files.picture(logo)
    with here.opened() as campaign:
        signed: dict[str, Any] = {"author": author, "logo": shown, "trials_a_month": trials_per_month}
        found = reporting.report(campaign.reader, campaign.loaded, datetime.now(UTC), **signed)
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
        return None
    return Answer(written)


# about single trials -------------------------------------------------------------------------------------------------


@trial.command()
def explain(
    here: Here,
    trial: Annotated[int | None, Option(min=1, help="Default: the last one.")] = None,
    *,
    technical: Technical = False,
    quick: Annotated[bool, Option("--quick", help="Leave out what would have changed the choice.")] = False,
) -> Answer:
    """Say why a trial was chosen, what would have changed that, and what came of it."""
    from rigctl.console import query

    with here.opened() as campaign:
        found = query.explained(campaign, trial, technical=technical, quick=quick)
    return Answer(found, found.sentences)


@trial.command(context_settings={"ignore_unknown_options": True})  # a value may be negative
def outcome(
    which: Annotated[
        list[str] | None,
        Argument(metavar="[CONFIG] [TRIAL VALUE [UNIT]]", help="The trial's number, and what came of it."),
    ] = None,
    *,
    source: Annotated[
        Path | None, Option("--from", metavar="FILE", help="A table with the columns trial, the outcomes, and unit.")
    ] = None,
    flags: TableFlags,
    values: Annotated[str, Option(metavar="NAME=X,...", help="Further outcomes, in their own units.")] = "",
    lost: Annotated[bool, Option("--lost", help="None comes: the trial ends without one; needs --why.")] = False,
    why: Annotated[str, Option("--why", help="Reason, kept for later readers.")] = "",
    force: Annotated[
        bool, Option("--force", help="Record what looks mistyped, or comes after it was given up.")
    ] = False,
    state: State = None,
    json: AsJson = False,
) -> Answer:
    """Record the outcome of a trial that awaits it; without arguments list the trials that do."""
    from rigctl.console.assemble import find_own_state
    from rigctl.console.benches import outcomes

    asked = outcomes.asked_of(which or [], source, values, flags, lost=lost)
    directory = find_own_state(asked.config, state)
    if asked.nothing:
        waiting = outcomes.waiting(directory)
        return Answer(waiting, outcomes.lines(waiting))
    sure = made_sure(force=force, ask=not json)
    done = answering(
        lambda said: outcomes.record(directory, replace(asked, flags=said), sure, force=force, why=why),
        flags,
        ask=not json,
    )
    return Answer(done, [said["outcome"] for said in done])


@trial.command()
def amend(
    which: Annotated[
        list[str], Argument(metavar="[CONFIG] TRIAL", help="The trial's number; default CONFIG: as last started.")
    ],
    *,
    change: AmendFlags,
    why: Why = "",
    state: State = None,
    force: Force = False,
    json: AsJson = False,
) -> Answer:
    """Correct what was recorded of a trial; what it was before stays visible."""
    from rigctl.campaign.acts import Amend
    from rigctl.console.assemble import find_own_state, perform
    from rigctl.console.benches import outcomes

    config, (number,) = named("amend", which, "TRIAL", number=True)
    directory, trial = find_own_state(config, state), int(number)
    becomes = outcomes.asked(directory, trial, change, config, made_sure(force=force, ask=not json))
    done = perform(Amend(why=why, trial=trial, becomes=becomes), directory)
    return Answer(done, [done["outcome"]])


@trial.command("import")
def import_(
    which: Annotated[
        list[str], Argument(metavar="[CONFIG] FILE", help="A spreadsheet or CSV file; default CONFIG: as last started.")
    ],
    *,
    flags: TableFlags,
    controlled: Annotated[
        str | None, Option(metavar="NAMES", help="Variables controlled in all rows, joined by +; or nothing.")
    ] = None,
    noise: Annotated[
        float | None, Option(metavar="SD", help="Standard deviation of these outcomes, in their own unit.")
    ] = None,
    noise_factor: Annotated[float, Option(help="Their noise over that of the campaign's own trials.")] = 1.0,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be imported, and import nothing.")] = False,
    force: Annotated[bool, Option("--force", help="Import the same file once more, and what looks mistyped.")] = False,
    state: State = None,
    json: AsJson = False,
) -> Answer:
    """Take in trials from before the campaign, out of a spreadsheet; they are evidence, and nobody is charged."""
    from rigctl.console.assemble import find_state, loaded_here, state_directory
    from rigctl.console.tables import importing

    config, (file,) = named("import", which, "FILE")
    path = table_named("trial import", config, file)
    loaded = loaded_here(config, find_state(None, state) if config is None else Path(), {})
    directory = state_directory(state, loaded.name) if config is not None else find_state(None, state)
    plan = answering(lambda said: importing.planned(loaded, path, said, controlled), flags, ask=not json)
    known_noise = importing.noise_of(loaded, noise, noise_factor)
    if not json:
        for line in importing.preview(loaded, plan, columns(sys.stdout)):
            write(line)
    answer = dict(importing.to_json(loaded, plan))
    if dry_run:
        answer["doubts"] = importing.doubted(loaded, directory, plan)
    else:
        sure = made_sure(force=force, ask=not json)
        answer |= importing.record(loaded, directory, plan, known_noise, sure, again=force)
    if dry_run:
        return Answer(answer, [f"mistyped? {doubt}" for doubt in answer["doubts"]])
    return Answer(answer, [_recorded(answer, loaded.currency)], after_ingest(loaded, state, spent=False))


def answering(read: Callable[[TableFlags], T], said: TableFlags, *, ask: bool) -> T:
    """Read a table; ask a person at a terminal what is unclear in it, once for all its cells.

    Raises:
        UsageError: the person gives up.
        Ambiguous: there is no terminal; it names the options that answer.
    """
    from rigctl.console.tables.reading import QUESTIONS

    while True:
        try:
            return read(said)
        except Ambiguous as error:
            if not (ask and at_a_terminal()):
                raise
            given = [f"{question}={_answer(m, QUESTIONS[question][1])}" for question, m in error.questions.items()]
            said = replace(said, answers=[*(said.answers or ()), *given])


def _answer(what: Mistake, answers: Mapping[str, str]) -> str:
    """Ask a person what is meant, until it is one of the answers."""
    write(f"{what.where}: {replace(what.flaw, remedy='')}", sys.stderr)
    write("\n".join(f"  {answer} {does}" for answer, does in answers.items()), sys.stderr)
    choice = " or ".join(answers)

    def one(text: str) -> str:
        if text not in answers:
            raise ValueError(got(text, f"must be {choice}"))
        return text

    return asked(choice, one, NOTHING)


def made_sure(*, force: bool, ask: bool) -> Callable[[Sequence[str]], None]:
    """Return what is told of doubts: it asks a person at a terminal, and refuses where there is none."""

    def sure(doubts: Sequence[str]) -> None:
        told = printable("\n".join(f"  {doubt}" for doubt in doubts))
        if not doubts:
            return
        if force:
            remark(f"recorded all the same:\n{told}")
        elif ask and at_a_terminal():
            write(f"This looks mistyped:\n{told}", sys.stderr)
            if not asked("Record it all the same? [y/N]", lambda text: yes(text or "no"), NOTHING):
                raise UsageError(NOTHING)
        else:
            raise UsageError(f"this looks mistyped, so nothing was recorded; with --force it is:\n{told}")

    return sure
