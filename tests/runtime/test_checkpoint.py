"""Checkpoints are whole or not there, whatever happens while they are written."""

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from muster.runtime.errors import BadCheckpointError, BadTrainingError
from muster.runtime.state import checkpoint
from muster.runtime.state.checkpoint import Checkpoints, signature_of

SIGNED = json.dumps({"tensors": {}, "optimizer": "SGD", "groups": [1]})


class Folder:
    """Checkpoints in a folder, with what they have told."""

    def __init__(self, path: Path, keep: int = 3) -> None:
        self.path = path
        self.saved: list[int] = []
        self.errors: list[str] = []
        self.checkpoints = Checkpoints(
            path, keep, on_saved=lambda step, *_: self.saved.append(step), on_error=self.errors.append
        )

    def save(self, *steps: int, size: int = 1000) -> None:
        for step in steps:
            assert self.checkpoints.save(step, filled(step, size), SIGNED)
            self.checkpoints.close()

    def steps(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("step-")) for path in self.path.glob("step-*.pt"))

    def file(self, step: int) -> Path:
        return self.path / f"step-{step:012d}.pt"

    def loaded(self) -> int:
        """The step of the latest one, whose tensors must all be of that step."""
        found = self.checkpoints.latest(SIGNED)
        assert found is not None
        step, state = found
        assert (state["weights"] == step).all()
        return step


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path / "checkpoints")
    yield made
    made.checkpoints.close()


def filled(step: int, size: int = 1000) -> dict[str, Any]:
    return {"weights": torch.full((size,), float(step)), "position": {"step": step}}


def trained(width: int = 4, kind: Any = torch.optim.Adam) -> tuple[nn.Module, Any]:
    """A model after a step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
    optimizer = kind(model.parameters(), lr=0.1)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_training_comes_back_as_it_was(folder: Folder) -> None:
    model, optimizer = trained()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "position": (1, 64, 9)}
    folder.checkpoints.save(9, state, signature_of(model, optimizer), wait=True)

    fresh, other = trained()
    found = folder.checkpoints.latest(signature_of(fresh, other))
    assert found is not None
    step, loaded = found
    assert (step, loaded["position"]) == (9, (1, 64, 9))
    fresh.load_state_dict(loaded["model"])
    other.load_state_dict(loaded["optimizer"])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), fresh.parameters(), strict=True))
    mine, theirs = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert all(torch.equal(mine[i]["exp_avg"], theirs[i]["exp_avg"]) for i in mine)


def test_what_is_saved_is_the_state_at_the_call(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write = threading.Event(), checkpoint._write_file
    monkeypatch.setattr(checkpoint, "_write_file", lambda *a: (gate.wait(10), write(*a)))
    state = filled(1)
    assert folder.checkpoints.save(1, state, SIGNED)
    state["weights"].fill_(77)  # the next step, while it is still being written
    gate.set()
    folder.checkpoints.close()
    assert folder.loaded() == 1


def test_a_save_is_skipped_while_one_is_being_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write = threading.Event(), checkpoint._write_file
    monkeypatch.setattr(checkpoint, "_write_file", lambda *a: (gate.wait(10), write(*a)))
    assert folder.checkpoints.save(1, filled(1), SIGNED)
    assert not folder.checkpoints.save(2, filled(2), SIGNED)
    gate.set()
    assert folder.checkpoints.save(3, filled(3), SIGNED, wait=True)
    assert folder.saved == [1, 3]
    assert folder.loaded() == 3


def test_buffers_are_used_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    places, write = [], checkpoint._write_file

    def noted(descriptor: int, state: dict[str, Any], manifest: Any) -> None:
        places.append(state["weights"].data_ptr())
        write(descriptor, state, manifest)

    monkeypatch.setattr(checkpoint, "_write_file", noted)
    folder.checkpoints.prepare(filled(0))
    folder.checkpoints.close()
    folder.save(1, 2, 3)
    assert len(set(places)) == 1
    folder.save(4, size=2000)
    assert folder.loaded() == 4


def test_the_newest_few_are_kept(folder: Folder) -> None:
    folder.save(10, 20, 30, 40, 50)
    assert folder.steps() == [30, 40, 50]
    assert folder.loaded() == 50


def test_an_empty_or_missing_folder_has_none(folder: Folder) -> None:
    assert folder.checkpoints.latest(SIGNED) is None
    folder.path.mkdir()
    (folder.path / "notes.txt").write_text("mine")
    assert folder.checkpoints.latest(SIGNED) is None


@pytest.mark.parametrize("damage", ["cut", "empty", "content", "manifest", "end"])
def test_a_damaged_file_is_told_of_and_the_one_before_is_taken(folder: Folder, damage: str) -> None:
    folder.save(1, 2)
    data = bytearray(folder.file(2).read_bytes())
    at = {"content": len(data) // 2, "manifest": len(data) - 60, "end": len(data) - 1}
    if damage in at:
        data[at[damage]] ^= 1
    folder.file(2).write_bytes(data[: {"cut": len(data) - 100, "empty": 0}.get(damage, len(data))])
    assert folder.loaded() == 1
    assert len(folder.errors) == 1
    assert "step-000000000002.pt is damaged" in folder.errors[0]


def test_if_all_are_damaged_nothing_is_begun_anew_unasked(folder: Folder) -> None:
    folder.save(1)
    folder.file(1).write_bytes(b"?" * 500)
    with pytest.raises(BadCheckpointError, match=r"no checkpoint in .* is intact"):
        folder.checkpoints.latest(SIGNED)


def test_another_models_checkpoint_is_refused_by_naming_the_tensors(folder: Folder) -> None:
    model, optimizer = trained(4)
    folder.checkpoints.save(1, {}, signature_of(model, optimizer), wait=True)
    with pytest.raises(BadCheckpointError) as refused:
        folder.checkpoints.latest(signature_of(*trained(5)))
    # Two tensors of the linear layer and four of the norm with a width; three are named.
    assert "0.weight is float32[4, 3] there and float32[5, 3] here" in str(refused.value)
    assert "and 3 more" in str(refused.value)


def test_a_tensor_that_is_missing_is_named(folder: Folder) -> None:
    model, optimizer = trained()
    folder.checkpoints.save(1, {}, signature_of(model, optimizer), wait=True)
    model.append(nn.Linear(4, 1, bias=False))
    with pytest.raises(
        BadCheckpointError, match=r"2.weight is missing there and float32\[1, 4\] here$"
    ):
        folder.checkpoints.latest(signature_of(model, optimizer))


def test_another_optimizer_is_named(folder: Folder) -> None:
    folder.checkpoints.save(1, {}, signature_of(*trained()), wait=True)
    with pytest.raises(BadCheckpointError, match=r"optimizer is Adam .*here it is SGD"):
        folder.checkpoints.latest(signature_of(*trained(kind=torch.optim.SGD)))


def test_what_could_not_be_loaded_is_refused_when_it_is_saved(folder: Folder) -> None:
    with pytest.raises(BadTrainingError, match=r"state\['extra'\]\[1\] is a Thread"):
        folder.checkpoints.save(1, {"extra": [1, threading.Thread()]}, SIGNED)


def test_numbers_of_other_libraries_become_plain_ones(folder: Folder) -> None:
    folder.checkpoints.save(1, {"lr": numpy.float64(0.1)}, SIGNED, wait=True)
    assert folder.checkpoints.latest(SIGNED) == (1, {"lr": 0.1})


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """The kernel refuses to write more than this many bytes into one file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1000, 500_000, 4_000_500])
def test_without_room_the_last_one_stays_and_training_goes_on(folder: Folder, room: int) -> None:
    folder.save(1)
    with largest_file(room):
        assert folder.checkpoints.save(2, filled(2, size=1_000_000), SIGNED)  # 4 MB and some
        folder.checkpoints.close()
    (message,) = folder.errors
    assert "step 2 could not be written" in message
    assert [path.name for path in folder.path.iterdir()] == ["step-000000000001.pt"]
    assert folder.loaded() == 1
    folder.save(3)
    assert folder.loaded() == 3


