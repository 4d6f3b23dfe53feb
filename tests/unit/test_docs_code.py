"""The Python of the pages runs, and prints what the page says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SNIPPET = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
CASES = [
    pytest.param(code, printed, id=f"{page}-{number}")
    for page in ("performance", "planner")
    for number, (code, printed) in enumerate(
        SNIPPET.findall((ROOT / f"docs/explanation/{page}.md").read_text(encoding="utf-8"))
    )
]


@pytest.mark.parametrize(("code", "printed"), CASES)
def test_a_snippet_runs_as_the_page_says(code: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    if printed:
        assert done.stdout == printed
