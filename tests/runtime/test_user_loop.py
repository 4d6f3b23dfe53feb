"""What a user's loop may do, in one process: epochs, evaluations, the end, and clear errors."""

import shutil
from collections.abc import Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch

from muster.runtime.errors import BadCheckpointError, BadTrainingError
from muster.runtime.user.session import Session, init
from muster.runtime.user.training import Training
from tests.runtime.scripts import tasks


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator["Made"]:
    """A session that trains alone, and its step."""
    monkeypatch.delenv("MUSTER_COORDINATOR", raising=False)
    sessions: list[Session] = []

    def make(**options: Any) -> tuple[Session, Callable[[Any], None]]:
        model, optimizer, data = tasks.make("cnn")
        ctx = init()
        sessions.append(ctx)
        ctx.wrap(model, optimizer)
        ctx.data(data, global_batch=tasks.BATCH, **options)

        def step(batch: Any) -> None:
            optimizer.zero_grad()
            ctx.backward(tasks.losses(model, *batch))
            optimizer.step()

        return ctx, step

    yield make
    for ctx in sessions:
        if ctx._engine is not None:
            ctx._engine.close()


Made = Callable[..., tuple[Session, Callable[[Any], None]]]


def numbers(_: Any, x: torch.Tensor) -> torch.Tensor:
    return x


VALUES = torch.utils.data.TensorDataset(torch.arange(5.0))


def test_a_loop_over_epochs(made: Made) -> None:
    ctx, step = made(epochs=3)
    seen = []
    for epoch in ctx.epochs():
        for batch in ctx.steps():
            assert ctx.epoch == epoch
            step(batch)
        seen.append((epoch, ctx.step, ctx.evaluate(VALUES, batch=2, metric=numbers)))
    assert seen == [(0, 4, 2.0), (1, 8, 2.0), (2, 12, 2.0)]
    assert ctx.mean({"a": 1.0, "b": torch.tensor(3.0)}, n=4) == {"a": 1.0, "b": 3.0}
    assert isnan(float(ctx.mean(1.0, n=0)))  # type: ignore[arg-type]


def test_epochs_are_counted_where_the_data_was_not_told(made: Made) -> None:
    ctx, step = made()
    for _ in ctx.epochs(2):
        for batch in ctx.steps():
            step(batch)
    assert (ctx.epoch, ctx.step) == (2, 8)


def test_a_step_keeps_its_number_over_an_evaluation_in_it(made: Made) -> None:
    ctx, step = made(steps=3)
    for batch in ctx.steps():
        before = ctx.step
        step(batch)
        ctx.evaluate(VALUES, batch=2, metric=numbers)
        assert ctx.step == before
    assert ctx.step == 3


def test_stopped_after_an_evaluation_no_step_follows(made: Made) -> None:
    ctx, step = made(epochs=5)
    for epoch in ctx.epochs():
        for batch in ctx.steps():
            step(batch)
        if epoch == 1:
            ctx.stop()
    assert ctx.step == 8


def test_stopped_before_its_sum_a_step_is_the_last(made: Made) -> None:
    ctx, step = made(epochs=5)
    for batch in ctx.steps():
        if ctx.step == 2:
            ctx.stop()
        step(batch)
    assert ctx.step == 3


def test_a_declared_training_evaluates_its_loss() -> None:
    model, optimizer, data = tasks.make("cnn")
    ctx = Training(
        model=model, optimizer=optimizer, loss=tasks.losses, dataset=data, global_batch=24, epochs=1
    ).run()
    plain = float(tasks.losses(model, *data[:]).detach().double().mean())
    assert ctx.evaluate(data, batch=10) == pytest.approx(plain, rel=1e-6)


def test_the_run_has_a_name_that_lasts(made: Made, tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        ctx, step = made(steps=2)
        ctx.checkpoint(str(tmp_path), every=1)
        with pytest.raises(BadTrainingError, match="known inside the loop"):
            print(ctx.run_id)
        for batch in ctx.steps():
            step(batch)
        names.append(ctx.run_id)
    assert names[0] == names[1], "the second continues the first"
    ctx, step = made(steps=1)
    for batch in ctx.steps():
        step(batch)
    assert ctx.run_id != names[0]


def test_without_an_end(made: Made) -> None:
    ctx, _ = made()
    with pytest.raises(BadTrainingError, match=r"when does it end\? give ctx.data\(..., epochs=...\)"):
        next(iter(ctx.steps()))


def test_steps_in_a_loop_over_a_range(made: Made) -> None:
    ctx, step = made(epochs=2)
    with pytest.raises(BadTrainingError, match=r"write `for epoch in ctx.epochs\(\):` around"):
        for _ in range(2):
            for batch in ctx.steps():
                step(batch)


def test_an_epoch_left_early(made: Made) -> None:
    ctx, step = made(epochs=2)
    with pytest.raises(BadTrainingError, match="epoch 0 is not complete"):
        for _ in ctx.epochs():
            for batch in ctx.steps():
                step(batch)
                break


def test_together_before_the_loop(made: Made) -> None:
    ctx, _ = made(epochs=1)
    calls: list[Callable[[], Any]] = [lambda: ctx.mean(1.0), ctx.stop, ctx.busy]
    for call in calls:
        with pytest.raises(BadTrainingError, match=r"belongs inside the loop over ctx\.steps"):
            call()


def test_a_sum_after_an_evaluation_in_one_step(made: Made) -> None:
    ctx, step = made(epochs=1)
    with pytest.raises(BadTrainingError, match=r"after its last optimizer.step\(\)"):
        for batch in ctx.steps():
            step(batch)
            ctx.mean(1.0)
            step(batch)


def test_what_to_measure_is_not_known(made: Made) -> None:
    ctx, _ = made(epochs=1)
    with pytest.raises(BadTrainingError, match="give metric="):
        for _ in ctx.steps():
            ctx.evaluate(VALUES, batch=2)


def test_a_last_checkpoint_that_cannot_be_written_is_an_error(made: Made, tmp_path: Path) -> None:
    ctx, step = made(steps=2)
    folder = tmp_path / "saved"
    ctx.checkpoint(str(folder), every=10)
    with pytest.raises(BadCheckpointError, match="the last checkpoint of step 2 could not be"):
        for batch in ctx.steps():
            step(batch)
            shutil.rmtree(folder, ignore_errors=True)
            folder.write_text("in the way")


class Uneven:
    """Shards of 5 and 4 samples: with a batch of 4 one sample is left at the end."""

    repeatable = True

    def shards(self) -> int:
        return 2

    def shard(self, i: int) -> Iterator[torch.Tensor]:
        yield from torch.arange(20.0).reshape(10, 2)[5 * i : 9 if i else 5]


def test_batchnorm_on_a_stream_gets_no_single_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_COORDINATOR", raising=False)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ctx = init()
    ctx.wrap(model, optimizer)
    ctx.data(Uneven(), global_batch=4, epochs=1)
    sizes = []
    for x in ctx.steps():
        sizes.append(len(x))
        optimizer.zero_grad()
        ctx.backward(model(x).square().mean(1))
        optimizer.step()
    assert sizes == [4, 3, 2]
