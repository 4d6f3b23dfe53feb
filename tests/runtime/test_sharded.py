"""A model in parts equals training in one process, whoever comes, goes or dies; memory shrinks."""

import json
import random
import time
from pathlib import Path

import pytest
import torch

from muster.runtime.sharded.__main__ import export
from tests.runtime.scripts import in_parts
from tests.runtime.scripts.jobs import LONG, Job

SCRIPT = Path(in_parts.__file__)
EXACT = 1e-12
PACED = ("--pace", "0.02")


def check_result(folder: Path, steps: int, kind: str = "AdamW") -> None:
    """As plain training has it after this many steps."""
    found, plain = torch.load(folder / "out.pt"), in_parts.plain(steps, kind)
    assert found.keys() == plain.keys()
    assert max(float((found[name] - plain[name]).abs().max()) for name in plain) < EXACT


def check_means(folder: Path, steps: int) -> list[tuple[int, float, int]]:
    """Each worker has evaluated what plain training has after the same step; return all of it."""
    plain: dict[int, float] = {}
    in_parts.plain(steps, means=plain)
    lines = [line for path in folder.glob("*.means") for line in path.read_text().splitlines()]
    found = [tuple(json.loads(line)) for line in lines]
    assert {step for step, _, _ in found} == set(range(1, steps + 1))
    assert max(abs(mean - plain[step]) for step, mean, _ in found) < EXACT
    return found


def kept(folder: Path, workers: int) -> set[int]:
    """Bytes that workers kept between steps while there were this many."""
    lines = [line for path in folder.glob("*.sizes") for line in path.read_text().splitlines()]
    return {size for count, size in map(json.loads, lines) if count == workers}


def end(job: Job) -> int:
    """Stop it; its result must be exact. The steps done."""
    job.stop("enough")
    outcome = job.finish()
    check_result(job.folder, outcome.history.step)
    return outcome.history.step


