"""BatchNorm's running averages keep pace with a batch that has grown."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import muster
from muster.runtime.state.batching import BatchWish
from muster.runtime.step.averages import RunningAverages


def test_a_step_of_four_batches_moves_them_as_four_steps_do() -> None:
    torch.manual_seed(0)
    often, once, x = nn.BatchNorm1d(3), nn.BatchNorm1d(3), torch.randn(16, 3) + 2
    for _ in range(4):
        often(x)
    averages = RunningAverages([once], own=16)
    averages.begin(64)
    once(x)
    averages.end()
    assert once.momentum == often.momentum
    assert torch.allclose(once.running_mean, often.running_mean)
    assert torch.allclose(once.running_var, often.running_var)


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(3, momentum=None), nn.LayerNorm(3)])
def test_what_has_no_momentum_is_left_alone(norm: nn.Module) -> None:
    averages = RunningAverages([norm], own=16)
    averages.begin(64)
    assert getattr(norm, "momentum", None) is None


@pytest.mark.slow  # torch's compiler takes seconds to import
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_keeps_its_momentum() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    for compiled in (torch.compile(model), model):
        averages = RunningAverages([compiled], own=16)
        averages.begin(64)
        assert model[1].momentum == (0.1 if compiled is not model else 1 - 0.9**4)
        averages.end()


def test_a_training_shows_its_own_momentum_between_steps() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    data = TensorDataset(torch.randn(640, 4), torch.randint(0, 2, (640,)))
    ctx.data(data, global_batch=(16, 64), epochs=1)
    during: dict[int, float] = {}
    for x, y in ctx.steps():
        during[len(x)] = model[1].momentum
        optimizer.zero_grad()
        ctx.backward(cross_entropy(model(x), y, reduction="none"))
        optimizer.step()
        if ctx.step == 3:
            assert ctx._engine is not None
            ctx._engine.batching.wish = BatchWish(1, 0, 64)
    assert {16, 64} <= during.keys()
    assert during[16] == 0.1 and during[64] == pytest.approx(1 - 0.9**4)
    assert model[1].momentum == 0.1