def test_what_killed_processes_have_left_is_removed(folder: Folder) -> None:
    folder.path.mkdir()
    (folder.path / ".step-000000000001.pt.4711").write_bytes(b"half")
    folder.save(2)
    assert [path.name for path in folder.path.iterdir()] == ["step-000000000002.pt"]


KILLED = """
import os, random, signal, sys, time
import torch
from muster.runtime.state.checkpoint import Checkpoints

folder, kills, signed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
random.seed(20)

def latest():
    return Checkpoints(folder, on_error=lambda message: print("damaged:", message)).latest(signed)

def write(begin, told):
    saved = lambda step, path, seconds: os.write(told, b"%d %f\\n" % (step, seconds))
    checkpoints = Checkpoints(folder, keep=2, on_saved=saved)
    for step in range(begin, begin + 10_000):
        checkpoints.save(step, {"parts": [torch.full((20_000,), float(step))] * 20}, signed, wait=True)

seconds = 0.1
for kill in range(kills):
    found = latest()
    begin = found[0] + 1 if found else 1
    read, told = os.pipe()
    child = os.fork()
    if not child:
        write(begin, told)
    os.close(told)
    with os.fdopen(read) as lines:
        step, seconds = (float(word) for word in lines.readline().split())
        time.sleep(random.uniform(0, 2 * seconds))  # a point in the next one or the one after
        os.kill(child, signal.SIGKILL)
        steps = [step, *(float(line.split()[0]) for line in lines if line.endswith("\\n"))]
    os.waitpid(child, 0)
    last, state = latest()
    whole = all((part == last).all() for part in state["parts"])
    print("whole" if whole and last >= steps[-1] else f"lost: {last} {steps}")
"""


def test_a_process_killed_while_it_writes_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "20", SIGNED],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split("\n") == ["whole"] * 20 + [""]
