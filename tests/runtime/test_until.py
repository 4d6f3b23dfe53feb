"""A training ends by its loss: on all workers after the same epoch, whoever came and went."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import muster
from muster.ending import Ending, Trend
from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session
from tests.runtime.scripts import tasks
from tests.runtime.scripts.jobs import Job, check_result

UNTIL = "converged 2% for 2 epochs"


def train(folder: Path | None = None, **more: object) -> tuple[Session, list[float]]:
    """Train a small model alone; the session, and the mean losses of its epochs."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
    losses: list[float] = []

    def note(ctx: Session) -> None:
        if ctx.epoch_loss is not None and ctx.epoch_loss not in losses:
            losses.append(ctx.epoch_loss)

    ctx = muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        loss=nn.CrossEntropyLoss(reduction="none"),
        dataset=data,
        global_batch=16,
        checkpoint=str(folder) if folder else None,
        on_step=note,
        **more,  # type: ignore[arg-type]
    ).run()
    return ctx, [*losses, ctx.epoch_loss or 0.0]


def ended_after(ending: Ending, losses: list[float]) -> int:
    trend = Trend()
    for epoch, loss in enumerate(losses, 1):
        trend = ending.after(trend, loss)
        if ending.is_met(trend, loss):
            return epoch
    raise AssertionError(f"{ending} is not met by {losses}")


def test_a_training_ends_once_its_loss_has_converged() -> None:
    ctx, losses = train(until=muster.converged("1%"), epochs=200)
    assert ctx.epoch == ended_after(Ending(decrease=0.01), losses) < 200


def test_epochs_are_the_most() -> None:
    ctx, _ = train(until=muster.converged(1e-9), epochs=3)
    assert ctx.epoch == 3


def test_either_condition_ends_it() -> None:
    alone, _ = train(until=muster.loss < 0.7)
    either, _ = train(until=(muster.loss < 0.7) | muster.converged("1%"), epochs=200)
    assert either.epoch == alone.epoch


def test_a_restarted_training_remembers_its_flat_epochs(tmp_path: Path) -> None:
    until = muster.converged("1%", patience=4)
    whole, _ = train(until=until, epochs=200)
    first, _ = train(tmp_path, until=until, epochs=whole.epoch - 1)
    assert first.epoch == whole.epoch - 1
    rest, _ = train(tmp_path, until=until, epochs=200)
    assert rest.epoch == whole.epoch


def test_the_jobs_ending_holds_where_the_script_leaves_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadTrainingError, match="when does it end"):
        train()
    monkeypatch.setenv("MUSTER_UNTIL", "converged 1%")
    open_end, losses = train()
    assert open_end.epoch == ended_after(Ending(decrease=0.01), losses)
    own, _ = train(until=muster.loss < 100.0)
    assert own.epoch == 1


@pytest.mark.parametrize("asked", ["much", "200%", 0.0, None])
def test_what_is_no_share_is_refused_with_what_to_write(asked: object) -> None:
    with pytest.raises(BadTrainingError, match=r'muster.converged\("0.5%", patience=3\)'):
        muster.converged(asked)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("sync", "servers"), [("ring", 0), ("dedicated", 1)])
def test_all_members_end_after_the_same_epoch(sync: str, servers: int, tmp_path: Path) -> None:
    args = ("--epochs", "400", "--pace", "0.02")
    environ = {**os.environ, "MUSTER_UNTIL": UNTIL}
    with Job(tmp_path, *args, workers=1, servers=servers, sync=sync, environ=environ) as job:
        job.ahead(2 * tasks.STEPS)
        job.change(2, servers)
        job.ahead(tasks.STEPS)
        outcome = job.finish()
    steps = outcome.history.step
    losses = [outcome.history.losses[step] for step in range(1, steps + 1)]
    means = [sum(losses[i : i + tasks.STEPS]) / tasks.STEPS for i in range(0, steps, tasks.STEPS)]
    ending = Ending(decrease=0.02, patience=2)
    assert steps == tasks.STEPS * ended_after(ending, means) < 400 * tasks.STEPS
    check_result(tmp_path, "cnn", steps)
