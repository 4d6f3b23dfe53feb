"""torchft's stall for the same change of workers. It needs a Python that has torchft."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from support.runtime_marks import Mark, between, excesses, gaps_of, read_marks, typical_steps
from support.runtime_peers import PATIENCE, SCRIPTS, await_marks, running, start, tail

SCRIPT = str(SCRIPTS / "torchft_train.py")
STEADY = 8


def missing(python: str) -> str:
    """Why torchft cannot be measured with this Python; empty if it can."""
    done = subprocess.run([python, "-c", "import torchft"], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def torchft_stall(python: str, before: int, after: int, batch: int) -> float:
    """The first replica's longest gap less the typical step, from the change to some steps after it.

    A replica leaves by being killed: survivors learn of it from a broken connection, or from the
    lighthouse when it has been silent for 5 s.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, log, address = Path(name), Path(name, "log"), Path(name, "address")
        with running([([python, SCRIPT, "--lighthouse", str(address)], {})], log) as processes:
            environ = {"TORCHFT_LIGHTHOUSE": _read(address, log)}
            replica = ([python, SCRIPT, "--out", name, "--batch", str(batch)], environ)
            with log.open("ab") as output:
                processes += [start(*replica, output) for _ in range(before)]
                await_marks(folder, lambda marks: _steps_at(marks, before) > STEADY, log)
                stays = folder / f"replica-{processes[1].pid}.marks"
                ordered = time.monotonic()
                for leaver in processes[1 + after :]:
                    leaver.kill()
                processes += [start(*replica, output) for _ in range(after - before)]
                await_marks(folder, lambda marks: _steps_at(marks, after) > STEADY, log)
        gaps = gaps_of(read_marks(stays))[2:]
        inside = between(gaps, ordered, gaps[-1].ended)
        return max(excesses(inside, typical_steps(gaps)))


def _steps_at(marks: Sequence[Mark], size: int) -> int:
    return len({mark.step for mark in marks if mark.size == size})


def _read(address: Path, log: Path) -> str:
    until = time.monotonic() + PATIENCE
    while not address.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"no lighthouse: {tail(log)}")
        time.sleep(0.05)
    return address.read_text(encoding="ascii")
