"""Every task's part in `srun`: it runs its processes of a step."""

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Any

from muster.slurm.lines import Message, TaskPeer
from muster.slurm.patterns import file_name

_BLOCK = 65536
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def serve_steps(peer: TaskPeer, rank: int, host: str) -> None:
    """Run the steps that the hub orders, until the script has ended or its task is gone."""
    peer.send(rank=rank, host=host)
    running: dict[int, subprocess.Popen[bytes]] = {}
    while (message := peer.receive()) is not None and not message.get("end"):
        number = message["step"]
        if "signal" in message:
            _signal(running.get(number), int(message["signal"]))
        else:
            _start(peer, message, running)
    for process in running.values():
        _signal(process, signal.SIGTERM)


def _start(peer: TaskPeer, order: Message, running: dict[int, subprocess.Popen[bytes]]) -> None:
    number, environ = order["step"], _environment(order)
    try:
        process = subprocess.Popen(
            order["argv"],
            cwd=order["cwd"] if Path(order["cwd"]).is_dir() else None,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=False,
        )
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        with contextlib.suppress(OSError):
            peer.send(step=number, code=code, error=f"{order['argv'][0]}: {error.strerror}")
        return
    running[number] = process
    threading.Thread(target=_follow, args=(peer, order, process, environ, running), daemon=True).start()


def _environment(order: Message) -> dict[str, str]:
    """Return the step's variables: the script's, and this task's own numbers."""
    own = {
        name: text
        for name, text in os.environ.items()
        if name.startswith(("MUSTER_", "CUDA_VISIBLE", "NVIDIA_VISIBLE", "ROCR_VISIBLE", "SLURMD_"))
        or name in ("LOCAL_RANK", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GPUS_ON_NODE")
    }
    place = {"PROCID": order["procid"], "NTASKS": order["ntasks"], "NPROCS": order["ntasks"]}
    place |= {"STEP_ID": order["step"], "STEPID": order["step"], "STEP_NUM_TASKS": order["ntasks"]}
    numbers = {f"SLURM_{name}": str(value) for name, value in place.items()}
    rank = {"RANK": str(order["procid"]), "WORLD_SIZE": str(order["ntasks"])}
    return {**order["env"], **own, **numbers, **rank}


def _follow(
    peer: TaskPeer,
    order: Message,
    process: "subprocess.Popen[bytes]",
    environ: dict[str, str],
    running: dict[int, "subprocess.Popen[bytes]"],
) -> None:
    """Pass on what a process prints, and how it ends."""
    assert process.stdout is not None and process.stderr is not None
    files = order["files"]
    error = files["error"] or files["output"]
    pumps = [
        threading.Thread(target=_pump, args=(peer, order, pipe, name, pattern, environ), daemon=True)
        for pipe, name, pattern in (
            (process.stdout, "out", files["output"]),
            (process.stderr, "err", error),
        )
    ]
    for pump in pumps:
        pump.start()
    for pump in pumps:
        pump.join()
    code = process.wait()
    running.pop(order["step"], None)
    with contextlib.suppress(OSError):
        peer.send(step=order["step"], code=code if code >= 0 else 128 - code)


def _pump(
    peer: TaskPeer, order: Message, pipe: IO[bytes], name: str, pattern: str, environ: dict[str, str]
) -> None:
    """Copy a stream to its file, or to the `srun`."""
    file: IO[Any] | None = None
    if pattern:
        path = Path(order["cwd"], file_name(pattern, environ, str(order["procid"])))
        file = path.open("ab", buffering=0)
    with contextlib.suppress(OSError):
        while data := os.read(pipe.fileno(), _BLOCK):
            if file is not None:
                file.write(data)
            else:
                peer.send(step=order["step"], stream=name, data=data.decode("utf-8", "replace"))
    if file is not None:
        file.close()


def _signal(process: "subprocess.Popen[bytes] | None", number: int) -> None:
    if process is not None and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
