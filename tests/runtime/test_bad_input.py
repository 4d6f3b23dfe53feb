"""What a user may get wrong: one clear error, at the step, and nothing is spoilt."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from muster.runtime.launch.launcher import LaunchOutcome
from tests.runtime.scripts import tasks
from tests.runtime.scripts.jobs import CLOSE, LONG, Job, check_result

FAULTY = Path(__file__).parent / "scripts" / "faulty.py"
AT = 2
"""Steps before the fault; see the script."""


def fail(folder: Path, fault: str, *args: str, workers: int = 2, **options: Any) -> LaunchOutcome:
    """Run a training that must fail."""
    with Job(folder, "--fault", fault, *args, script=FAULTY, workers=workers, **options) as job:
        outcome = job.wait(LONG)
        assert outcome.code == 1, job.output()
        assert not (folder / "out.pt").exists()
    assert "\n" not in outcome.error
    return outcome


def resuming(folder: Path) -> dict[str, str]:
    """The environment of a training that takes up another's checkpoints."""
    return os.environ | {"MUSTER_RESUME_FROM": str(folder)}


def check_untouched(folder: Path, steps: int) -> None:
    """Whoever failed has what this many steps of plain training give, and not a step more."""
    left = [torch.load(file) for file in folder.glob("out.pt.worker-*")]
    assert left
    for state in left:
        assert tasks.worst(state, tasks.plain("cnn", steps)) < CLOSE


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("mean", ["BadTrainingError", "one number for", 'reduction="none"']),
        ("shape", ["BadTrainingError", "shape", "samples", "one for each"]),
        ("columns", ["BadTrainingError", "one number for each sample"]),
        ("nan", ["BadTrainingError", "loss of step 3 is nan", "nothing was applied"]),
        ("raise", ["KeyError", "the user's own mistake"]),
        ("no-backward", ["BadTrainingError", "did not call ctx.backward"]),
        ("backward-twice", ["RuntimeError", "backward through the graph a second time"]),
        ("no-step", ["BadTrainingError", "not optimizer.step()"]),
    ],
)
def test_at_the_step(fault: str, words: list[str], tmp_path: Path) -> None:
    outcome = fail(tmp_path, fault)
    for word in words:
        assert word in outcome.error
    check_untouched(tmp_path, AT)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("small", ["BadTrainingError", "96 samples, fewer than the global batch of 1000"]),
        ("unused", ["BadTrainingError", "no gradient reached spare.weight", "allow_unused=True"]),
        ("other", ["BadTrainingError", "none of the model's parameters"]),
    ],
)
def test_before_the_first_step(fault: str, words: list[str], tmp_path: Path) -> None:
    outcome = fail(tmp_path, fault)
    for word in words:
        assert word in outcome.error
    assert outcome.history.step <= 0
    state = torch.load(next(iter(tmp_path.glob("out.pt.worker-*"))))
    untrained = tasks.make("cnn")[0].state_dict()
    assert all(torch.equal(state[name], value) for name, value in untrained.items())


def test_an_item_that_cannot_be_read(tmp_path: Path) -> None:
    outcome = fail(tmp_path, "item")
    assert "OSError" in outcome.error
    assert "is not readable" in outcome.error
    check_untouched(tmp_path, outcome.history.step if outcome.history.step > 0 else AT)


def test_a_fault_leaves_the_checkpoints_alone(tmp_path: Path) -> None:
    """The third step fails: no checkpoint holds it, and another run begins where the last one is."""
    saved = ("--checkpoint", str(tmp_path / "saved"))
    fail(tmp_path, "nan", *saved)
    # The error may come before the first checkpoint is on disk; then the other run begins again.
    names = sorted(file.name for file in (tmp_path / "saved").glob("step-*.pt"))
    last = int(names[-1][5:-3]) if names else 0
    assert last <= AT
    taken = resuming(tmp_path / "saved")
    with Job(tmp_path, "--fault", "none", *saved, script=FAULTY, workers=1, environ=taken) as job:
        job.finish()
        assert min(d.step for d in job.record.done) == last + 1
    check_result(tmp_path, "cnn", 20)


def test_unused_parameters_may_be_allowed(tmp_path: Path) -> None:
    with Job(tmp_path, "--fault", "allowed", script=FAULTY, workers=2) as job:
        job.finish()
    state = torch.load(tmp_path / "out.pt")
    plain = tasks.plain("cnn", 20)
    torch.manual_seed(3)
    assert tasks.worst({name: state[name] for name in plain}, plain) < CLOSE
    assert {"spare.weight", "spare.bias"} < set(state)


def test_a_batch_that_does_not_fit_is_cut_smaller(tmp_path: Path) -> None:
    # 24 samples on two workers are 12 each to begin with; worker-1 has room for 8.
    with Job(tmp_path, "--fault", "tight=8", script=FAULTY, workers=2) as job:
        job.finish()
    shares = {
        task: {d.samples for d in job.record.done if d.task == task} for task in job.history.members
    }
    assert 1 <= min(shares["worker-1"]) <= max(shares["worker-1"]) <= 8
    assert min(shares["worker-0"]) >= 16
    check_result(tmp_path, "cnn", 20)


def test_a_batch_that_fits_nowhere(tmp_path: Path) -> None:
    # 8 and 8 are less than 24.
    outcome = fail(tmp_path, "fits=8", workers=2)
    assert "BadTrainingError" in outcome.error
    assert "fit" in outcome.error
    check_untouched(tmp_path, 0)


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, "--model", "transformer", *saved, workers=1) as job:
        job.finish()
    (tmp_path / "out.pt").unlink()
    before = {file: file.read_bytes() for file in (tmp_path / "saved").glob("step-*")}
    assert before
    outcome = fail(tmp_path, "none", *saved)
    assert "BadCheckpointError" in outcome.error
    assert "belong to job train" in outcome.error
    outcome = fail(tmp_path, "none", *saved, environ=resuming(tmp_path / "saved"))
    assert "another model" in outcome.error
    assert {file: file.read_bytes() for file in (tmp_path / "saved").glob("step-*")} == before


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"), "--epochs", "5")
    with Job(tmp_path, "--fault", "none", *saved, script=FAULTY, workers=2) as job:
        job.finish()
    *_, before, last = sorted((tmp_path / "saved").glob("step-*.pt"))
    last.write_bytes(last.read_bytes()[:-100])
    longer, taken = (*saved[:-1], "6"), resuming(tmp_path / "saved")
    with Job(tmp_path, "--fault", "none", *longer, script=FAULTY, workers=2, environ=taken) as job:
        job.finish()
        assert min(d.step for d in job.record.done) == int(before.stem[5:]) + 1
        assert "is damaged" in job.output()
    check_result(tmp_path, "cnn", 24)
