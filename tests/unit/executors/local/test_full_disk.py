"""A disk without room: what ran is told as it ended, and what cannot run is told so."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.executors.local.conftest import Bench


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "muster", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def bench(small_disk: Path) -> Iterator[Bench]:
    one = Bench(small_disk)
    yield one
    for executor in one.made:
        executor.close()


def fill(disk: Path) -> Path:
    """Leave not a byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 4096)
    return filler


def test_a_task_that_ends_on_a_full_disk_is_told_with_its_code(
    bench: Bench, small_disk: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    subprocess.run(["mkfifo", str(pipe)], check=True)
    task = bench.shell('read line < "$PIPE"; exit 7', PIPE=str(pipe))
    bench.started(task)
    fill(small_disk)
    pipe.write_text("go\n", encoding="ascii")
    assert bench.exited(task).code == 7


def test_an_order_on_a_full_disk_is_refused_and_the_next_is_carried_out(
    bench: Bench, small_disk: Path
) -> None:
    filler = fill(small_disk)
    refused = bench.exited(bench.shell("exit 0"))
    assert (refused.begun, refused.code) == (False, None)
    assert "No space left on device" in refused.error
    filler.unlink()
    assert bench.exited(bench.shell("exit 3", index=1)).code == 3
