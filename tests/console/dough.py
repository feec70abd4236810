"""A bench by hand and the table of its past, for tests of what is imported."""

DOUGH = """\
rig: dough
currency: EUR
budget: 40 EUR
seed: 7
policy: {name: explore-then-commit, tolerance: 0.05}
model: {hyperparameters: fixed, lengthscales: {hydration: 5, proof: 10}, signal_sd: 10, noise_sd: 1, mean: 50}
variables:
  hydration: {unit: "%", range: [60, 85], natural: uniform}
  proof: {unit: degC, range: [20, 40], natural: uniform}
control_sets: [[hydration], [proof]]
outcome: {name: rise, unit: mm, floor: 0}
"""

TABLE = [
    ["hydration", "proof", "rise", "cost", "controlled"],
    ["63.5", "30", "49.5", "0.50", "hydration"],
    ["70", "25.25", "61", "", "proof"],
    ["82", "38", "", "0.75", "hydration"],
    ["66", "31", "55", "0.25", "nothing"],
    ["75", "22", "58", "1234.5", "Hydration + proof"],
]
"""Whole, without a cost, failed, nothing controlled, controlled as this campaign never does."""


def text(table=TABLE, separator=",", end="\n"):
    return "".join(separator.join(row) + end for row in table)


def commas(table):
    """The same with decimal commas."""
    return [table[0], *([c.replace(".", ",") if c[:1].isdigit() else c for c in row] for row in table[1:])]


def put(bench, data, name="old.csv"):
    (bench.folder / name).write_bytes(data)
    return name
