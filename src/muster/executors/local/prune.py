"""Deletes the logs and task folders of jobs that ended long ago."""

import os
import shutil
from pathlib import Path, PurePosixPath

from muster.executors.local.shim import ORDER
from muster.executors.local.task_folder import TaskFolder


def prune(folder: Path, older_than: float) -> int:
    """Delete jobs whose newest file is older than that; return their number.

    A job with a live task stays, however long it has been silent.
    """
    logs = {path.name: path for path in _folders(folder / "logs")}
    removed = 0
    for tasks in _folders(folder / "tasks"):
        found = [TaskFolder(order.parent) for order in tasks.glob(f"*/*/{ORDER}")]
        mine = [logs.pop(name) for name in {_top(task) for task in found} if name in logs]
        if not any(task.living for task in found):
            removed += _remove([tasks, *mine], older_than)
    return removed + sum(_remove([left], older_than) for left in logs.values())


def _top(task: TaskFolder) -> str:
    """The name of the folder with the job's logs."""
    parts = PurePosixPath(task.log()).parts
    return parts[0] if len(parts) > 1 else ""


def _remove(folders: list[Path], older_than: float) -> int:
    if max(_newest(folder) for folder in folders) >= older_than:
        return 0
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return 1


def _folders(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]


def _newest(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    for inside, _, files in os.walk(folder):
        times += [(Path(inside) / name).lstat().st_mtime for name in files]
    return max(times)
