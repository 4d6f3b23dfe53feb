"""The global batch changes between two steps: the result is that of one process that does the same."""

from collections import defaultdict
from pathlib import Path

import pytest
import torch

from tests.runtime.scripts import free_batch
from tests.runtime.scripts.jobs import LONG, Job

SCRIPT = Path(free_batch.__file__)
EXACT = 1e-12
"""Relative difference in float64 that the order of additions may make."""


def totals_of(job: Job) -> list[int]:
    """The samples of each step, as the workers of its last formation counted them."""
    steps: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for done in job.record.done:
        steps[done.step][done.formation].add(done.batch)
    found = [steps[step][max(steps[step])] for step in sorted(steps)]
    assert all(len(batches) == 1 for batches in found), "all workers change in the same step"
    return [batches.pop() for batches in found]


def check(job: Job, kind: str) -> list[int]:
    """Compare with plain training in steps of the same sizes; return them."""
    totals = totals_of(job)
    state, plain = torch.load(job.folder / "out.pt"), free_batch.plain(kind, totals)
    for name, value in plain.items():
        assert float((state[name] - value).abs().max() / value.abs().max()) < EXACT, name
    return totals


def ordered(job: Job, batch: int) -> None:
    """Order a batch and wait for a step of its size."""
    before = len(job.record.done)
    job.use_batch(batch)
    job.watch(lambda _: any(done.batch == batch for done in job.record.done[before:]), LONG)


@pytest.mark.parametrize("kind", [pytest.param("Adam", marks=pytest.mark.slow), "SGD"])
def test_a_batch_that_changes_by_order_with_resize_and_kill_is_exact(kind: str, tmp_path: Path) -> None:
    with Job(tmp_path, "--kind", kind, "--pace", "0.02", script=SCRIPT, workers=2) as job:
        job.ahead(2)
        ordered(job, 30)
        job.change(3)
        job.ahead(3)
        ordered(job, 50)
        job.kill("worker-1")
        job.wait_members(2, LONG)
        ordered(job, 96)
        job.ahead(2)
        ordered(job, 12)
        job.finish()
    totals = check(job, kind)
    assert {30, 50, 96, 12} <= set(totals)
    assert sum(totals) == free_batch.EPOCHS * free_batch.COUNT, "every sample once in each epoch"


def test_an_order_beyond_the_limits_is_cut(tmp_path: Path) -> None:
    with Job(tmp_path, "--pace", "0.02", script=SCRIPT, workers=1) as job:
        job.ahead(1)
        job.use_batch(4096)
        job.watch(lambda _: any(done.batch == free_batch.LARGEST for done in job.record.done), LONG)
        job.use_batch(1)
        job.finish()
    check(job, "Adam")


@pytest.mark.slow
def test_a_resumed_training_goes_on_with_its_batch(tmp_path: Path) -> None:
    args = ("--pace", "0.02", "--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, *args, script=SCRIPT, workers=2) as job:
        job.ahead(1)
        ordered(job, 40)
        job.stop("enough")
        job.wait(LONG)
    with Job(tmp_path, *args, script=SCRIPT, workers=1) as again:
        again.finish()
    before = totals_of(job)
    assert min(done.step for done in again.record.done) == len(before) + 1
    assert again.record.done[0].batch in (40, 20), "40, or the 20 that are left of an epoch"
    totals = before + totals_of(again)
    plain, state = free_batch.plain("Adam", totals), torch.load(tmp_path / "out.pt")
    assert all(torch.allclose(state[k], plain[k], rtol=EXACT, atol=0) for k in plain)
    assert sum(totals) == free_batch.EPOCHS * free_batch.COUNT


@pytest.mark.slow
def test_workers_that_scale_by_noise_stay_the_same(tmp_path: Path) -> None:
    args = ("--kind", "SGD", "--rule", "adascale", "--pace", "0.02")
    with Job(tmp_path, *args, script=SCRIPT, workers=2) as job:
        job.ahead(10)
        ordered(job, 48)
        job.change(3)
        job.finish()  # members compare their states, and would have failed
    assert any(done.noise for done in job.record.done)
