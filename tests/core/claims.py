"""What explanations claim, read as a person reads them: from the printed lines, held against the rows beside them."""

import re
from dataclasses import dataclass

from rigctl.core.advice.explain import explain
from rigctl.text import settings

FORBIDDEN = (
    "sobol|maximis|in play|harvest|armed|incumbent|acquisition|posterior|prior|gittins|lambda|hypervolume|epsilon|"
    "upper bound|lower bound|thompson|fantas|kernel|lengthscale|hyper-?param|marginal|standardis|committing|covarian|"
    "ucb|etc-"
)
ROW = re.compile(
    r"  (?P<label>\S+): (?:(?P<low>-?[\d.]+) to (?P<high>-?[\d.]+) cm2, most likely (?P<mean>-?[\d.]+)"
    r"; |nothing measured yet; )?"
    r"(?:(?P<cost>[\d.]+) EUR a trial(?: \(at least (?P<least>[\d.]+)\))?|cost not known yet); "
    r"(?P<trials>\d+) trials?(?P<standing>;.*)?"
)
MOST_WORDS = 20


def unreadable(line):
    """What is wrong with a line for whoever runs a rig; rows of numbers and of settings are no sentences."""
    found = [f"says {m[0]!r}" for m in re.finditer(FORBIDDEN, line, re.IGNORECASE)]
    if ROW.fullmatch(line) or line.lstrip().startswith("at "):
        return found
    lengths = [len(sentence.split()) for sentence in re.split(r"(?<=[.:;]) ", line.strip())]
    return found + [f"{count} words" for count in lengths if count > MOST_WORDS]


def told(situation, proposal, *, technical=False):
    return explain(proposal, situation.problem, outcome="growth", unit="cm2", currency="EUR", technical=technical)


@dataclass
class Page:
    """One explanation as printed, and the reports behind it for what is not printed."""

    situation: object
    proposal: object

    def __post_init__(self):
        self.lines = told(self.situation, self.proposal)
        self.rows = {m["label"]: m for m in map(ROW.fullmatch, self.lines) if m}
        self.reports = {"+".join(r.control_set): r for r in self.proposal.sets}
        self.label = self.situation.problem.space.control_sets[self.proposal.control_set].label
        self.running = {n: m for n, m in self.rows.items() if "skipped:" not in (m["standing"] or "")}
        self.sign = 1 if self.situation.problem.maximise else -1

    def hopeful(self, name):
        return self.sign * float(self.rows[name]["high" if self.sign > 0 else "low"])

    def expected(self, name):
        return self.sign * float(self.rows[name]["mean"])

    def trials(self, name):
        return -int(self.rows[name]["trials"])

    def unspent(self, name):
        return -self.reports[name].spent

    def cheap(self, name):
        return -self.reports[name].cost_lcb

    def is_best(self, of, among=None):
        names = self.running if among is None else among
        return all(of(name) <= of(self.label) for name in names)

    def no_dearer(self):
        """Sets in the running that cost no more than the chosen one."""
        own = self.reports[self.label].cost_mean or 0
        return [n for n in self.running if (self.reports[n].cost_mean or 0) <= own]

    def uncertain(self):
        return [n for n in self.running if self.reports[n].cost_lcb <= 0]


def _nearly(page, match):
    top, own = match[1], page.reports[page.label]
    better = page.expected if "expected to do" in match[0] else page.hopeful
    cheaper = "may cost" in match[0] or own.cost_mean < page.reports[top].cost_mean
    return cheaper and top in page.running and all(better(n) <= better(top) for n in page.running)


CLAIMS = {
    r"has the best expected outcome": lambda p, m: p.is_best(p.expected),
    r"could turn out best of the cheapest": lambda p, m: p.is_best(p.hopeful, p.no_dearer()),
    r"still uncertain, \S+ could turn out best": lambda p, m: p.is_best(p.hopeful, p.uncertain()),
    r"(?<!uncertain, )\S+ could turn out best(?! of the cheapest| for its money)": lambda p, m: (
        "still uncertain" in m.string or p.is_best(p.hopeful)
    ),
    r"fewest trials|tried least": lambda p, m: p.is_best(p.trials),
    r"has had the least": lambda p, m: p.is_best(p.unspent),
    r"may be the cheapest of them": lambda p, m: p.is_best(p.cheap) and p.rows[p.label]["cost"] is not None,
    r"(?:is expected to do|could turn out) nearly as well as (\S+), and (?:may cost|costs) less": _nearly,
    r"^(\d+) of (\d+) control sets may be good enough": lambda p, m: (
        (int(m[1]), int(m[2])) == (sum(r.eligible for r in p.proposal.sets), len(p.rows))
    ),
    r"^only (\S+) may still be good enough": lambda p, m: list(p.running) == [m[1]] == [p.label],
    r"has never been tried": lambda p, m: p.trials(p.label) == 0,
}
"""What a reason may claim, and whether the rows bear it out."""


def denied(situation, proposal, made):
    """Return what the sentences claim that the rows deny; counts in `made` which claims there were."""
    page = Page(situation, proposal)
    wrong = [] if set(page.rows) == set(page.reports) and page.label in page.running else ["rows"]
    for pattern, holds in CLAIMS.items():
        for match in re.finditer(pattern, proposal.reason):
            made[pattern] += 1
            wrong += [] if holds(page, match) else [match[0]]
    line = next(
        (
            float(m[1])
            for m in (re.match(r"A control set is good enough if .* (-?[\d.e+-]+) cm2\.", t) for t in page.lines)
            if m
        ),
        None,
    )
    short = [n for n, m in page.rows.items() if "not good enough, even at its best" in (m["standing"] or "")]
    wrong += [f"{n} is not good enough" for n in short if page.hopeful(n) > page.sign * line]
    made["not good enough"] += len(short)
    own = page.rows[page.label]
    there = [text for text in page.lines if text.startswith("Expected growth there")]
    if any(f"{own['low']} to {own['high']} cm2, most likely {own['mean']}" not in text for text in there):
        wrong.append("the head says other numbers than the row")
    made["head"] += len(there)
    for name, m in page.rows.items():
        if m["low"] and f"    at {settings(page.reports[name].at, {'a': 'mM', 'b': 'V'})}" not in page.lines:
            wrong.append(f"{name}: its setting is not named")
    return wrong
