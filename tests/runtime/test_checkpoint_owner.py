"""A checkpoint belongs to a job: two trainings never take up or overwrite each other's."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from pathlib import Path

import pytest
import torch
from torch import nn

import muster
from muster.runtime.errors import BadCheckpointError, BadTrainingError
from muster.runtime.settings import TaskSettings
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.state.owner import LOCK, CheckpointOwner, WriterClaim, WriterLock, claim_of
from muster.runtime.state.state import TrainingState
from muster.runtime.user.session import Session
from tests.runtime.test_checkpoint import SIGNED, filled

ADA = CheckpointOwner("train", "ada", "/home/ada/train.py", ("--lr", "0.1"))
BEN = CheckpointOwner("train", "ada", "/home/ada/train.py", ("--lr", "0.5"))


class Trainer:
    """One run that claims a folder."""

    def __init__(
        self, folder: Path, owner: CheckpointOwner, run: str = "1", resume_from: Path | None = None
    ) -> None:
        self.told: list[str] = []
        self.checkpoints = Checkpoints(
            folder, on_error=self.told.append, claim=WriterClaim(owner, run, resume_from)
        )

    def save(self, step: int) -> bool:
        return self.checkpoints.save(step, filled(step), SIGNED, wait=True)

    def step(self) -> int | None:
        """The step it would start from."""
        found = self.checkpoints.latest(SIGNED)
        return found[0] if found else None

    def end(self) -> None:
        self.checkpoints.release()


@contextmanager
def written(folder: Path, owner: CheckpointOwner, *steps: int) -> Iterator[None]:
    one = Trainer(folder, owner)
    for step in steps:
        assert one.save(step)
    one.end()
    yield


# --- whose it is


def test_the_same_job_goes_on_from_its_own(tmp_path: Path) -> None:
    with written(tmp_path, ADA, 8):
        assert Trainer(tmp_path, ADA, run="2").step() == 8


@pytest.mark.parametrize(
    "other",
    [
        BEN,
        CheckpointOwner("train-2", ADA.user, ADA.script, ADA.arguments),
        CheckpointOwner(ADA.job, "ben", ADA.script, ADA.arguments),
        CheckpointOwner(ADA.job, ADA.user, "/home/ada/other/train.py", ADA.arguments),
    ],
)
def test_another_is_told_whose_it_is_and_how_to_take_it(other: CheckpointOwner, tmp_path: Path) -> None:
    with written(tmp_path, ADA, 8), pytest.raises(BadCheckpointError) as refused:
        Trainer(tmp_path, other).step()
    text = str(refused.value)
    assert "belong to job train of ada (train.py --lr 0.1)" in text
    assert f"--resume-from {tmp_path}" in text
    assert "\n" not in text


def test_checkpoints_of_before_they_had_owners_are_taken(tmp_path: Path) -> None:
    old = Checkpoints(tmp_path)
    old.save(5, filled(5), SIGNED, wait=True)
    assert Trainer(tmp_path, ADA).step() == 5


def test_a_format_of_the_future_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr("muster.runtime.state.checkpoint.FORMAT", 9)
        Checkpoints(tmp_path).save(5, filled(5), SIGNED, wait=True)
    with pytest.raises(BadCheckpointError, match="newer Muster"):
        Trainer(tmp_path, ADA).step()


# --- resuming from another's


def test_resuming_reads_there_and_writes_here(tmp_path: Path) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    with written(theirs, ADA, 8):
        before = {path: path.read_bytes() for path in theirs.iterdir()}
        one = Trainer(own, BEN, resume_from=theirs)
        assert one.step() == 8
        assert "resuming from step 8 of job train of ada (train.py --lr 0.1)" in one.told[0]
        assert one.save(9)
        one.end()
    assert {path: path.read_bytes() for path in theirs.iterdir()} == before
    # Restarted, it goes on from its own.
    assert Trainer(own, BEN, resume_from=theirs).step() == 9


def test_a_folder_is_taken_over_by_resuming_from_itself(tmp_path: Path) -> None:
    with written(tmp_path, ADA, 8):
        one = Trainer(tmp_path, BEN, resume_from=tmp_path)
        assert one.step() == 8
        one.save(9)
        one.end()
    assert Trainer(tmp_path, BEN).step() == 9
    with pytest.raises(BadCheckpointError, match="belong to job train"):
        Trainer(tmp_path, ADA).step()


def test_a_job_is_resumed_from_the_folder_that_its_script_named(tmp_path: Path) -> None:
    with written(tmp_path / "job" / "deep" / "er", ADA, 8):
        assert Trainer(tmp_path / "own", BEN, resume_from=tmp_path / "job").step() == 8
    with (
        written(tmp_path / "job" / "second", ADA, 9),
        pytest.raises(BadCheckpointError, match=r"several trainings; resume from one of: .*second"),
    ):
        Trainer(tmp_path / "own", BEN, resume_from=tmp_path / "job").step()


def test_one_file_is_resumed_from(tmp_path: Path) -> None:
    with written(tmp_path / "theirs", ADA, 8, 9):
        (first, _) = sorted((tmp_path / "theirs").glob("step-*.pt"))
        assert Trainer(tmp_path / "own", BEN, resume_from=first).step() == 8


def test_nothing_to_resume_from(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(BadCheckpointError, match=f"no checkpoint in {tmp_path}/{name}$"):
            Trainer(tmp_path / "own", BEN, resume_from=tmp_path / name).step()


def test_a_damaged_one_to_resume_from_gives_way_to_the_one_before(tmp_path: Path) -> None:
    with written(tmp_path / "theirs", ADA, 8, 9):
        last = sorted((tmp_path / "theirs").glob("step-*.pt"))[-1]
        last.write_bytes(last.read_bytes()[:-50])
        one = Trainer(tmp_path / "own", BEN, resume_from=tmp_path / "theirs")
        assert one.step() == 8
    assert "is damaged" in one.told[0]


# --- one writer


def test_a_second_live_writer_is_refused(tmp_path: Path) -> None:
    first, second = Trainer(tmp_path, ADA, run="1"), Trainer(tmp_path, ADA, run="2")
    first.checkpoints.take()
    with pytest.raises(BadCheckpointError) as refused:
        second.checkpoints.take()
    assert (
        f"job train of ada (train.py --lr 0.1), process {os.getpid()} on {socket.gethostname()}"
        in str(refused.value)
    )
    assert not second.save(3)
    assert "is not written" in second.told[0]
    first.end()
    assert second.save(3)
    second.end()


def test_members_of_one_run_write_in_turn_whoever_has_the_lock(tmp_path: Path) -> None:
    """The primary hangs with the lock: its successor is of the same job, and goes on."""
    hanging, successor = Trainer(tmp_path, ADA), Trainer(tmp_path, ADA)
    hanging.checkpoints.take()
    successor.checkpoints.take()
    assert successor.save(5)
    hanging.end()
    assert successor.save(6)
    # Now it has the lock itself.
    with pytest.raises(BadCheckpointError, match="being written"):
        Trainer(tmp_path, BEN, run="2").checkpoints.take()
    successor.end()


HOLDER = """
import os, sys, time
from pathlib import Path
from muster.runtime.state.owner import CheckpointOwner, WriterClaim, WriterLock
lock = WriterLock(Path(sys.argv[1]), WriterClaim(CheckpointOwner("train", "ada"), "other"))
lock.take()
child = os.fork()
if not child:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""


