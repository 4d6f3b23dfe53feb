"""The gradient's noise scale, measured in real steps against the truth."""

import statistics
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import muster
from muster.runtime.data.limits import BatchLimits
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import Vote
from muster.runtime.state.batching import Batching, BatchWish, NoiseScale
from muster.runtime.step.batch_choice import BatchChoice
from muster.runtime.step.noise import is_measured
from muster.runtime.user.lr_scale import factor_of, scaled
from muster.split.goodput import seconds_at

SIZE = 200


def sampled(true: Tensor, spread: float, batch: int, generator: torch.Generator) -> Tensor:
    """A mean gradient over a batch: the true one, and noise."""
    return true + torch.randn(SIZE, generator=generator) * (spread / batch) ** 0.5


@pytest.mark.parametrize("shares", [(8, 8), (4, 12), (2, 3, 11)])
def test_noise_of_workers_with_unequal_shares_is_unbiased(shares: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    true = torch.randn(SIZE, generator=generator) * 0.1
    truth = SIZE * 0.5 / float(true.square().sum())
    total, found = sum(shares), []
    for _ in range(40):
        noise = NoiseScale()
        for _ in range(10):
            own = [sampled(true, 0.5, share, generator) for share in shares]
            whole = sum(g * s / total for g, s in zip(own, shares, strict=True))
            assert isinstance(whole, Tensor)
            small = sum(float(g.square().sum()) * s / total for g, s in zip(own, shares, strict=True))
            noise.add(small, total / len(shares), float(whole.square().sum()), total)
        found.append(noise.spread / noise.signal)
    assert statistics.median(found) == pytest.approx(truth, rel=0.2)


def test_noise_without_signal_is_large_and_finite() -> None:
    noise = NoiseScale()
    assert noise.samples is None
    for _ in range(3):
        noise.add(1.0, 4, 0.1, 16)
    assert noise.samples is not None and 1e6 < noise.samples < float("inf")


def measured(noise: NoiseScale, size: float, scale: float) -> None:
    """Add a step's squares of 4 and of 16 samples, for |G|^2 = size and a noise scale."""
    noise.add(size * (1 + scale / 4), 4, size * (1 + scale / 16), 16)


def test_noise_of_the_beginning_is_soon_forgotten_however_large_its_gradients() -> None:
    noise = NoiseScale()
    for step in range(24):
        measured(noise, *((100.0, 5.0) if step < 8 else (0.1, 80.0)))
    assert noise.samples == pytest.approx(80.0, rel=0.2)


def test_noise_is_measured_often_at_first_and_costs_a_single_worker_little() -> None:
    early = [step for step in range(1, 33) if is_measured(step, alone=True)]
    assert early == [4, 6, 8, 12, 16, 24, 32]
    assert sum(is_measured(step, alone=True) for step in range(1, 501)) * 2 / 3 < 0.035 * 500
    assert sum(is_measured(step, alone=False) for step in range(1001, 1801)) == 100


class Regression:
    """y = x w + noise, with the gradient's noise known in closed form at w = 0."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        self.x = torch.randn(4096, 200)
        self.y = self.x @ torch.ones(200) * 0.1 + torch.randn(4096)

    def truth(self) -> float:
        each = -self.y[:, None] * self.x
        mean = each.mean(0)
        return float((each - mean).square().sum(1).mean() / mean.square().sum())

    def run(self, micro: int | None, each: Callable[[Any], None]) -> Any:
        model = nn.Linear(200, 1, bias=False)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # stays where the truth is known
        ctx = muster.init()
        ctx.wrap(model, optimizer)
        data = TensorDataset(self.x, self.y)
        ctx.data(data, global_batch=(64, 65), epochs=40, micro_batch=micro)
        for batch in ctx.steps():
            optimizer.zero_grad()
            for x, y in ctx.parts(batch):
                ctx.backward(0.5 * (model(x).squeeze(1) - y).square())
            optimizer.step()
            each(ctx)
        return ctx


@pytest.mark.parametrize("micro", [None, 16])
def test_one_worker_measures_its_noise_from_parts_of_its_batch(micro: int | None) -> None:
    work, found = Regression(), []
    work.run(micro, lambda ctx: found.append(ctx.noise))
    assert found[0] is None
    known = [noise for noise in found[len(found) // 2 :] if noise is not None]
    assert statistics.median(known) == pytest.approx(work.truth(), rel=0.3)


def test_the_latest_wish_counts_and_orders_come_before_choices() -> None:
    batching = Batching(BatchLimits(128, 2048))
    batching.choose(256)
    batching.follow([Vote(**batching.vote()), Vote()])
    assert batching.wanted == 256
    batching.follow([Vote(batch=1024, order=1), Vote(**batching.vote())])
    assert batching.wanted == 1024
    batching.choose(512)
    batching.follow([Vote(**batching.vote())])
    assert batching.wanted == 1024, "a coordinator has ordered"
    batching.follow([Vote(batch=4096, order=2), Vote(batch=300, order=1)])
    assert batching.wanted == 2048
    again = Batching(BatchLimits(128, 2048))
    again.restore(batching.value())
    assert again.wanted == 2048 and again.last == BatchWish(0, 0, 4096)


def test_rates_follow_the_rule_and_are_the_users_own_again() -> None:
    batching = Batching(BatchLimits(64, 1024))
    batching.noise = NoiseScale(signal=1.0, spread=192.0, count=9)
    model = nn.Linear(2, 1)
    adam, sgd = torch.optim.AdamW(model.parameters(), 0.1), torch.optim.SGD(model.parameters(), 0.1)
    gain = (192 + 64) / (192 + 256) * 4
    assert factor_of("auto", sgd, batching, 256) == pytest.approx(gain)
    assert factor_of("auto", adam, batching, 256) == pytest.approx(gain**0.5), (
        "Adam adds the other half"
    )
    assert factor_of("sqrt", adam, batching, 256) == 2.0
    assert factor_of("linear", sgd, batching, 256) == 4.0
    assert factor_of(lambda times: times + 1, sgd, batching, 256) == 5.0
    assert factor_of(None, sgd, batching, 256) == 1.0
    assert factor_of("linear", sgd, batching, 10) == 1.0, "the rest of an epoch"
    with scaled(sgd, 4.0):
        assert sgd.param_groups[0]["lr"] == 0.4
    assert sgd.param_groups[0]["lr"] == 0.1


def chosen(limits: BatchLimits, noise: float, seconds: Callable[[int], float], steps: int) -> list[int]:
    """The batches of a training that chooses by itself."""
    choice, batch, used = BatchChoice(limits), limits.own, []
    for _ in range(steps):
        choice.note(1, batch, batch, seconds(batch))
        used.append(batch)
        batch = choice.best(noise) or batch
    return used


def test_the_batch_grows_where_throughput_does() -> None:
    # Best: sqrt(noise x fixed / per sample) = sqrt(4000 x 1000) = 2000.
    used = chosen(BatchLimits(64, 4096), 4000, lambda m: 1.0 + 0.001 * m, 80)
    assert used[-1] == pytest.approx(2000, rel=0.5)
    assert max(after / before for before, after in pairwise(used)) <= 2


def test_a_batch_that_does_not_pay_is_tried_for_a_few_steps_only() -> None:
    used = chosen(BatchLimits(64, 4096), 100, lambda m: 0.001 * m, 200)
    assert used[-1] == 64 and sum(batch > 64 for batch in used) <= 8


def test_seconds_are_interpolated_and_hoped_for() -> None:
    assert seconds_at({64: 1.0}, 128) == 1.0
    assert seconds_at({64: 1.0, 128: 2.0}, 96) == 1.5
    assert seconds_at({64: 1.0, 128: 2.0}, 256) == 4.0
    assert seconds_at({64: 1.0, 128: 2.0}, 32) == 1.0


@pytest.mark.parametrize(
    ("given", "word"),
    [((128, 64), "below"), ("128", "number of samples"), ((1, 2, 3), "number of samples")],
)
def test_bad_limits_are_refused_with_a_word(given: Any, word: str) -> None:
    ctx = muster.init()
    with pytest.raises(BadTrainingError, match=word):
        ctx.data(TensorDataset(torch.zeros(512, 1)), global_batch=given)


def test_a_bad_rule_is_refused_with_a_word() -> None:
    with pytest.raises(BadTrainingError, match="'adascale'"):
        muster.init().data(TensorDataset(torch.zeros(9, 1)), global_batch=(2, 4), lr_scale="cube")
