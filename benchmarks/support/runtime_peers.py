"""The peers' trainings as processes: plain DDP, started and stopped, and torchrun's agents."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from support.runtime_marks import Mark, all_marks

SCRIPTS = Path(__file__).with_name("peers")
PATIENCE = 180.0
"""Seconds for anything here: an `import torch` for each of five processes on two busy cores is 30."""
GRACE = 15.0
LAST_CALL = 5
"""Seconds for which torchrun awaits more nodes once it has enough; 30 unless told. With 1 its agents
miss each other on a busy machine, and restart again and again."""
UNSHARED = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Without it a node that joins torch 2.13's agents waits for an address that nobody sets any more (they
remember theirs from the first round) until it times out; see pytorch#135712."""


class PeerError(Exception):
    """A peer did not do what it was started for; with the end of what it printed."""


def end_well() -> None:
    """Let SIGTERM end this process as Ctrl-C does: what it has started ends, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


@contextmanager
def running(
    commands: Sequence[tuple[list[str], dict[str, str]]], log: Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes (command, more environment), all gone at the end."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as output:
            for command, more in commands:
                processes.append(start(command, more, output))
        yield processes
    finally:
        end(processes)


def start(command: list[str], more: dict[str, str], output: BinaryIO) -> subprocess.Popen[bytes]:
    """One process in a session of its own."""
    environ = os.environ | {"OMP_NUM_THREADS": "1"} | more
    return subprocess.Popen(command, env=environ, stdout=output, stderr=output, start_new_session=True)


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill what still runs."""
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, GRACE)):
        left = [process for process in processes if process.poll() is None]
        for process in left:
            process.send_signal(number)
        until = time.monotonic() + grace
        for process in left:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ddp_commands(size: int, args: Sequence[str]) -> list[tuple[list[str], dict[str, str]]]:
    """The ranks of a plain DDP training, without an agent above them."""
    command = [sys.executable, str(SCRIPTS / "ddp_train.py"), *args]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    return [(command, common | {"RANK": str(rank)}) for rank in range(size)]


def run_ddp(size: int, args: Sequence[str], log: Path) -> None:
    """Such a training to its end."""
    with running(ddp_commands(size, args), log) as processes:
        for process in processes:
            if process.wait(PATIENCE) != 0:
                raise PeerError(tail(log))


def agent_command(
    least: int, most: int, each: int, port: int, args: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """One agent of torchrun with `each` workers; agents with the same port find each other."""
    torchrun = [
        sys.executable, "-m", "torch.distributed.run", f"--nnodes={least}:{most}",
        f"--nproc-per-node={each}", "--max-restarts=1000", "--rdzv-id=bench", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf=last_call_timeout={LAST_CALL}",
    ]  # fmt: skip
    return [*torchrun, str(SCRIPTS / "ddp_train.py"), *args], UNSHARED


def await_marks(folder: Path, enough: Callable[[list[Mark]], bool], log: Path) -> list[Mark]:
    """Every worker's marks once there are enough of them."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        marks = all_marks(folder)
        if enough(marks):
            return marks
        time.sleep(0.05)
    raise PeerError(f"no such step within {PATIENCE:g} s: {tail(log)}")


def tail(log: Path, lines: int = 15) -> str:
    """The end of what a peer printed."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
