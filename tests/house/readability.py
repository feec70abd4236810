"""Prints how long sentences are, and draws some to be rewritten: `python -m tests.house.readability`.

`--root DIR` measures another checkout; `--draw N --seed S` prints N sentences of each group.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

LONG = 25
"""Words."""
HOLLOW = re.compile(r"(^|[,;:] )(what|who|whoever|where|of what|that which) (?!is the|are the)\w+", re.IGNORECASE)
"""A relative clause that has no noun before it."""


def terminal(root: Path) -> Iterator[str]:
    for path in (root / "tests/console/golden").rglob("*.txt"):
        yield from (line for line in path.read_text(encoding="utf-8").splitlines() if not re.match(r"[$#|+]|  ", line))


def pages(root: Path) -> Iterator[str]:
    for path in [*(root / "docs/how-to").glob("*.md"), root / "docs/tutorial.md", root / "README.md"]:
        text = re.sub(r"(?s)```.*?```|<!--.*?-->", "", path.read_text(encoding="utf-8"))
        text = re.sub(r"(?m)^[#|].*$", "", text)
        yield from (" ".join(part.split()) for part in re.split(r"\n\n|\n *[-*\d]+\.? ", text))


def docstrings(root: Path) -> Iterator[str]:
    for path in (root / "rigctl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from (" ".join(part.split()) for part in node.value.value.split("\n\n"))


GROUPS = {"terminal": terminal, "how-to": pages, "docstrings": docstrings}


def sentences(texts: Iterator[str]) -> list[str]:
    """Return each sentence of three words or more."""
    found = (part.strip() for text in texts for part in re.split(r"(?<=[.!?;])\s+(?=\S)", text))
    return [one for one in found if len(re.findall(r"[A-Za-z]{2,}", one)) > 2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name, texts in GROUPS.items():
        found = sentences(texts(asked.root))
        words = [len(one.split()) for one in found]
        over, hollow = sum(n > LONG for n in words), sum(bool(HOLLOW.search(one)) for one in found)
        print(
            f"{name:10} {len(found):6} sentences, {sum(words) / len(found):5.1f} words each; "
            f"over {LONG} words {over / len(found):6.1%}; clauses without a noun {hollow / len(found):6.1%}"
        )
        for one in random.Random(asked.seed).sample(sorted(set(found)), asked.draw):
            print(f"  {one}")


if __name__ == "__main__":
    main()
