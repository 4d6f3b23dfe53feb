"""A real daemon in a process of its own, with a folder of its own, for as long as a block lasts."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.load_client import Address, Caller, ask, request

TOPOLOGY = "2x4"
UNLIKE_USERS = ("PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME", "PYTHONDEVMODE")
"""Variables of a developer's shell that slow down every start."""
PATIENCE = 120.0
"""s for a daemon to begin, and for its jobs to end."""


@dataclass(frozen=True, slots=True)
class Running:
    """A daemon that answers."""

    address: Address
    pid: int
    answered: float
    """s from the start of its process to its first list of jobs."""

    def memory(self, kind: str = "VmRSS") -> int:
        """Bytes that it holds in memory; `VmHWM`: that it ever held."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
        raise LookupError(kind)


@contextmanager
def daemon(home: Path, store: str | None = None) -> Iterator[Running]:
    """Start one on loopback with virtual devices and tokens; end its jobs and it with the block."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [_muster(), "up", "--topology", TOPOLOGY, "--port", str(port)]
    command += ["--run-as", "daemon"]  # its users have no accounts here
    command += ["--store", store] if store else []
    environ = environment(MUSTER_HOME=str(home))
    with (home / "daemon.log").open("ab") as log:
        begun = time.perf_counter()
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            _await_health(process, port, home / "daemon.log")
            token = json.loads((home / "client.json").read_bytes())["token"]
            address = Address("127.0.0.1", port, token)
            # Not the health, which the door answers before the daemon stands.
            ask(address, "GET", "/v1/jobs?limit=1")
            running = Running(address, process.pid, time.perf_counter() - begun)
            try:
                yield running
            finally:
                _end_jobs(running)
        finally:
            process.send_signal(signal.SIGTERM)
            _wait(process)


def environment(**more: str) -> dict[str, str]:
    """Return the environment for what is measured: with bytecode kept, as where Muster is installed."""
    kept = {name: value for name, value in os.environ.items() if name not in UNLIKE_USERS}
    return {**kept, **more}


def warm_up(home: Path) -> None:
    """Start a daemon that is not measured: the first one compiles every module."""
    with daemon(home):
        pass


def _muster() -> str:
    return str(Path(sys.executable).with_name("muster"))


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _await_health(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Ask until it answers: it takes connections before it has folded its journal."""
    address, until = Address("127.0.0.1", port, ""), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with Caller(address) as caller:
                caller.send(request(address, "GET", "/healthz"))
                return
        except ConnectionError:
            time.sleep(0.002)
    raise RuntimeError(f"the daemon did not begin: {log.read_text(encoding='utf-8')[-2000:]}")


def _end_jobs(running: Running) -> None:
    """Stop all that have tasks: they would outlive their daemon. Those that wait go with its folder."""
    address, until = running.address, time.monotonic() + PATIENCE
    drain(address)  # so that nobody else starts meanwhile
    while time.monotonic() < until:
        found = ask(address, "GET", f"/v1/jobs?limit=1000{_WITH_TASKS}")["jobs"]
        if not found:
            return
        for job in found:
            if job["status"] != "stopping":
                ask(address, "DELETE", f"/v1/jobs/{job['number']}")
        time.sleep(0.05)
    raise TimeoutError("jobs do not end")


_WITH_TASKS = "".join(
    f"&status={status}"
    for status in ("starting", "running", "resizing", "migrating", "preempting", "stopping")
)


def drain(address: Address) -> None:
    """Nothing starts from now on."""
    for node in ask(address, "GET", "/v1/nodes"):
        ask(address, "POST", f"/v1/nodes/{node['name']}/drain")


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
