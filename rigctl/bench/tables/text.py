"""Summaries and comparisons as plain text tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rigctl.bench.tables.results import FLOOR_SHARE, SHARES
from rigctl.bench.tables.summary import REGRETS, Comparison, Summary


def summary_text(rows: Sequence[Summary]) -> str:
    """Return a table per scenario, a line per policy, mean ± standard error, without columns that nobody knows."""
    blocks = []
    for scenario, group in groupby(rows, key=lambda row: row.scenario):
        columns = [_columns(row) for row in group]
        known = [name for name in columns[0] if any(line.get(name, "nan") != "nan" for line in columns)]
        lines = [[line.get(name, "") for name in known] for line in columns]
        blocks.append(f"{scenario}\n{table([known, *lines])}")
    return "\n\n".join(blocks)


def _columns(row: Summary) -> dict[str, str]:
    regrets = {f"{r} {share:.0%}": str(row.at_share[r, share]) for r in REGRETS for share in SHARES}
    end = {name.replace("_", " "): str(stat) for name, stat in row.at_end.items()}
    return {
        "policy": row.policy,
        "seeds": str(row.seeds),
        **regrets,
        **end,
        "trials": f"{row.evaluations.mean:.0f}",
        "decision ms": f"{1e3 * row.decision_s.mean:.3g}",
    }


def comparison_text(comparison: Comparison) -> str:
    """Return a line per scenario, regret and share, and the geometric means."""
    head = ["setting", "regret", "budget", "seeds", comparison.ours, "best published", "its regret", "ratio", ""]
    lines = [
        [
            str(r.scenario),
            r.regret,
            f"{r.share:.0%}",
            str(r.ours.n),
            str(r.ours),
            r.best_policy,
            str(r.best),
            f"{r.ratio:.3g}",
            "" if r.no_worse else "worse",
        ]
        for r in comparison.ratios
    ]
    worse = sum(not r.no_worse for r in comparison.ratios)
    means = ", ".join(f"{regret} {comparison.geometric_mean(regret):.3g}" for regret in REGRETS)
    return (
        f"{table([head, *lines])}\n"
        f"geometric mean of the ratios: {comparison.geometric_mean():.3g} ({means}); "
        f"worse in {worse} of {len(comparison.ratios)}.\n"
        f"Regrets below {FLOOR_SHARE:g} of the outcome's range count as equal to it."
        f"{_not_compared(comparison)}"
    )


def _not_compared(comparison: Comparison) -> str:
    """Tell where a published policy is missing: the best of the others may be easier to beat."""
    missing = {r.scenario: r.missing for r in comparison.ratios if r.missing}
    return "".join(f"\nWithout {', '.join(policies)}: {scenario}." for scenario, policies in missing.items())


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows with their columns aligned, the first to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        rest = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines)
