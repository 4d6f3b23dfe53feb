"""A small process that clears up after a daemon whose process was killed.

`python guard.py FOLDER`: waits until its standard input closes, then kills the tasks whose files are
in the folder and deletes it. Dismissed by a byte, it does nothing.
"""

import contextlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

TASKS = "tasks/*/*/*"


class FolderGuard:
    """Clears a folder up as soon as this process is gone."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "muster.app.guard", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what is sent to our group, such as Ctrl-C, must not end it
        )

    def dismiss(self) -> None:
        """End it: there is nothing to clear up."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(b"\n")


def main(folder: Path) -> None:
    """Wait for the end of the process that holds our input, and clear up."""
    if sys.stdin.buffer.read(1):
        return
    from muster.executors.local.task_folder import TaskFolder

    for path in folder.glob(TASKS):
        task = TaskFolder(path)
        task.take_back()
        begun = task.begun()
        if begun is not None:
            begun.process.signal_group(signal.SIGKILL)
            begun.process.kill_remains()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
