"""A day's replay: 200 random operations, and no completed step is lost."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import Daemon
from tests.live.day import Day

pytest.importorskip("torch")

DISK = "48m"
"""Of the daemon's disk: its store, logs and checkpoints of a day fit in easily."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    if os.geteuid():
        pytest.skip("a disk that can be filled needs root: it is mounted for the test")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode:
        pytest.skip("a disk that can be filled cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def filler(disk: Path) -> Callable[[], AbstractContextManager[object]]:
    """Makes contexts within which the disk is full."""

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        ballast = disk / "ballast"
        try:
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(2**16))
            yield
        finally:
            ballast.unlink()

    return full


def replay(make: Make, disk: Path, seed: int, operations: int) -> None:
    daemon: Daemon = make("--topology", "3x2", "--interval", "1s", devices=6, data=disk / "data")
    daemon.start()
    daemon.client.set_pool("lend", quotas={"cpu": {"reservation": 0}})
    day = Day(daemon, seed, filler(disk))
    day.run(operations)
    day.finish()
    daemon.assert_nothing_left()
    assert daemon.stop() == 0


@pytest.mark.slow
def test_nothing_is_lost_in_an_hour_of_random_operations(make: Make, disk: Path) -> None:
    replay(make, disk, seed=1, operations=12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_nothing_is_lost_in_a_day_of_random_operations(make: Make, disk: Path, seed: int) -> None:
    replay(make, disk, seed, operations=200)
