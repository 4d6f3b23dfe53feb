"""Lines of user code: one training written for one device, and for each system that makes it elastic.

The programs are in support/lines/, formatted alike (ruff, 104 columns). What counts is lines of code:
comments, docstrings and blank lines do not, and a line that is only re-indented is the same line.
Against the plain program, a line with one much like it in its place is changed; others are added or
removed. Counted for a loop of one's own (plain.py) and for a fine-tuning with transformers' Trainer
(hf_plain.py). Prints two tables, then one line per target.
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from support.bars import bar, print_table

FOLDER = Path(__file__).parent / "support/lines"
PLAIN = "plain"
PROGRAMS = (
    PLAIN,
    "muster_loop",
    "muster_declared",
    "horovod_style",
    "ddp",
    "torchft_style",
    "ray_style",
)
HF_PLAIN = "hf_plain"
HF_PROGRAMS = (HF_PLAIN, "hf_muster", "hf_torchrun", "hf_ray_style")
MOST_ADDED = 5
"""What Horovod asked of a single-device program at first: the measure of the usability slide."""
MOST_TOUCHED = 2
"""A fine-tuning: the import of the trainer, in a line of its own."""
ALIKE = 0.6
"""Two lines are one line changed from this likeness on: the cutoff of `difflib.get_close_matches`."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """What a program differs by from the plain one."""

    total: int
    added: int
    changed: int
    removed: int

    @property
    def touched(self) -> int:
        """All that somebody has to write or to take away."""
        return self.added + self.changed + self.removed


def code_lines(source: str) -> list[str]:
    """The lines that hold code, without indentation, comments and docstrings."""
    held = {row for token in _tokens(source) for row in range(token.start[0], token.end[0] + 1)}
    rest = _without_comments(source)
    return [rest[row].strip() for row in sorted(held - _docstrings(source))]


def difference(plain: list[str], other: list[str]) -> Lines:
    """Lines added, changed and removed on the way from one program to the other."""
    added = changed = removed = 0
    for what, a, b, c, d in SequenceMatcher(None, plain, other, autojunk=False).get_opcodes():
        if what != "equal":
            alike = _alike(plain[a:b], other[c:d])
            changed, added, removed = changed + alike, added + d - c - alike, removed + b - a - alike
    return Lines(len(other), added, changed, removed)


def _alike(before: list[str], after: list[str]) -> int:
    """The most pairs of lines, in order, of which the one is the other with something changed."""
    best = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, line in enumerate(before):
        for j, other in enumerate(after):
            same = SequenceMatcher(None, line, other, autojunk=False).ratio() >= ALIKE
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + same)
    return best[-1][-1]


def counted(programs: tuple[str, ...] = PROGRAMS) -> dict[str, Lines]:
    """Every program against the first of them."""
    sources = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in programs}
    plain = code_lines(sources[programs[0]])
    return {name: difference(plain, code_lines(source)) for name, source in sources.items()}


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            yield token


def _without_comments(source: str) -> dict[int, str]:
    """Each line by its number, cut where its comment begins."""
    lines = dict(enumerate(source.splitlines(), start=1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row] = lines[row][:column]
    return lines


def _docstrings(source: str) -> set[int]:
    rows: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            text = node.body[0]
            rows.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return rows


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="no effect: it takes no time")
    parser.parse_args()
    found, tuned = counted(), counted(HF_PROGRAMS)
    _print(found)
    print()
    _print(tuned)
    loop, declared = found["muster_loop"], found["muster_declared"]
    bar("lines-added-muster-loop", loop.added, MOST_ADDED)
    # It stands in place of the loop: what counts is by how much the program grows.
    bar("lines-grown-muster-declared", declared.added - declared.removed, MOST_ADDED)
    for other in ("horovod_style", "ddp", "torchft_style", "ray_style"):
        name = other.removesuffix("_style")
        bar(f"lines-touched-{name}-over-muster", found[other].touched / loop.touched, 1.0, above=True)
    bar("lines-touched-muster-hf", tuned["hf_muster"].touched, MOST_TOUCHED)
    for other in ("hf_torchrun", "hf_ray_style"):
        ratio = tuned[other].touched / tuned["hf_muster"].touched
        bar(f"lines-touched-{other.removesuffix('_style')}-over-muster", ratio, 1.0, above=True)


def _print(found: dict[str, Lines]) -> None:
    print_table(
        "program lines added changed removed touched",
        (
            (
                name.removesuffix("_style"),
                *map(str, (n.total, n.added, n.changed, n.removed, n.touched)),
            )
            for name, n in found.items()
        ),
    )


if __name__ == "__main__":
    main()