def test_the_lock_goes_with_the_process_even_if_a_child_stays(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        mine = Trainer(tmp_path, ADA)
        with pytest.raises(BadCheckpointError, match="job train of ada, process"):
            mine.checkpoints.take()
        holder.kill()
        holder.wait()
        mine.checkpoints.take()
        os.kill(child, signal.SIGKILL)
    assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    mine.end()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lock = WriterLock(tmp_path / "file" / "x", WriterClaim(ADA, "1"))
    with pytest.raises(BadCheckpointError, match=r"cannot be written to .*: Not a directory; give"):
        lock.take()


def test_files_are_private_from_the_first_moment(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with written(tmp_path / "a" / "b", ADA, 1):
            made = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made if path.is_file()} == {0o600}


# --- the session


def session(**settings: str) -> Session:
    return Session(TaskSettings(device="cpu", **settings))  # type: ignore[arg-type]


def test_a_relative_folder_is_the_jobs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own = session(checkpoint="/data/jobs/3-train/checkpoint")
    for named, found in {
        "x": "/data/jobs/3-train/checkpoint/x",
        "a/../b": "/data/jobs/3-train/checkpoint/b",
        "/shared/x": "/shared/x",
    }.items():
        own.checkpoint(named)
        assert own.checkpoints is not None
        assert own.checkpoints.where == found
    with pytest.raises(BadTrainingError, match="give an absolute path"):
        own.checkpoint("../x")
    alone = session()
    alone.checkpoint("x")
    assert alone.checkpoints is not None
    assert alone.checkpoints.where == str(tmp_path / "x")


def test_all_tasks_of_a_job_are_one_run_and_two_jobs_are_not() -> None:
    def run(task: str, token: str) -> str:
        return claim_of(TaskSettings(task=task, token=token, coordinator=("localhost", 1))).run

    assert run("worker-0", "a") == run("worker-1", "a")
    assert run("worker-0", "a") != run("worker-0", "b")
    assert "a" * 64 not in run("worker-0", "a" * 64)
    assert claim_of(TaskSettings()) == claim_of(TaskSettings())


def train(folder: Path, epochs: int = 2, **more: object) -> Session:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
    return muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        loss=nn.CrossEntropyLoss(reduction="none"),
        dataset=data,
        global_batch=16,
        epochs=epochs,
        checkpoint=str(folder),
        **more,  # type: ignore[arg-type]
    ).run()


