"""Sections that others are made of: what any section is, and how a variable varies when it is left alone.

Each docstring goes into the JSON schema, so into the editor.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rigctl.config.fields import Quantity, Samples, one_of, or_words


class Section(BaseModel):
    """A mapping of the file: unknown keys are errors, numbers are no text and text is no number."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class OpenSection(Section):
    """A mapping whose other keys belong to a driver or policy, and are checked by it."""

    model_config = ConfigDict(extra="allow")


class TruncatedNormalNatural(Section):
    """A normal distribution cut at the variable's natural range; give mean and sd, or loc and scale."""

    mean: Quantity | None = None
    """Mean of the variable itself, as measured."""
    sd: Quantity | None = None
    """Standard deviation of the variable itself, as measured."""
    loc: Quantity | None = None
    """Mean of the normal distribution before it is cut."""
    scale: Quantity | None = None
    """Standard deviation of the normal distribution before it is cut."""


class UniformNatural(Section):
    """All values between two alike."""

    low: Quantity | None = None
    """Default: the lowest of the natural range."""
    high: Quantity | None = None
    """Default: the highest of the natural range."""


class DeclaredNatural(Section):
    """A distribution: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform"))

    truncated_normal: TruncatedNormalNatural | None = None
    """Normal, cut at the natural range."""
    uniform: UniformNatural | None = None
    """All alike, in the whole natural range or a part of it."""
    empirical: Samples | None = None
    """Measured values, as a list or as {file, column} of a CSV file beside the configuration."""


class LearnedNatural(Section):
    """Learned from the readings of trials that left the variable alone."""

    prior: Annotated[DeclaredNatural, BeforeValidator(one_of("truncated_normal, uniform, empirical"))] = Field(
        default_factory=lambda: DeclaredNatural(uniform=UniformNatural())
    )
    """What is believed until there are enough readings, and again after the supply has changed; default: uniform."""
    at_least: int = Field(default=8, ge=2)
    """How many readings are enough."""


class NaturalSection(DeclaredNatural):
    """How a variable varies when it is left alone: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform", "learned"))

    learned: LearnedNatural | None = None
    """From readings; a supply that changes is noticed."""
