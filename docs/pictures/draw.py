"""Draws the pictures of docs/method.md from campaigns that are really decided: `python docs/pictures/draw.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

import rigctl

HERE = Path(__file__).parent
GREY, DARK, BLUE, LIGHT = "#8a8f98", "#2b2f36", "#1f5f99", "#c9d9e8"
COSTS = {"ph": 0.4, "ca": 0.9, "ph+ca": 1.2}
NATURAL = {"ph": (6.3, 0.3), "ca": (2.6, 0.7)}


def growth(values: Mapping[str, float]) -> float:
    """Return the growth at measured values, cm2/day."""
    ph, calcium = values["ph"], values["ca"]
    return float(40 + 260 * np.exp(-(((ph - 5.9) / 0.45) ** 2)) + 45 * np.exp(-(((calcium - 3.4) / 1.1) ** 2)))


def experiment() -> rigctl.Experiment:
    """Return the experiment of all three pictures, before its first trial."""
    variables = [
        rigctl.variable("ph", 5.0, 7.0, "pH", natural=NATURAL["ph"]),
        rigctl.variable("ca", 0.5, 6.0, "mM", natural=NATURAL["ca"]),
    ]
    return rigctl.Experiment.of(variables, [["ph"], ["ca"], ["ph", "ca"]], budget=25.0, seed=3)


def left_alone(axes: Axes) -> None:
    """Draw one variable: what it is worth where it is held, and where it goes by itself."""
    ph = np.linspace(5.0, 7.0, 401)
    calcium = np.random.default_rng(0).normal(*NATURAL["ca"], 4000)
    curve = np.array([np.mean([growth({"ph": at, "ca": c}) for c in calcium[::20]]) for at in ph])
    density = np.exp(-0.5 * ((ph - NATURAL["ph"][0]) / NATURAL["ph"][1]) ** 2)
    alone = float(np.sum(curve * density) / np.sum(density))
    axes.fill_between(ph, 0, 110 * density, color=LIGHT, lw=0)
    axes.plot(ph, curve, color=DARK)
    axes.axhline(alone, color=GREY, ls="--", lw=1)
    axes.plot([ph[curve.argmax()]], [curve.max()], "o", color=BLUE)
    axes.annotate(
        f"held at pH {ph[curve.argmax()]:.1f}: {curve.max():.0f}", (ph[curve.argmax()], curve.max()), (6.12, 318)
    )
    axes.text(6.45, alone + 7, f"left alone: {alone:.0f} on average", color=GREY)
    axes.text(6.07, 22, "where it goes by itself", color=DARK)
    axes.set(xlabel="pH", ylabel="growth, cm2/day", xlim=(5, 7), ylim=(0, 350))


def bounds(axes: Axes, trial: rigctl.Proposal, chosen_set: tuple[str, ...]) -> None:
    """Draw what each control set promises, and which one is chosen."""
    reports = trial.sets
    for row, report in enumerate(reversed(reports)):
        chosen = report.control_set == chosen_set
        low, high = sorted((report.lower, report.upper))
        axes.plot([low, high], [row, row], color=BLUE if chosen else GREY, lw=7 if chosen else 4, solid_capstyle="butt")
        axes.plot([report.mean], [row], "|", color="white" if chosen else DARK, ms=12, mew=2)
        price = "" if report.cost_mean is None else f"{report.cost_mean:.2f} EUR"
        axes.text(1.02, row, price, transform=axes.get_yaxis_transform(), va="center")
    if trial.threshold is not None:
        axes.axvline(trial.threshold, color=DARK, ls="--", lw=1)
    labels = ["+".join(r.control_set) for r in reversed(reports)]
    axes.set(yticks=range(len(labels)), yticklabels=labels, ylim=(-0.6, len(labels) - 0.4), xlabel="growth, cm2/day")


def money(top: Axes, strip: Axes, played: rigctl.Played, labels: list[str]) -> None:
    """Draw a campaign against its money: outcomes, the best so far, and what was controlled."""
    seen = played.history.observations
    spent = np.cumsum([COSTS[labels[o.control_set]] for o in seen])
    outcome = np.array([o.y for o in seen], float)
    top.plot(spent, outcome, "o", color=GREY, ms=4)
    top.step(spent, np.maximum.accumulate(outcome), where="post", color=BLUE)
    top.set(ylabel="growth, cm2/day")
    names = list(COSTS)
    starts = np.concatenate([[0.0], spent[:-1]])
    for start, end, trial in zip(starts, spent, seen, strict=True):
        row = names.index(labels[trial.control_set])
        strip.barh(row, end - start, left=start, color=BLUE, edgecolor="white", lw=0.5)
    strip.set(yticks=range(len(names)), yticklabels=names, xlabel="spent, EUR")


def main() -> None:
    """Draw all three."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "rigctl", "font.size": 10, "axes.spines.top": False,
                         "axes.spines.right": False})  # fmt: skip
    plain = {"format": "svg", "bbox_inches": "tight", "metadata": {"Date": None}}
    figure, axes = plt.subplots(figsize=(5.6, 3.2))
    left_alone(axes)
    figure.savefig(HERE / "method-left-alone.svg", **plain)

    begun = experiment()
    labels = [chosen.label for chosen in begun.space.control_sets]
    played = begun.play(growth, COSTS, noise_sd=6.0)
    last = played.decisions[8].proposal
    figure, axes = plt.subplots(figsize=(5.6, 2.2))
    bounds(axes, last, begun.space.control_sets[last.control_set].names)
    figure.savefig(HERE / "method-bounds.svg", **plain)

    figure, (top, strip) = plt.subplots(2, 1, figsize=(5.6, 3.6), sharex=True, height_ratios=(3, 1.2))
    money(top, strip, played, labels)
    figure.savefig(HERE / "method-money.svg", **plain)


if __name__ == "__main__":
    main()
