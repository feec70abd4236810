"""The operator's card: what to do for one trial at a bench, before the reasons; as text, and as a page to print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rigctl.config.load import LoadedConfig
from rigctl.core.advice.explain import PURPOSES
from rigctl.core.experiment.policy import Proposal
from rigctl.errors import UsageError
from rigctl.files import whole
from rigctl.page.render import filled
from rigctl.page.shown import ShownLabels
from rigctl.text import joined, shown_name, shown_unit, shown_value


@dataclass(frozen=True, slots=True)
class TrialCard:
    """What a person does for one trial."""

    title: str
    steps: tuple[str, ...]
    """In their order."""
    to_fill: tuple[tuple[str, str], ...]
    """What is to be written down, and its unit."""
    why: tuple[str, ...]
    following: str
    """The command that records the trial; empty: none does."""

    @classmethod
    def of(cls, loaded: LoadedConfig, proposal: Proposal, left: float, why: Sequence[str], following: str) -> TrialCard:
        """Make the card of a proposal; `left`: of the budget, currency units."""
        space, purpose = loaded.problem.space, PURPOSES.get(proposal.phase, "")
        held = space.setpoints(proposal.control_set, proposal.setting)
        labels = ShownLabels.of(loaded)
        free = {shown_name(name, space.units): space.units[name] for name in space.names if name not in held}
        measured = {**free, **{outcome.label: outcome.unit for outcome in labels.outcomes}}
        costs = {} if loaded.problem.known_costs is not None else {"cost": loaded.currency}
        to_fill = tuple((name, shown_unit(unit)) for name, unit in (measured | costs).items())
        set_to = (
            (shown_name(name, space.units), shown_value(name, value, space.units)) for name, value in held.items()
        )
        steps = [f"Set {name} to {value}".rstrip() for name, value in set_to]
        steps += [f"Leave {joined(list(free))} uncontrolled"] if free else []
        to_read = [f"{name} ({unit})" if unit else name for name, unit in to_fill[: len(measured)]]
        steps += [f"Measure {joined(to_read)}"]
        steps += [f"Note what the trial cost, in {loaded.currency}"] if costs else []
        head = f"{loaded.name}, trial {proposal.trial}{f', {purpose}' if purpose else ''}"
        return cls(f"{head}: {left:.2f} {loaded.currency} left", tuple(steps), to_fill, tuple(why), following)

    def lines(self) -> Iterator[str]:
        yield self.title
        yield from (f"  [ ] {step}." for step in self.steps)
        yield from ("", "Why:", *filter(None, (*self.why, self.following)))

    def write(self, path: Path) -> None:
        """Write the card as HTML, one A4 page with room to write; raises UsageError if it cannot be written there."""
        try:
            with whole(path) as new:
                new.write_text(filled("card.html", card=self), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--card {path}: cannot be written: {error.strerror}; choose another place") from error
