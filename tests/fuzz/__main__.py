"""The long form: as many cases as asked for."""

import argparse
import signal
import sys

from tests.fuzz import documents, drivers, requests
from tests.fuzz.running import Block, Found, seeded, until

KINDS: dict[str, tuple[Block, tuple[str, ...], int]] = {
    "drivers": (drivers.block, tuple(drivers.TARGETS), 1_000_000),
    "yaml": (documents.block, documents.TARGETS, 100_000),
    "socket": (requests.block, requests.TARGETS, 100_000),
}
"""What makes a block, its targets, and how many cases of each."""


def main() -> int:
    """Run what is asked for; 1: something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--target", help="one of the kind's; default: all")
    parser.add_argument("--count", type=int, help="cases of each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--block", type=int, help="run this one alone, as it was")
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    block, targets, usual = KINDS[asked.kind]
    bugs = 0
    for target in (asked.target,) if asked.target else targets:
        if asked.block is not None:
            block(target, seeded(target, asked.seed, asked.block))
            continue
        bugs += _told(target, asked.seed, until(block, target, asked.seed, asked.count or usual, asked.jobs))
    return 1 if bugs else 0


def _told(target: str, seed: int, found: Found) -> int:
    came = ", ".join(f"{number} {what}" for what, number in found.came.most_common())
    print(f"{target}, seed {seed}: {came}; {len(found.bugs)} bugs", flush=True)
    for place, (said, number) in found.bugs.items():
        print(f"  block {number}: {' < '.join(reversed(place))}: {said}", flush=True)
    return len(found.bugs)


if __name__ == "__main__":
    sys.exit(main())
