"""Doing things on several buses at once, and telling all that went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from rigctl.errors import (
    ConfigError,
    DeviceError,
    GuardRefused,
    IdentityMismatch,
    JournalError,
    PortUnavailable,
    RigctlError,
    Tripped,
)

T = TypeVar("T")

_WORST_FIRST = (Tripped, JournalError, GuardRefused, PortUnavailable, IdentityMismatch, DeviceError, RigctlError)


async def together(*tasks: Awaitable[T]) -> list[T]:
    """Run all to their end, then raise what went wrong, if anything did.

    Unlike a TaskGroup it lets the others finish: half a command on one bus is not undone by breaking off another's.
    Cancelling it cancels all.
    """
    results = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [r for r in results if isinstance(r, BaseException)]
    if errors:
        raise combined(errors)
    return [r for r in results if not isinstance(r, BaseException)]


def combined(errors: Sequence[BaseException]) -> BaseException:
    """One error for several: the kind of the worst, the messages of all."""
    strangers = [e for e in errors if not isinstance(e, RigctlError) or isinstance(e, ConfigError)]
    if len(errors) == 1 or strangers:
        return (strangers or list(errors))[0]
    ranked = sorted(errors, key=_rank)
    error = type(ranked[0])("\n".join(dict.fromkeys(map(str, ranked))))
    error.__cause__ = BaseExceptionGroup("all that went wrong", list(errors))
    return error


def _rank(error: BaseException) -> int:
    return next(i for i, kind in enumerate(_WORST_FIRST) if isinstance(error, kind))
