"""Jobs of scripts that use a framework: their fork server has loaded it."""

import atexit
import json
from functools import cache
from pathlib import Path
from typing import Any

from muster.runtime.launch.preload import heavy_imports
from muster.runtime.launch.tasks import Tasks
from tests.runtime.scripts.jobs import Job

SCRIPTS = Path(__file__).parent / "scripts"
LOADING = 200.0
"""Seconds that a busy machine may take to load a framework."""
CLOSE = 2e-5
"""Of one process: what the order of additions may do."""


@cache
def fork_server(script: Path) -> Tasks:
    """One for all jobs of a script."""
    tasks = Tasks(preload=heavy_imports(script))
    atexit.register(tasks.close)
    tasks.wait_loaded(LOADING)
    return tasks


def job(folder: Path, script: str, *args: str, **options: Any) -> Job:
    """A job of one of our scripts."""
    path = SCRIPTS / script
    return Job(folder, *args, script=path, tasks=fork_server(path), **options)


def logged(folder: Path) -> list[dict[str, float]]:
    """What the last primary has logged."""
    return list(json.loads((folder / "out.json").read_text()))
