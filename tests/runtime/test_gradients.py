"""Gradients that would be one worker's own: a clear error at the step, or the right sum."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from muster.runtime.data.samples import cut
from muster.runtime.errors import BadTrainingError
from muster.runtime.settings import TaskSettings
from muster.runtime.step.sync_batchnorm import merged
from muster.runtime.user.parts import split
from muster.runtime.user.session import Session
from tests.runtime.scripts import features
from tests.runtime.scripts.jobs import LONG, Job

SCRIPT = Path(features.__file__)
Step = Callable[[Session, Any, Any, Tensor], None]


def train(step: Step, steps: int = 3, keep: dict[str, Any] | None = None, **data: Any) -> Any:
    """Train alone in this process; return model, optimiser and session."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ctx = Session(TaskSettings())
    ctx.wrap(model, optimizer)
    ctx.keep(**(keep or {}))
    ctx.data(TensorDataset(torch.randn(16, 4)), global_batch=8, steps=steps, **data)
    try:
        for (x,) in ctx.steps():
            step(ctx, model, optimizer, x)
    except BadTrainingError:
        assert ctx._engine is not None
        ctx._engine.leave()
        raise
    return model, optimizer, ctx


def losses(model: Any, x: Tensor) -> Tensor:
    return model(x).square().mean(1)


def test_a_plain_backward_pass() -> None:
    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x))
        losses(model, x).mean().backward()

    with pytest.raises(BadTrainingError, match=r"plain \.backward\(\) reached 1\.(weight|bias)"):
        train(step)


def test_an_optimizer_that_was_not_wrapped() -> None:
    other = nn.Linear(4, 1)
    own = torch.optim.Adam(other.parameters())

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x) + losses(other, x))
        optimizer.step()
        own.step()

    with pytest.raises(BadTrainingError, match=r"Adam updates a tensor of shape \[1, 4\]"):
        train(step)
    own.step()  # after the training, it is nobody's business


def test_one_side_of_a_gan() -> None:
    """The other side's optimiser is unknown: the error comes before its first update."""
    d = nn.Linear(3, 1)
    opt_d = torch.optim.SGD(d.parameters(), lr=0.1)

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        opt_d.zero_grad()
        losses(d, model[0](x).detach()).mean().backward()
        opt_d.step()

    before = d.weight.clone()
    with pytest.raises(BadTrainingError, match="was not given this optimiser"):
        train(step)
    assert torch.equal(d.weight, before)


def test_a_parameter_of_two_optimizers() -> None:
    model = nn.Linear(2, 2)
    both = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam([model.weight])]
    with pytest.raises(BadTrainingError, match="two optimisers hold the same parameter"):
        Session(TaskSettings()).wrap(model, both)


def test_weights_must_fit_and_may_not_vanish() -> None:
    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x), weight=torch.ones(3))

    with pytest.raises(BadTrainingError, match=r"weights have shape \[3\] for 8 samples"):
        train(step)

    def nothing(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x), weight=torch.zeros(8))

    with pytest.raises(BadTrainingError, match="weights of step 1 add up to 0"):
        train(nothing)


def test_the_weighted_loss_is_the_one_reported() -> None:
    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(torch.arange(8.0) + 0 * losses(model, x), weight=torch.full((8,), 2.0))
        optimizer.step()

    ctx = train(step)[2]
    assert ctx.loss == pytest.approx(28 / 16)


def test_an_optimizer_that_ctx_wrap_does_not_know_cannot_be_chosen() -> None:
    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x), optimizer=torch.optim.SGD(model.parameters(), lr=1.0))

    with pytest.raises(BadTrainingError, match="names one that"):
        train(step)


def test_gradients_do_not_add_up_over_steps() -> None:
    """Alone as among others: each step begins without gradients, with or without zero_grad()."""

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(model(torch.ones(8, 4)).mean(1))
        grads.append(model[1].bias.grad.item())
        optimizer.step()

    grads: list[float] = []
    train(step)
    assert grads == pytest.approx([1.0, 1.0, 1.0])


def test_memory_that_is_too_small_for_a_share_halves_the_micro_batch() -> None:
    sizes: list[int] = []

    def forward(model: Any, x: Tensor) -> Tensor:
        sizes.append(len(x))
        if len(x) > 3:
            raise torch.OutOfMemoryError("out of memory, says the test")
        return losses(model, x)

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        for part in ctx.parts(x):
            ctx.attempt(partial(forward, model, part))
        optimizer.step()

    model = train(step, micro_batch="auto")[0]
    # 8 and 4 do not fit; the step is done with parts of 2, and so are the next ones.
    assert sizes == [8, 4, 4, *[2] * 12]

    def whole(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        ctx.backward(losses(model, x))
        optimizer.step()

    for one, other in zip(model.parameters(), train(whole)[0].parameters(), strict=True):
        assert torch.allclose(one, other)


def test_a_scaler_that_is_switched_off_does_nothing_in_a_step_that_is_redone() -> None:
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    sizes: list[int] = []

    def forward(model: Any, x: Tensor) -> Tensor:
        sizes.append(len(x))
        if len(x) > 4:
            raise torch.OutOfMemoryError("out of memory, says the test")
        return losses(model, x)

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        for part in ctx.parts(x):
            ctx.attempt(partial(forward, model, part), scaler=scaler)
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    train(step, steps=2, keep={"scaler": scaler}, micro_batch="auto")
    assert sizes == [8, 4, 4, 4, 4]


def test_a_step_counts_if_its_update_overflows_and_not_if_it_is_redone() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=10**6)
    applied: list[bool] = []

    def forward(model: Any, x: Tensor) -> Tensor:
        if len(applied) == 1:
            raise torch.OutOfMemoryError("out of memory, says the test")
        return losses(model, x) * (float("inf") if len(applied) == 2 else 1.0)

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        optimizer.zero_grad()
        for part in ctx.parts(x):
            ctx.attempt(partial(forward, model, part), scaler=scaler)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()  # so that nobody sees an overflow any more
        applied.append(ctx.applied)

    train(step, steps=3, keep={"scaler": scaler}, micro_batch="auto")
    assert applied == [True, False, True, True]
    assert scaler.get_scale() == 1.0


