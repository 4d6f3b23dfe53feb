"""Help: of every command, with examples, without loading what only work needs."""

import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.exits import MEANINGS
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
COMMANDS = [
    *([name] for name in ("run", "ps", "show", "logs", "stop", "resize", "wait", "top", "up", "down")),
    *(["pool", name] for name in ("list", "show", "set", "remove")),
    *(["node", name] for name in ("list", "drain", "resume")),
    *(["policy", name] for name in ("show", "set")),
    *(["token", name] for name in ("list", "create", "revoke")),
    *([name] for name in ("play", "plan", "forecast", "check", "profile", "schema", "version")),
    *(["sim", name] for name in ("run", "compare", "trace")),
]
ALL_HELP = f"""
import sys
from pathlib import Path
from typer.testing import CliRunner
from muster.cli.main import app
before = set(sys.modules)
for words in {[[], *COMMANDS]!r}:
    result = CliRunner().invoke(app, [*words, "--help"])
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