def test_a_complete_training_says_so_and_its_closing_line_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = train(tmp_path)
    closing = f"final loss {first.loss:.4f}"
    assert not isnan(first.loss)
    again = train(tmp_path)
    assert f"final loss {again.loss:.4f}" == closing
    assert again.epoch_loss == first.epoch_loss
    assert "already complete at step 8" in capsys.readouterr().err


def test_a_condition_that_was_met_is_met_after_a_restart(tmp_path: Path) -> None:
    assert train(tmp_path, epochs=5, until=muster.loss < 9.0).step == 4
    assert train(tmp_path, epochs=5, until=muster.loss < 9.0).step == 4


def test_a_training_without_a_step_has_no_loss_and_still_prints() -> None:
    ctx = session()
    assert f"final loss {ctx.loss:.4f}" == "final loss nan"


def test_a_folder_elsewhere_is_found_from_the_jobs_own(tmp_path: Path) -> None:
    own = session(checkpoint=str(tmp_path / "job"))
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    own.checkpoint(str(tmp_path / "shared"))
    assert not own._saving.restore(TrainingState(model, optimizer))
    assert own.checkpoints is not None
    own.checkpoints.save(8, filled(8), SIGNED, wait=True)
    own.checkpoints.release()
    assert Trainer(tmp_path / "own", BEN, resume_from=tmp_path / "job").step() == 8


SCRIPT = """
import sys, torch, muster
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 2)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
loss = nn.CrossEntropyLoss(reduction="none")
ctx = muster.Training(
    model=model, optimizer=optimizer, loss=loss, dataset=data, global_batch=16, epochs=2, checkpoint="x"
).run()
print(f"final loss {ctx.loss:.4f} after {ctx.step}")
"""


@pytest.mark.slow
def test_a_sweep_in_one_folder_does_not_mix(tmp_path: Path) -> None:
    """Two command lines of one script, as in the issue: the second must not get the first's weights."""
    (tmp_path / "sweep.py").write_text(SCRIPT)

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "sweep.py", *arguments],
            cwd=tmp_path,
            env=os.environ | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert run("0.1").returncode == 0
    second = run("0.5")
    assert second.returncode == 1
    assert "belong to job sweep of" in second.stderr.splitlines()[-1]
    taken = run("0.5", MUSTER_RESUME_FROM="x")
    assert taken.returncode == 0
    assert "after 8" in taken.stdout
