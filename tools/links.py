"""Check the links of the project's Markdown, offline: `python -m tools.links`.

Relative links must lead to a file, anchors to a heading of it, and a page that code or a file of
settings names by its path must exist. Links to other sites are not looked at.
"""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
PARTS = ("docs", "examples", "benchmarks", "src", "tests", "tools")
MENTION = re.compile(r"\bdocs/[\w/-]+\.(?:md|json|svg|png)\b")
MENTIONING = {".py", ".yaml", ".toml"}
PARSER = MarkdownIt("commonmark").enable("table")


def broken_links(root: Path = ROOT) -> list[str]:
    """Return a line for every link and mention below `root` that leads nowhere."""
    faults = []
    for path in _files(root):
        text = path.read_text(encoding="utf-8")
        found = _links(path, text) if path.suffix == ".md" else _mentions(root, text)
        faults += [f"{path.relative_to(root)}:{line}: {problem}" for line, problem in found]
    return faults


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(path for path in root.iterdir() if path.suffix in {".md", *MENTIONING})
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            # A test that reads a page fails by itself; its examples need not exist.
            if path.suffix == ".md" or (path.suffix in MENTIONING and part != "tests"):
                yield path


def _links(page: Path, text: str) -> Iterator[tuple[int, str]]:
    for block in PARSER.parse(text):
        for token in block.children or ():
            target = token.attrGet("href") or token.attrGet("src")
            if target and (problem := _problem(page, str(target))):
                yield (block.map or [0])[0] + 1, problem


def _problem(page: Path, target: str) -> str | None:
    name, _, anchor = unquote(target).partition("#")
    if re.match(r"\w+:", name):
        return None
    path = Path(os.path.normpath(page.parent / name)) if name else page
    if not path.exists():
        return f"{target}: no such file"
    if anchor and path.suffix == ".md" and anchor not in _anchors(path):
        return f"{target}: no heading #{anchor}"
    return None


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Return the headings of a page as GitHub and the site write them in a link."""
    blocks = PARSER.parse(page.read_text(encoding="utf-8"))
    heads = [after for at, after in pairwise(blocks) if at.type == "heading_open"]
    return frozenset(_slug(head) for head in heads)


def _slug(heading: Token) -> str:
    shown = (child.content for child in heading.children or () if child.type in {"text", "code_inline"})
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", "".join(shown).lower()).strip())


def _mentions(root: Path, text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        for name in MENTION.findall(line):
            if not (root / name).exists():
                yield number, f"{name}: no such page"


if __name__ == "__main__":
    faults = broken_links()
    print("\n".join(faults) or "links: ok")
    sys.exit(1 if faults else 0)
