"""`python -m tests.simulation`: seeds for so many minutes, or one of them with its trace."""

import argparse
import os
import sys

from tests.simulation.fleet import Order, fleet, replayed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED")
    given = parser.parse_args()
    if given.seed is not None:
        return replayed(given.seed, trace=given.trace)
    minutes = given.minutes if given.hours is None else 60.0 * given.hours
    return fleet(Order(60.0 * minutes, given.jobs, given.first))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names have an order then, the same in every process
        arguments = [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - ourselves
    sys.exit(main())
