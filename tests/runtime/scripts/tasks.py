"""Models and data of the tests, and the same training in plain torch to hold results against."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from muster.runtime.data.samples import Order, Position

COUNT, BATCH, CLASSES = 96, 24, 5
STEPS = COUNT // BATCH
"""Of an epoch."""


class Cnn(nn.Module):
    """A small convolutional network without BatchNorm, whose statistics would be each worker's own."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 6)
        self.out = nn.Linear(8 * 4 * 4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        # Smooth functions: at a kink one bit decides, and the order of additions would show.
        x = functional.avg_pool2d(functional.gelu(self.norm(self.one(x))), 2)
        return self.out(functional.gelu(self.two(x)).flatten(1))


class Transformer(nn.Module):
    """A small transformer with tied weights: its first gradient is ready last."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.block(self.embed(x))) @ self.embed.weight.T


class Counted(nn.Module):
    """A model beside a tally: its gradient counts how often each sample was in an update."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.tally = nn.Parameter(torch.zeros(COUNT))

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


def make(name: str) -> tuple[nn.Module, Any, TensorDataset]:
    """Model, optimiser and data; the last column of the data is the sample's own number."""
    torch.manual_seed(3)
    model = Counted(Cnn() if name == "cnn" else Transformer())
    rest = [p for n, p in model.named_parameters() if n != "tally"]
    # With SGD at rate 1 and a gradient of 1/B for each sample, -B x tally is the number of times.
    groups = [{"params": [model.tally], "lr": 1.0, "momentum": 0.0}, {"params": rest}]
    optimizer = torch.optim.SGD(groups, lr=0.02, momentum=0.9)
    if name == "cnn":
        x, y = torch.randn(COUNT, 1, 8, 8), torch.randint(0, CLASSES, (COUNT,))
    else:
        x = torch.randint(0, 11, (COUNT, 6))
        y = x.roll(-1, 1)
    return model, optimizer, TensorDataset(x, y, torch.arange(COUNT))


def losses(model: nn.Module, x: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """One for each sample; the tally adds its gradient and no value."""
    out = model(x)
    if out.dim() == 3:
        each = functional.cross_entropy(out.transpose(1, 2), y, reduction="none").mean(1)
    else:
        each = functional.cross_entropy(out, y, reduction="none")
    seen = model.tally[ids]
    return each + seen - seen.detach()


def plain(name: str, steps: int) -> dict[str, Tensor]:
    """The parameters after the same training in one process, without Muster."""
    model, optimizer, data = make(name)
    order, position = Order(COUNT, BATCH, seed=0), Position()
    while position.step < steps:
        optimizer.zero_grad()
        losses(model, *data[order.ids(position)]).mean().backward()
        optimizer.step()
        position = order.after(position)
    return model.state_dict()


def worst(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest difference of any parameter but the tally, relative to its tensor's largest value."""
    return max(
        float((a[k] - b[k]).abs().max() / b[k].abs().max().clamp(min=1e-3)) for k in a if k != "tally"
    )


def times_seen(state: dict[str, Tensor]) -> list[int]:
    """How often each sample was in an update that counts."""
    return [round(-value * BATCH) for value in state["tally"].tolist()]
