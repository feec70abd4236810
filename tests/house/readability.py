"""Prints how long sentences are, and draws some to be rewritten: `python -m tests.house.readability --draw 30`."""

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
SHOWN = "rigctl/page/templates"
GROUPS = {
    "terminal": (("tests/console/golden/**/*.txt",), r"(?m)^([$#|+]|  ).*$"),
    "page": ((f"{SHOWN}/[!r]*.html",), r"(?s){%.*?%}|<[^>]*>"),
    "report": ((f"{SHOWN}/re*.html",), r"(?s)<style.*?</style>|{%.*?%}|<[^>]*>"),
    "how-to": (("docs/how-to/*.md", "docs/tutorial.md", "README.md"), r"(?s)```.*?```|<!--.*?-->|(?m-s:^[#|].*$)"),
    "docstrings": (("rigctl/**/*.py",), ""),
}
"""Files, and what in them is no sentence."""


def texts(root: Path, patterns: tuple[str, ...], out: str) -> Iterator[str]:
    for path in (path for pattern in patterns for path in root.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            found = [n.value.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr) and is_text(n.value)]
            text = "\n\n".join(found)
        text = re.sub(r"{{.*?}}", "X", re.sub(out, "\n\n", text)) if out else text
        yield from re.split(r"\n\n|\n *[-*\d]+\.? ", text) if path.suffix != ".txt" else text.splitlines()


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=20261128)
    asked = parser.parse_args()
    for name, (patterns, out) in GROUPS.items():
        parts = (" ".join(part.split()) for part in texts(asked.root, patterns, out))
        every = [one for part in parts for one in re.split(r"(?<=[.!?;])\s+(?=\S)", part)]
        found = [one for one in every if len(re.findall(r"[A-Za-z]{2,}", one)) > 2]
        words = [len(one.split()) for one in found]
        over, hollow = sum(n > LONG for n in words), sum(bool(HOLLOW.search(one)) for one in found)
        print(
            f"{name:10} {len(found):6} sentences, {sum(words) / len(found):5.1f} words each; "
            f"over {LONG} words {over / len(found):6.1%}; clauses without a noun {hollow / len(found):6.1%}"
        )
        for one in random.Random(asked.seed).sample(sorted(set(found)), min(asked.draw, len(set(found)))):
            print(f"  {one}")


if __name__ == "__main__":
    main()
