"""`python -m muster.slurm.batch SCRIPT`: a batch script of Slurm's, as the tasks of a job.

The first task runs the script; all of them run the steps that it starts with `srun`.
"""

import argparse
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from muster.slurm.hub import Hub
from muster.slurm.lines import TaskPeer, dialled
from muster.slurm.patterns import file_name
from muster.slurm.steps import serve_steps

HUB = "MUSTER_SLURM_HUB"
"""Where the `srun` of a script finds the first task: "host:port"."""
COMPAT = ("sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
_BLOCK = 65536


def main() -> int:
    """Run the script or serve its steps; return the exit code."""
    options = _options()
    rank, tasks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    host, token = os.environ.get("MASTER_ADDR", "127.0.0.1"), os.environ.get("MUSTER_TOKEN", "")
    # The port of the rendezvous is for the script's own programs; the next one is this task's, too.
    port = int(os.environ["MASTER_PORT"]) + 1 if tasks > 1 else 0
    if rank:
        _serve(dialled(host, port, token), rank)
        return 0
    listening = socket.create_server((host, port))
    hub = Hub(listening, token, tasks)
    port = listening.getsockname()[1]
    own = dialled(host, port, token)
    threading.Thread(target=_serve, args=(own, rank), daemon=True).start()
    try:
        with _commands() as folder:
            path = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            return _run(options, {**os.environ, HUB: f"{host}:{port}", "PATH": path})
    finally:
        hub.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="muster.slurm.batch")
    parser.add_argument("--output", default="")
    parser.add_argument("--error", default="")
    parser.add_argument("--truncate", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _serve(peer: TaskPeer, rank: int) -> None:
    serve_steps(peer, rank, os.environ.get("SLURMD_NODENAME", socket.gethostname()))


def interpreter(script: Path) -> list[str]:
    """Return what runs a script, by its first line."""
    with script.open("rb") as file:
        first = file.readline().decode("utf-8", "replace")
    return shlex.split(first[2:]) if first.startswith("#!") else ["/bin/sh"]


def _run(options: argparse.Namespace, environ: dict[str, str]) -> int:
    """Run the script, its output copied to its files; return its exit code."""
    script = Path(options.script)
    command = [*interpreter(script), str(script), *options.arguments]
    if not options.output and not options.error:
        return _ended(subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL))
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if options.output == options.error else subprocess.PIPE,
    )
    pumps = [
        threading.Thread(target=_copy, args=(pipe, ours, pattern, options.truncate), daemon=True)
        for pipe, ours, pattern in (
            (process.stdout, sys.stdout.buffer, options.output),
            (process.stderr, sys.stderr.buffer, options.error),
        )
        if pipe is not None
    ]
    for pump in pumps:
        pump.start()
    code = _ended(process)
    for pump in pumps:
        pump.join()
    return code


def _ended(process: "subprocess.Popen[Any]") -> int:
    """Wait for the script, which gets the signals that we get; return its exit code."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCONT):
        # The whole group gets what Muster sends, the script too: here it must only not end us first.
        signal.signal(number, lambda *_: None)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _copy(pipe: IO[bytes], ours: IO[bytes], pattern: str, truncate: bool) -> None:
    """Copy what the script prints to our own output, the job's log, and to its file."""
    with contextlib.ExitStack() as stack:
        files = [ours]
        if pattern:
            path = Path(file_name(pattern, os.environ))
            path.parent.mkdir(parents=True, exist_ok=True)
            files.append(stack.enter_context(path.open("wb" if truncate else "ab", buffering=0)))
        while data := os.read(pipe.fileno(), _BLOCK):
            for file in files:
                file.write(data)
                file.flush()


@contextlib.contextmanager
def _commands() -> Iterator[str]:
    """Make a folder with the commands that a script may call, for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="muster-slurm-") as folder:
        put_commands(Path(folder), ("srun", *COMPAT))
        yield folder


def put_commands(folder: Path, names: tuple[str, ...]) -> None:
    """Write Slurm's commands as small scripts that call ours."""
    python = shlex.quote(sys.executable)
    for name in names:
        ours = "muster.slurm.srun" if name == "srun" else f"muster compat {name}"
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {python} -m {ours} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
