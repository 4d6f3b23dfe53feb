"""What keeps a node's agent running: the actor that Ray runs on the node, detached and pinned there.

Ray sends this class by value, so it uses nothing but the standard library: the node needs a `muster`
that its Python finds, of any folder.

The agent is no child of the actor. Ray kills the children of a worker that it ends, whatever their
session, and neither the end of an actor nor of a raylet may end training.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

LOOK = 0.5
"""s between two looks at the agent."""
LONGEST_PAUSE = 30.0
"""s before another attempt, if the agent ends again and again."""
STEADY = 60.0
"""s after which an agent counts as healthy: its next end is followed by a quick restart."""
RUN = """
echo $$ > "$0/pid"; ended="$1"; shift
"$@" < /dev/null > "$0/said" 2>&1
echo $? > "$ended"
"""
"""A shell between init and the agent: records how the agent ended, and what it said since its start."""
DRIVER = Path("/proc/driver/nvidia/gpus")
"""There where NVML finds the devices."""


class Keeper:
    """Starts an agent, and again when it has ended, unless it ended because nobody wants the node."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        simulated: list[str],
        brought: str,
    ) -> None:
        """`command` follows the node's own Python; `simulated` is added where there is no driver.
        `brought` differs each time that an agent is brought to the node: one that has ended because
        nobody wanted it stays ended when Ray restarts this actor, and no longer."""
        self._folder = Path(folder).expanduser()
        words = [sys.executable, *command, "--folder", str(self._folder)]
        self._command = words if DRIVER.is_dir() else [*words, *simulated]
        self._environment = environment
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._record = self._folder / f"ended-{brought}"
        self._starts = 0
        self._over = threading.Event()
        threading.Thread(target=self._keep, daemon=True, name="muster-keeper").start()

    def end(self) -> None:
        """End the agent, for good; tasks that it has keep running, so it should have none."""
        self._over.set()
        pid = self._pid()
        if pid is not None:
            os.killpg(os.getpgid(pid), signal.SIGTERM)
        limit = time.monotonic() + LONGEST_PAUSE
        while self._pid() is not None and time.monotonic() < limit:
            time.sleep(LOOK / 10)

    def _keep(self) -> None:
        pause, begun = LOOK, 0.0
        while not self._over.is_set():
            if self._pid() is not None:
                time.sleep(LOOK)
                continue
            if self._ended_well():
                self._over.set()
                return
            if time.monotonic() - begun > STEADY:
                pause = LOOK
            elif self._starts:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            begun = time.monotonic()
            if not self._over.is_set():
                self._start()

    def _start(self) -> None:
        for old in self._folder.glob("ended-*"):
            old.unlink(missing_ok=True)
        self._starts += 1
        with subprocess.Popen(
            # The outer shell ends at once, so that init inherits the inner one.
            [
                "sh",
                "-c",
                '"$0" -c "$@" &',
                "sh",
                RUN,
                str(self._folder),
                str(self._record),
                *self._command,
            ],
            cwd=self._folder,
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as outer:
            outer.wait()
        limit = time.monotonic() + LONGEST_PAUSE
        while self._pid() is None and not self._ended() and time.monotonic() < limit:
            time.sleep(LOOK / 10)

    def _pid(self) -> int | None:
        """Return the shell of the running agent; started by this actor or by one before it."""
        try:
            pid = int((self._folder / "pid").read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self._folder).encode() in words else None  # else: a pid used again

    def _ended(self) -> str:
        try:
            return self._record.read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def _ended_well(self) -> bool:
        return self._ended() == "0"