@pytest.mark.parametrize("mirrored", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_one_three_two(mirrored: bool, tmp_path: Path) -> None:
    args = PACED if mirrored else (*PACED, "--no-mirror")
    with Job(tmp_path, *args, workers=1, script=SCRIPT) as job:
        first = job.ahead(3) and job.pids["worker-0"]
        for count in (3, 2):
            job.change(count)
            job.ahead(6)
        assert job.pids["worker-0"] == first
        end(job)
    model = in_parts.make()[0]
    whole = max(kept(tmp_path, 1))
    assert whole >= 3 * sum(p.nbytes for p in model.parameters())
    # Each share is kept twice with mirrors; a share is rounded up, and each counts its steps.
    copies = 2 if mirrored else 1
    for workers in (3, 2):
        assert max(kept(tmp_path, workers)) < 1.05 * whole * copies / workers


@pytest.mark.parametrize(
    "victim", ["worker-0", *(pytest.param(f"worker-{n}", marks=pytest.mark.slow) for n in (1, 2))]
)
def test_a_worker_is_killed(victim: str, tmp_path: Path) -> None:
    with Job(tmp_path, *PACED, workers=3, script=SCRIPT) as job:
        job.ahead(4)
        job.kill(victim)
        job.wait_members(2, LONG)
        job.ahead(4)
        end(job)
    assert job.history.lost == {victim: "signal 9"}


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_at_random_points(kills: int, tmp_path: Path) -> None:
    """Of a training in micro-batches that evaluates after each step: those agree, too."""
    rng = random.Random(9)
    args = ("--micro", "3", "--evaluate")
    with Job(tmp_path, *args, workers=3, script=SCRIPT, replace=True) as job:
        for _ in range(kills):
            job.wait_members(3, LONG)
            job.ahead(rng.randint(1, 4))
            victim = rng.choice(sorted(set(job.history.members) & set(job.pids)))
            time.sleep(rng.random() * 0.02)  # waits for nothing: a random place within a step
            assert job.kill(victim)
        steps = end(job)
    assert list(job.history.lost.values()).count("signal 9") == kills
    assert {workers for *_, workers in check_means(tmp_path, steps)} >= {2, 3}


def test_a_step_that_others_have_counted_is_counted_by_all(tmp_path: Path) -> None:
    """worker-1 has its sums, but not the ballots: it learns from the others that the step counts."""
    with Job(tmp_path, "--steps", "9", "--unsure", "5", workers=3, script=SCRIPT) as job:
        outcome = job.finish()
    check_result(tmp_path, 9)
    assert [(len(c.members), c.cause) for c in outcome.history.changes] == [
        (3, "start"),
        (3, "failure"),
    ]
    done = [d.step for d in job.record.done if d.task == "worker-1"]
    assert done == list(range(1, 10))


@pytest.mark.parametrize("dies", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_evaluation_after_the_loop(dies: bool, tmp_path: Path) -> None:
    """What a worker that is lost meanwhile had is done by the others."""
    args = ("--steps", "3", "--evaluate", *(("--dies-after",) if dies else ()))
    with Job(tmp_path, *args, workers=3, script=SCRIPT) as job:
        outcome = job.wait(LONG)
    assert outcome.error == ("worker-1 failed after its training: signal 9" if dies else "")
    plain: dict[int, float] = {}
    in_parts.plain(3, means=plain)
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.mean")}
    assert len(found) == (2 if dies else 3)
    assert all(abs(mean - plain[3]) < EXACT for mean in found.values())


@pytest.mark.slow
def test_a_checkpoint_is_loaded_by_any_number_of_workers(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    resumed = {"MUSTER_RESUME_FROM": str(saved)}  # of another command line
    for workers, steps, form in ((3, 7, ()), (2, 14, ()), (1, 20, ("--whole",)), (2, 24, ())):
        folder = tmp_path / str(steps)
        folder.mkdir()
        args = ("--steps", str(steps), "--checkpoint", str(saved), *form)
        with Job(folder, *args, workers=workers, script=SCRIPT, environ=resumed) as job:
            outcome = job.finish()
        check_result(folder, steps)
        assert min(outcome.history.losses) == {7: 1, 14: 8, 20: 15, 24: 21}[steps]
        assert export(str(saved), str(folder / "out.pt")) == steps
        check_result(folder, steps)


@pytest.mark.slow
def test_old_parts_are_removed(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    args = ("--steps", "30", "--checkpoint", str(saved), "--every", "5", "--pace", "0.02")
    with Job(tmp_path, *args, workers=2, script=SCRIPT) as job:
        job.wait(LONG)
    whole = {path.name[5:17] for path in saved.glob("step-*")}
    parts = {path.name[5:17] for path in saved.glob("part-*")}
    assert len(whole) == 3
    assert parts == whole


def test_without_mirrors_a_death_costs_the_steps_since_the_checkpoint(tmp_path: Path) -> None:
    """It dies when the others have their sums of step 8: what that step began with is not restored."""
    args = ("--no-mirror", "--checkpoint", str(tmp_path / "saved"), "--every", "5", "--dies", "8")
    with Job(tmp_path, *args, "--steps", "12", workers=3, script=SCRIPT) as job:
        job.finish()
    check_result(tmp_path, 12)
    assert "went back from step 7 to step 5" in job.output()


def test_without_mirrors_and_checkpoints_a_death_ends_the_training(tmp_path: Path) -> None:
    with Job(tmp_path, *PACED, "--no-mirror", workers=3, script=SCRIPT) as job:
        job.ahead(3)
        job.kill("worker-1")
        outcome = job.wait(LONG)
    assert outcome.code
    assert "give the training a checkpoint folder" in outcome.error


def test_gradients_clipped_by_hand_are_refused(tmp_path: Path) -> None:
    with Job(tmp_path, "--wrong-clip", workers=2, script=SCRIPT) as job:
        outcome = job.wait(LONG)
    assert outcome.code
    assert "ctx.clip(max_norm)" in outcome.error
