"""A real Ray cluster of several nodes on this machine: `ray start` processes, ended by their ids.

As a command it stays until it is interrupted: `python -m tests.engines.ray_lab --nodes 3 --gpus 2`.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.engines.ports import free_port
from tests.live.daemons import processes, until

RAY = ("-m", "ray.scripts.scripts")
"""The command `ray`, of any Python that has it."""
ATTEMPTS = 3
"""To start a node."""
STORE = 80_000_000
"""Bytes of the object store, which nobody uses."""
QUICK = (
    '{"health_check_initial_delay_ms":1000,"health_check_period_ms":500,'
    '"health_check_failure_threshold":4,"gcs_rpc_server_reconnect_timeout_s":10}'
)
"""A killed raylet counts as dead after 2 s, not 14; one without a head ends after 10 s, not 60."""


class RayLab:
    """A head without devices, and nodes with made-up ones."""

    def __init__(self, python: str = sys.executable, *, dashboard: bool = False) -> None:
        """`python`: what all of it runs with; `dashboard`: for `ray job`, needs `ray[default]`."""
        self._python = python
        self.dashboard = free_port() if dashboard else 0
        # Short: the names of Ray's sockets go below it, and may have 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="mray-", dir="/tmp"))
        self.port = free_port()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._words: dict[str, tuple[str, ...]] = {}

    @property
    def address(self) -> str:
        """Of the head."""
        return f"127.0.0.1:{self.port}"

    def start_head(self) -> None:
        """Start the head, again at the same address; it has no devices."""
        self._launch(
            "head",
            *("--head", "--port", str(self.port), "--num-cpus", "1", "--num-gpus", "0"),
            *("--include-dashboard", str(bool(self.dashboard)).lower()),
            *(("--dashboard-port", str(self.dashboard)) if self.dashboard else ()),
            *("--temp-dir", str(self.folder / "ray")),
            *("--system-config", QUICK),
        )
        self._await("head")

    def add(self, *names: str, gpus: int = 2, cpus: int = 4, labels: str = "") -> None:
        """Add nodes; labels as in "rack=r0,ray.io/accelerator-type=V100".

        One after the other: two that start at once on one machine may choose the same name for the
        socket of their object store, and the one that loses is given up after 30 s.
        """
        for name in names:
            self._launch(
                name,
                *("--address", self.address, "--num-cpus", str(cpus), "--num-gpus", str(gpus)),
                *(("--labels", labels) if labels else ()),
            )
            self._await(name)

    def kill(self, name: str, program: str = "raylet") -> None:
        """kill -9 of a node's raylet, or of the head's `gcs_server`; what it ran ends by itself."""
        os.kill(self.pid(name, program), signal.SIGKILL)

    def is_dead(self, name: str) -> bool:
        """Whether a node's raylet has ended."""
        return not any(_program(pid) == "raylet" for pid in self.session(name))

    def drain(self, name: str, within: int) -> None:
        """Tell Ray that a node will be taken away, as its autoscaler does."""
        script = (
            "import ray,sys; ray.init(sys.argv[1], logging_level=40);"
            "print(*[n['NodeID'] for n in ray.nodes() if n['NodeName'] == sys.argv[2] and n['Alive']])"
        )
        found = subprocess.run(
            [self._python, "-c", script, self.address, name],
            capture_output=True,
            text=True,
            check=True,
        )
        words = ("--node-id", found.stdout.split()[-1], "--deadline-remaining-seconds", str(within))
        why = ("--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "taken back")
        subprocess.run(
            [self._python, *RAY, "drain-node", "--address", self.address, *words, *why], check=True
        )

    def pid(self, name: str, program: str = "raylet") -> int:
        """Of a program of a node."""
        found = [pid for pid in self.session(name) if _program(pid) == program]
        assert found, f"{name} has no {program}"
        return found[0]

    def session(self, name: str) -> list[int]:
        """The processes of a node, workers included."""
        return session_of(self._started[name].pid)

    def kill_all(self, name: str) -> None:
        """kill -9 of everything that Ray runs on a node: its power fails."""
        for pid in self.session(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, name: str) -> None:
        """End a node as `ray stop` does on its machine, with everything that Ray runs there."""
        process = self._started.pop(name)
        for pid in session_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        for pid in session_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """End all of it, and what it has left behind."""
        for name in list(self._started):
            self.remove(name)
        for pid in processes(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not processes(str(self.folder)), "Ray has ended")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self, name: str, *words: str) -> None:
        self._words[name] = words
        common = ("--node-name", name, "--object-store-memory", str(STORE), "--include-log-monitor")
        with self._said(name).open("wb") as log:
            self._started[name] = subprocess.Popen(
                [self._python, *RAY, "start", *common, "false", "--block", *words],
                env=_environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _await(self, name: str) -> None:
        """Until a node runs; Ray gives a raylet 30 s to start, too little on a busy machine."""
        said = self._said(name)
        for _ in range(ATTEMPTS):
            process = self._started[name]
            until(lambda: b"--block" in said.read_bytes() or self._has_ended(name), f"{name} runs")
            if process.poll() is None:
                return
            why = said.read_text(encoding="utf-8")
            self.kill_all(name)
            self._launch(name, *self._words[name])
        raise AssertionError(f"{name} does not start: {why}")

    def _has_ended(self, name: str) -> bool:
        return self._started[name].poll() is not None

    def _said(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def _environment() -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "MUSTER_"))}
    return {**kept, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}


def session_of(leader: int) -> list[int]:
    """The processes of a session; Ray's workers are in that of their `ray start`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return sorted(found)


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name
    return ""


def main() -> None:
    """Start a cluster, and end it on SIGINT or SIGTERM."""
    words = argparse.ArgumentParser()
    words.add_argument("--nodes", type=int, default=3)
    words.add_argument("--gpus", type=int, default=2)
    given = words.parse_args()
    over = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: over.set())
    lab = RayLab()
    try:
        lab.start_head()
        for number in range(given.nodes):
            lab.add(
                f"r{number}",
                gpus=given.gpus,
                labels=f"rack=k{number // 2},ray.io/accelerator-type=V100",
            )
        print(f"a Ray cluster is at {lab.address}; Ctrl-C ends it", flush=True)
        over.wait()
    finally:
        lab.end()


if __name__ == "__main__":
    main()
