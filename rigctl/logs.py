"""The log: structlog, loaded and set up when something is first logged, as most commands log nothing."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

from rigctl.printable import printable, printable_values

LEVEL = logging.getLogger("rigctl")
"""Has the level that `configure_logs` sets."""


def configure_logs(*, debug: bool = False) -> None:
    """Log everything, or on a terminal from warnings on, and elsewhere from information on."""
    LEVEL.setLevel(logging.DEBUG if debug else logging.WARNING if sys.stderr.isatty() else logging.INFO)
    if "structlog" in sys.modules:
        _set_up()


def logger(name: str) -> Any:
    import structlog  # noqa: PLC0415 - with rich and pygments a tenth of a start

    if not structlog.is_configured():
        _set_up()
    return structlog.get_logger(name)


def _in_words(_: object, __: str, told: MutableMapping[str, Any]) -> str:
    """Write what happened, and what is known of it, for who sits at a terminal."""
    at, level, event, trace = (told.pop(key, "") for key in ("timestamp", "level", "event", "exception"))
    texts = {key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in told.items()}
    known = "; ".join(f"{key} {text}" for key, text in texts.items() if text or text == 0)
    return f"rigctl: {at:.19}Z {level}: {event}{known and f' ({known})'}\n{printable(trace)}".rstrip()


def _set_up() -> None:
    import structlog  # noqa: PLC0415 - as above

    terminal = sys.stderr.isatty()
    render: Any = _in_words if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if terminal else [structlog.processors.dict_tracebacks]),
            printable_values,
            *([structlog.processors.format_exc_info] if terminal else []),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVEL.level),
        # looked up for every line: the live display puts its own stream in the place of standard error
        logger_factory=lambda *_: structlog.WriteLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
