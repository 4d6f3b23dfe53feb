"""Draw what a command prints on a terminal.

FORCE_COLOR=1 muster top --once | python -m tools.picture 'muster top' docs/img/top.svg
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def picture(printed: str, title: str) -> str:
    """Return text with terminal colours as an SVG that fetches nothing from elsewhere."""
    text = Text.from_ansi(printed.rstrip())
    width = max(line.cell_len for line in text.split())
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(text, soft_wrap=True)
    drawn = console.export_svg(title=title, unique_id="picture")
    # Any monospaced font will do.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(sys.stdin.read(), sys.argv[1]), encoding="utf-8")