def test_an_update_that_the_scaler_leaves_out_is_no_error() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**126, growth_interval=10**6)
    before: list[Tensor] = []

    def step(ctx: Session, model: Any, optimizer: Any, x: Tensor) -> None:
        before.append(model[0].weight.clone())
        optimizer.param_groups[0]["lr"] = 1e-5
        ctx.backward(1000 * losses(model, x), scaler=scaler)
        scaler.step(optimizer)
        scaler.update()

    model, _, ctx = train(step, steps=14)
    assert ctx.step == 14
    assert torch.equal(before[0], before[1])
    assert not torch.equal(before[0], model[0].weight)
    assert 0 < ctx.loss < 2.0**60  # as it is, not as it was scaled


def test_clipping_where_owners_update(tmp_path: Path) -> None:
    """No worker has the gradients: clipping None would do nothing, without a word."""
    args = ("--feature", "clipped")
    with Job(tmp_path, *args, script=SCRIPT, workers=2, owners="update", sync="sharded") as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "gradients cannot be read or changed" in outcome.error
    assert 'owners="reduce"' in outcome.error


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uneven", "worker-1 is at another point of its step than worker-0"),
        ("strayed", "worker-1 trains other parameters than worker-0 from step 4 on"),
    ],
)
def test_workers_that_do_different_things(name: str, words: str, tmp_path: Path) -> None:
    with Job(tmp_path, "--feature", name, script=SCRIPT, workers=2) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert words in outcome.error


def test_a_resumed_training_trains_what_was_unfrozen(tmp_path: Path) -> None:
    def run(steps: int) -> nn.Sequential:
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.9)
        ctx = Session(TaskSettings())
        ctx.wrap(model, optimizer)
        ctx.data(TensorDataset(torch.randn(16, 4)), global_batch=8, steps=steps)
        ctx.checkpoint(str(tmp_path / f"saved-{len(parts)}"))
        for (x,) in ctx.steps():
            if ctx.step == 1:
                ctx.unfreeze(model[0])
                optimizer.add_param_group({"params": list(model[0].parameters())})
            ctx.backward(losses(model, x))
            optimizer.step()
        return model

    parts: list[int] = []
    run(4)
    resumed = run(8)
    parts.append(1)  # another folder: in one go
    for one, other in zip(resumed.parameters(), run(8).parameters(), strict=True):
        assert torch.equal(one, other)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_nobody_gets_a_single_sample_if_batchnorm_needs_two(shares: list[int], data: Any) -> None:
    assume(sum(shares) > 1)
    total = data.draw(st.integers(2, sum(shares)))
    found = cut(total, shares, least=2)
    counts = [count for _, count in found]
    assert sum(counts) == total
    assert 1 not in counts and min(counts) >= 0
    assert [first for first, _ in found] == [sum(counts[:rank]) for rank in range(len(counts))]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 99))
def test_statistics_of_parts_are_those_of_the_whole(sizes: list[int], seed: int) -> None:
    assume(sum(sizes) > 0)
    whole = 1e4 + torch.randn(sum(sizes), 3, dtype=torch.float64, generator=torch.manual_seed(seed))
    rows = torch.stack([_row(part) for part in whole.split(sizes)])
    count, mean, squares = merged(rows)
    assert count == len(whole)
    assert torch.allclose(mean, whole.mean(0), rtol=1e-13)
    assert torch.allclose(squares, _squares(whole), rtol=1e-8, atol=1e-9)


def _row(part: Tensor) -> Tensor:
    """What a worker tells of its share: count, mean and squared deviations; zeros without samples."""
    if not len(part):
        return torch.zeros(3, 3, dtype=torch.float64)
    return torch.stack([torch.full_like(part[0], len(part)), part.mean(0), _squares(part)])


def _squares(part: Tensor) -> Tensor:
    return (part - part.mean(0)).square().sum(0)


def test_batches_are_cut_by_sample() -> None:
    batch = {"x": torch.arange(6).view(6, 1), "names": list("abcdef"), "scale": torch.tensor(2.0)}
    part = split(batch, 6, 2, 4)
    assert part["x"].flatten().tolist() == [2, 3]
    assert part["names"] == ["c", "d"]
    assert part["scale"] == 2.0
