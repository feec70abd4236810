"""Adds the pages of the site that are made: commands, keys, instruments, tables, what broken configurations get."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from rigctl.config import editor as configuration
from rigctl.console import verbs as commands
from rigctl.console.cli import app

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Append each made page to those that lie in `docs`; mkdocs calls this once a build."""
    sys.path.insert(0, str(ROOT))  # the broken configurations are tests, which are not installed
    from tests.campaign import journal_page
    from tests.config.broken import cases
    from tests.config.test_schema import shipped
    from tests.drivers import instrument_census

    pages = {
        "reference/cli.md": commands.page(typer.main.get_command(app)),
        "reference/configuration.md": configuration.page(configuration.json_schema(shipped())),
        "reference/instruments.md": instrument_census.page(),
        "reference/journal.md": journal_page.page(),
        "messages.md": cases.page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files
