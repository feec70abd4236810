"""Logs go to standard error: JSON lines for machines, coloured lines for a person at a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure_logs(*, debug: bool = False) -> None:
    """Set up structlog for this process."""
    terminal = sys.stderr.isatty()
    level = logging.DEBUG if debug else logging.WARNING if terminal else logging.INFO
    render: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.dict_tracebacks]),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # looked up for every line: the live display puts its own stream in the place of standard error
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
