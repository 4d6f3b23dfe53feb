"""A model in parts computes what the whole computes, and holds no more of it than it must."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from muster.runtime.errors import BadTrainingError
from muster.runtime.sharded.exchange import SoleExchange
from muster.runtime.sharded.kept_parts import KeptParts, check_sharded
from muster.runtime.sharded.layout import ShareLayout
from muster.runtime.sharded.sharded_model import ShardedModel


class Net(nn.Module):
    """Blocks, perhaps recomputed in the backward pass."""

    def __init__(self, recompute: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(6, 2)
        self._recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self._recompute else layer(x)
        return self.head(x)


def parts_of(model: nn.Module) -> ShardedModel:
    """One worker's, which has all parts."""
    shards = ShardedModel(model, True)
    optimizer = torch.optim.SGD(model.parameters())
    KeptParts(shards, optimizer, torch.device("cpu")).keep(ShareLayout(("me",)), 0, [])
    shards.enter(SoleExchange())
    return shards


def stepped(model: nn.Module, shards: ShardedModel, x: Tensor) -> list[Tensor]:
    """The gradients of a step, flat."""
    shards.begin(None)
    with shards.differentiating():
        model(x).square().sum().backward()
    shards.finish()
    shards.spread(())
    return [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_are_those_of_the_whole(recompute: bool, frozen: bool) -> None:
    torch.manual_seed(1)
    whole, model, x = Net(), Net(recompute), torch.randn(4, 6)
    model.load_state_dict(whole.state_dict())
    for net in (whole, model) if frozen else ():
        for layer in net.layers:  # as with LoRA: weights without gradients
            layer[0].weight.requires_grad_(False)
    whole(x).square().sum().backward()
    expected = [p.grad.reshape(-1) for p in whole.parameters() if p.grad is not None]
    shards = parts_of(model)
    for _ in range(3):  # the second step fetches ahead, by the order of the first
        found = stepped(model, shards, x)
        assert len(found) == len(expected)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_of_micro_batches_are_those_of_the_batch(recompute: bool) -> None:
    torch.manual_seed(1)
    whole, model, x = Net().double(), Net(recompute).double(), torch.randn(5, 6, dtype=torch.float64)
    model.load_state_dict(whole.state_dict())
    whole(x).square().sum().backward()
    shards = parts_of(model)
    for _ in range(2):
        shards.begin(None)
        for rows, last, counts in ((x[:3], False, True), (x[3:], False, True), (x[3:], True, False)):
            with shards.differentiating(last, counts):  # the last one stands in for another worker's
                model(rows).square().sum().backward()
        shards.finish()
        shards.spread(())
        for mine, theirs in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.allclose(mine.grad, theirs.grad.reshape(-1), rtol=1e-12, atol=1e-12)


def test_blocks_are_freed_after_use() -> None:
    model = Net()
    shards = parts_of(model)
    seen: list[int] = []

    def count(*_: object) -> None:
        seen.append(sum(block.here for block in shards.blocks if block.module is not None))

    for layer in model.layers:
        layer[1].register_forward_hook(count)
        layer[1].register_full_backward_hook(count)
    stepped(model, shards, torch.randn(2, 6, requires_grad=True))
    assert max(seen) <= 2
    assert not any(block.here for block in shards.blocks)
    assert all(p.dim() == 1 for p in model.parameters())


def test_a_plain_backward_is_refused() -> None:
    model = Net()
    shards = parts_of(model)
    shards.begin(None)
    with pytest.raises(BadTrainingError, match=r"call ctx\.backward"):
        model(torch.randn(2, 6)).sum().backward()


def test_parts_are_not_taken_for_the_whole() -> None:
    model = Net()
    parts_of(model).close()
    with pytest.raises(BadTrainingError, match=r"ctx\.export"):
        model.state_dict()
    with pytest.raises(BadTrainingError, match="training is over"):
        model(torch.randn(2, 6))


def test_optimisers_that_need_whole_parameters_are_refused() -> None:
    model = Net()
    with pytest.raises(BadTrainingError, match="LBFGS is not known to update each element by itself"):
        check_sharded(None, model, [torch.optim.LBFGS(model.parameters())])
    loose = torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(1))])
    with pytest.raises(BadTrainingError, match="model's own parameters alone"):
        check_sharded(None, model, [loose])


def test_a_model_without_blocks_says_how_to_name_them() -> None:
    with pytest.raises(BadTrainingError, match="name the class of its layers"):
        ShardedModel(nn.Linear(2, 2), True)
