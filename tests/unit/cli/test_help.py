"""Help: of every command, with examples, without loading what only work needs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from muster.cli.exits import MEANINGS
from muster.cli.main import app
from tests.unit.cli.invoke import muster

HEAVY = {
    "alembic",
    "asyncio",
    "fastapi",
    "httpx",
    "muster.client",
    "numpy",
    "pydantic",
    "rich.live",
    "scipy",
    "sqlalchemy",
    "torch",
    "uvicorn",
    "yaml",
}


def commands(group: Any) -> Iterator[list[str]]:
    """The words of every command of the program."""
    for name, command in group.commands.items():
        deeper = commands(command) if hasattr(command, "commands") else [[]]
        yield from ([name, *words] for words in deeper)


COMMANDS = list(commands(get_command(app)))
ALL_HELP = f"""
import sys
from pathlib import Path
from tests.unit.cli.invoke import invoke
for words in {[[], *COMMANDS]!r}:
    result = invoke([*words, "--help"])
    assert result.exit_code == 0, result.output
print(*sys.modules)
"""


def test_help_loads_nothing_that_only_work_needs() -> None:
    """One process asks for the help of every command; what was loaded by then is counted."""
    done = subprocess.run(
        [sys.executable, "-c", ALL_HELP], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert HEAVY & set(done.stdout.split()) == set()


def test_every_exit_code_is_in_the_help() -> None:
    told = " ".join(muster("--help").stdout.split())
    for code, meaning in MEANINGS.items():
        assert f"{code} {meaning}" in told


def test_every_command_is_in_the_help_of_its_group() -> None:
    for *group, name in COMMANDS:
        assert f" {name} " in muster(*group, "--help").stdout


@pytest.mark.parametrize("name", ["run", "ps", "logs", "stop", "resize", "wait", "up"])
def test_the_help_of_common_commands_shows_how_they_are_used(name: str) -> None:
    assert f"muster {name} " in muster(name, "--help").stdout.partition("Example")[2]


def test_every_command_and_exit_code_has_its_place_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/cli.md").read_text(encoding="utf-8")
    for *group, name in COMMANDS:
        start = f"muster {group[0]}" if group else "muster"
        assert start in page
        assert f"`{name}`" in page or f"{start} {name}" in page
    for code in MEANINGS:
        assert f"\n| {code} | " in page


RUN = """
import sys
from muster.cli.main import app
try:
    app(["run", "-y", "--follow", "--", "echo", "hello"])
except SystemExit as end:
    assert end.code == 104, end.code  # no daemon
print(*sys.modules)
"""


def test_running_a_command_loads_no_file_format_and_no_renderer(tmp_path: Path) -> None:
    """Who runs a short job waits for the imports as well."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MUSTER_URL": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, env=environ, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "httpx" in loaded
    assert {"pydantic", "yaml", "rich", "pygments", "muster.core.why.words"} & loaded == set()
