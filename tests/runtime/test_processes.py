"""Loader processes: the same batches as without them, whoever loads; and an end in every case."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import Dataset, get_worker_info

from muster.runtime.data.loader import Loader
from muster.runtime.data.processes import LoaderProcesses
from muster.runtime.errors import BadTrainingError

Made = Callable[..., LoaderProcesses]


class Squares(Dataset[Any]):
    """Sample i is (i, i^2) beside the process that read it; appends what is read to a file."""

    def __init__(self, log: Path | None = None, bad: int = -1) -> None:
        self.log, self.bad = log, bad

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int, int]:
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{i}\n")
        if i == self.bad:
            raise OSError("the disk is gone")
        return torch.tensor([float(i)]), i * i, os.getpid()

    def read(self) -> list[int]:
        """What was read so far, by all processes."""
        return sorted(int(line) for line in self.log.read_text().split()) if self.log else []


class Noise(Dataset[Any]):
    """Samples out of the three generators that transforms use."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.tensor([torch.rand(()).item(), random.random(), numpy.random.rand()])


class Slow(Squares):
    """Says that it has begun, and takes for ever."""

    def __getitem__(self, i: int) -> Any:
        found = super().__getitem__(i)
        time.sleep(1000 if i == 7 else 0)
        return found


@pytest.fixture
def made() -> Iterator[Made]:
    loaders: list[LoaderProcesses] = []

    def make(*args: Any, **options: Any) -> LoaderProcesses:
        loaders.append(LoaderProcesses(*args, **options))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


def children() -> set[int]:
    """Live child processes of this one."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in found if _state(int(pid)) != "Z"}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def test_a_batch_is_that_of_torchs_own_loader_and_comes_from_another_process(made: Made) -> None:
    x, y, pid = made(Squares(), count=2).load(torch.tensor([3, 1]))
    assert x.tolist() == [[3.0], [1.0]]
    assert y.tolist() == [9, 1]
    assert os.getpid() not in pid.tolist()


def test_batches_ahead_are_read_once_and_by_different_processes(made: Made, tmp_path: Path) -> None:
    data = Squares(tmp_path / "read")
    loader = made(data, count=2)
    steps = [range(first, first + 4) for first in range(0, 16, 4)]
    for step in steps:
        loader.expect(step)
        loader.expect(step)
    got = [loader.load(step) for step in steps]
    assert [batch[1].tolist() for batch in got] == [[i * i for i in step] for step in steps]
    assert len({int(pid) for batch in got for pid in batch[2]}) == 2
    assert data.read() == list(range(16))


def test_when_the_cut_has_changed_only_the_rest_is_read(made: Made, tmp_path: Path) -> None:
    data = Squares(tmp_path / "read")
    loader = made(data, count=3)
    loader.expect([5, 6, 7])
    assert loader.load([6, 7, 8, 9])[1].tolist() == [36, 49, 64, 81]
    assert data.read() == [5, 6, 7, 8, 9]


def test_a_lost_step_is_cut_again_without_reading_again(made: Made, tmp_path: Path) -> None:
    data = Squares(tmp_path / "read")
    loader = made(data, count=2)
    loader.load([1, 2, 3])
    loader.expect([5, 6])
    assert loader.load([1, 2])[1].tolist() == [1, 4]
    assert loader.load([5, 6])[1].tolist() == [25, 36]
    assert data.read() == [1, 2, 3, 5, 6]


def test_the_processes_stay_through_all_of_it(made: Made) -> None:
    loader = made(Squares(), count=2)
    pids = {int(pid) for n in range(20) for pid in loader.load(range(n, n + 1 + n % 5))[2]}
    assert len(pids) <= 2


@pytest.mark.parametrize("count", [1, 3])
def test_augmentation_depends_on_epoch_and_sample_alone(made: Made, count: int) -> None:
    here = Loader(Noise(), seed=3, augment=True)
    loader = made(Noise(), count=count, seed=3)
    loader.expect([1, 2, 3], epoch=1)
    assert torch.equal(loader.load([8, 4], epoch=1), here.load([8, 4], epoch=1))
    assert torch.equal(loader.load([2, 3], epoch=1), here.load([2, 3], epoch=1))
    assert not torch.equal(loader.load([8, 4], epoch=2), here.load([8, 4], epoch=1))


def test_each_process_is_told_which_one_it_is(made: Made, tmp_path: Path) -> None:
    class Told(Squares):
        def __getitem__(self, i: int) -> Any:
            info = get_worker_info()
            assert info is not None
            return info.id, info.num_workers, prepared[0]

    prepared: list[int] = []
    loader = made(Told(), count=2, init=lambda number: prepared.append(number * 10))
    assert sorted(tuple(map(int, loader.load([i]))) for i in range(2)) == [(0, 2, 0), (1, 2, 10)]


def test_a_failing_loader_init_is_named(made: Made) -> None:
    def fail(number: int) -> None:
        raise KeyError("no such key")

    with pytest.raises(BadTrainingError, match=r"loader_init failed in loader 0: KeyError"):
        made(Squares(), init=fail).load([1])


def test_a_bad_sample_is_named_with_the_file_and_the_loader_goes_on(made: Made) -> None:
    loader = made(Squares(bad=6))
    with pytest.raises(BadTrainingError, match=r"sample 6 .*the disk is gone.*test_processes.py, line"):
        loader.load([5, 6, 7])
    assert loader.load([5, 7])[1].tolist() == [25, 49]


def test_a_killed_process_is_a_clear_error_and_no_hang(made: Made, tmp_path: Path) -> None:
    data = Slow(tmp_path / "read")
    loader = made(data, count=1)
    pid = int(loader.load([1])[2][0])
    loader.expect([7])
    while not data.read().count(7):
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BadTrainingError, match=rf"{pid}\) was killed by SIGKILL: out of memory"):
        loader.load([7])
    with pytest.raises(BadTrainingError, match="was killed by SIGKILL"):
        loader.load([8])


def test_a_closed_loader_leaves_no_process_and_no_thread(made: Made) -> None:
    before = children()
    loader = made(Squares(), count=2)
    loader.expect(range(8))
    loader.load(range(8, 12))
    assert len(children() - before) == 2
    loader.close()
    assert children() == before


def test_signals_to_the_whole_group_are_left_to_the_training(made: Made) -> None:
    loader = made(Squares(), count=1)
    pid = int(loader.load([1])[2][0])
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert int(loader.load([2])[2][0]) == pid


@pytest.mark.parametrize(
    "ending",
    [
        "os.kill(os.getpid(), 9)",
        pytest.param("raise KeyError('no')", marks=pytest.mark.slow),
        pytest.param("sys.exit(3)", marks=pytest.mark.slow),
    ],
)
def test_loaders_end_with_their_training(ending: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys, torch\n"
        "from muster.runtime.data.processes import LoaderProcesses\n"
        "class Data:\n"
        "    def __getitem__(self, i): return torch.tensor(os.getpid())\n"
        "loader = LoaderProcesses(Data(), count=2)\n"
        "print(int(loader.load([1])[0]), int(loader.load([2])[0]), flush=True)\n"
        f"{ending}\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(set(pids)) == 2
    while any(_state(pid) not in "ZX" for pid in pids):
        time.sleep(0.01)
