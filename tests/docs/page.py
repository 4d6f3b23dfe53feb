"""What a reader of a page would type, as one shell script.

Of its fenced blocks, `sh` and `python` are run as they are, of `console` the lines after `$`. A block
that begins with a file's name (`# train.py`) is written to that file. What Python prints must be the
`text` right below it, if there is one. Two comments of the page steer it:

    <!-- not run: why -->     the next block is shown only
    <!-- run: muster up -->   run here, not shown
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt

SHOWN = ("text", "yaml", "json", "ini")
"""Languages of blocks that nobody runs."""
NOT_RUN = re.compile(r"<!-- not run: *(.*?) *-->", re.DOTALL)
HIDDEN = re.compile(r"<!-- run: *(.*?) *-->", re.DOTALL)
FILE = re.compile(r"# ([\w.-]+\.(?:py|ya?ml))\n")
REFUSES = "muster: "
"""Begins what the command prints when it refuses."""


class PageError(Exception):
    """A page that cannot be tested as it is written."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page: a fenced block, or a comment with something to run."""

    line: int
    language: str
    text: str
    why_not: str | None = None
    """Why it is not run."""
    printed: str | None = None
    """What it must print."""


def blocks(page: str) -> Iterator[Block]:
    """Yield the parts of a page that matter, in order."""
    why_not: str | None = None
    for token in MarkdownIt().parse(page):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            if "<!-- not run" in token.content:
                why_not = _reason(token.content, line)
            for hidden in HIDDEN.findall(token.content):
                yield Block(line, "sh", hidden + "\n")
        elif token.type == "fence":
            yield Block(line, token.info.strip(), token.content, why_not)
            why_not = None


def _reason(comment: str, line: int) -> str:
    found = NOT_RUN.search(comment)
    if found is None or not found[1]:
        raise PageError(f"line {line}: say why: <!-- not run: it needs a GPU -->")
    return found[1]


def _with_output(found: list[Block]) -> Iterator[Block]:
    """Join Python with the text below it."""
    for block, below in zip(found, [*found[1:], None], strict=True):
        shows = block.language == "python" and below is not None and below.language == "text"
        yield replace(block, printed=below.text) if shows and below is not None else block


def script(name: str, page: str) -> str:
    """Return all that the page would have one type; it ends at the first command that fails."""
    parts = ["set -e"]
    for number, block in enumerate(_with_output(list(blocks(page)))):
        told = shlex.quote(f"==> {name}:{block.line}")
        parts.append(f"echo {told}; echo {told} >&2\n{_lines(block, number)}")
    return "\n".join(parts)


def _lines(block: Block, number: int) -> str:
    if block.language not in (*SHOWN, "sh", "python", "console"):
        raise PageError(f"line {block.line}: what is in this block? sh, python, console or text?")
    if block.why_not is not None:
        return ""
    file = FILE.match(block.text)
    if file is not None:
        return _saved(block.text, file[1])
    if block.language == "python":
        return _checked(block, f"snippet-{number}.py")
    if block.language == "sh":
        return block.text
    return "".join(_typed(block.text)) if block.language == "console" else ""


def _checked(block: Block, file: str) -> str:
    run = f"{_saved(block.text, file)}python {file}"
    if block.printed is None:
        return f"{run}\n"
    return f"{_saved(block.printed, 'expected')}{run} > printed\ndiff expected printed\n"


def _saved(text: str, file: str) -> str:
    return f"cat > {file} <<'END_OF_FILE'\n{text}END_OF_FILE\n"


def _typed(text: str) -> Iterator[str]:
    """Yield the commands of a session; one that is shown to be refused must fail."""
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, printed = _divided(each)
        if any(line.startswith(REFUSES) for line in printed):
            yield f"if {command}\nthen echo 'this was to fail' >&2; exit 1; fi\n"
        else:
            yield f"{command}\n"


def _divided(session: str) -> tuple[str, list[str]]:
    """Return a command, which a backslash continues on the next line, and what it prints."""
    lines = session.splitlines()
    length = next((i for i, line in enumerate(lines, 1) if not line.endswith("\\")), len(lines))
    return "\n".join(lines[:length]), lines[length:]
