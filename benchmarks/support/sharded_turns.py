"""Muster and FSDP2 take turns with a model in parts, block by block."""

import os
import sys
from pathlib import Path

from muster.runtime.launch.launcher import Launch
from support.runtime_marks import read_marks
from support.runtime_peers import PATIENCE, SCRIPTS, await_marks, free_port, running
from support.runtime_turns import BLOCK, SKIPPED, Turns

SCRIPT = SCRIPTS / "sharded_train.py"


def sharded_turns(
    folder: Path, args: list[str], workers: int, blocks: int, environ: dict[str, str]
) -> Turns:
    """FSDP2 first and last; the first block of each is its warm-up."""
    ours, theirs = folder / "muster", folder / "fsdp"
    ours.mkdir()
    theirs.mkdir()
    log, args = theirs / "log", [*args, "--block", str(BLOCK)]
    theirs_args = [each for each in args if each != "--no-mirror"]
    mine = ["--by", "muster", *args, "--out", str(ours)]
    options = {"threads": 1, "logs": ours, "deadline": PATIENCE, "environ": os.environ | environ}
    with (
        running(_ranks(workers, [*theirs_args, "--out", str(theirs)], environ), log),
        Launch(SCRIPT, mine, workers, **options),  # type: ignore[arg-type]
    ):
        for place in (theirs, ours):
            _await_block(place, 1, workers, log)
        for block in range(1, blocks + 1):
            _turn(theirs, block, workers, log)
            _turn(ours, block, workers, log)
        _turn(theirs, blocks + 1, workers, log)
    return Turns(_steps(ours, blocks), _steps(theirs, blocks + 1), 0.0, 0.0)


def _ranks(
    size: int, args: list[str], environ: dict[str, str]
) -> list[tuple[list[str], dict[str, str]]]:
    command = [sys.executable, str(SCRIPT), "--by", "fsdp", *args]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    return [(command, environ | common | {"RANK": str(rank)}) for rank in range(size)]


def _turn(folder: Path, block: int, workers: int, log: Path) -> None:
    (folder / f"go-{block}").touch()
    _await_block(folder, block + 1, workers, log)


def _await_block(folder: Path, blocks: int, workers: int, log: Path) -> None:
    last = blocks * BLOCK
    await_marks(folder, lambda marks: sum(mark.step == last for mark in marks) == workers, log)


def _steps(folder: Path, blocks: int) -> tuple[float, ...]:
    """Seconds of a step in each block but the first, as the first worker saw it."""
    at = {mark.step: mark.at for mark in read_marks(min(folder.glob("*.marks")))}
    return tuple(
        (at[(block + 1) * BLOCK] - at[block * BLOCK + SKIPPED]) / (BLOCK - SKIPPED)
        for block in range(1, blocks + 1)
    )
