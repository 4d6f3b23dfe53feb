"""Templates as files: saved from a job, and listed."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import yaml

from muster.cli.exits import OTHER_FAILURE
from muster.cli.jobs.submitting.templates import new_template
from muster.cli.parse import writing
from muster.cli.render.table import table
from muster.cli.render.terminal import agreed, complain, hint

_OF_ONE_RUN = ("origin", "folder", "resume_from", "ship")
"""Fields that belong to where and when a job was submitted."""


def save_template(record: dict[str, Any], name: str, *, project: bool, yes: bool) -> int:
    """Write a job as a template; return the exit code. Secrets in its environment are asked for at
    submission instead."""
    path = new_template(name, project=project)
    if path.exists() and not agreed(f"Replace {path}?", yes=yes):
        complain("nothing was saved")
        return OTHER_FAILURE
    kept = {field: value for field, value in record.items() if field not in _OF_ONE_RUN}
    if isinstance(kept.get("command"), list):
        kept["command"] = shlex.join(kept["command"])
    if kept.get("env"):
        kept["env"] = dict.fromkeys(kept["env"])
    kept["name"] = name
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(kept, sort_keys=False, width=1000), encoding="utf-8")
    typer.echo(f"saved {path}")
    hint(f"run it: muster run -t {name}")
    return 0


def template_table(found: Mapping[str, Path]) -> str:
    """Return the templates with their command and file."""
    rows = [(name, _command(path), str(path)) for name, path in found.items()]
    return table(("NAME", "COMMAND", "FILE"), rows, left=range(3)) if rows else "no templates yet"


def _command(path: Path) -> str:
    """Return the command of a job file; a faulty one is told when it is run."""
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return "-"
    command = written.get("command", "-") if isinstance(written, dict) else "-"
    return command if isinstance(command, str) else shlex.join(map(str, command))
