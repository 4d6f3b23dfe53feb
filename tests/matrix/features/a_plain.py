"""Optimisers and models as they come."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tests.matrix.feature import CLASSES, COUNT, NOISE, WIDTH, Feature, Parts, Result, Train


class Plain(Feature):
    title = "SGD with momentum"


class Adam(Feature):
    title = "AdamW"

    def optimizer(self, model: Any) -> Any:
        return torch.optim.AdamW(model.parameters(), lr=0.01)


class Amsgrad(Feature):
    title = "Adam with amsgrad, foreach"

    def optimizer(self, model: Any) -> Any:
        return torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True, foreach=True)


class Rmsprop(Feature):
    title = "RMSprop, centred"

    def optimizer(self, model: Any) -> Any:
        return torch.optim.RMSprop(model.parameters(), lr=0.005, centered=True, eps=1e-3)


class Groups(Feature):
    title = "parameter groups of different rates"

    def optimizer(self, model: Any) -> Any:
        bias = [p for p in model.parameters() if p.dim() == 1]
        rest = [p for p in model.parameters() if p.dim() > 1]
        groups = [{"params": bias, "weight_decay": 0.0}, {"params": rest, "lr": 0.02}]
        return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)


class Sequence(Feature):
    """Models of short sequences of numbers."""

    def dataset(self) -> Any:
        return TensorDataset(torch.randn(COUNT, 5, WIDTH), torch.randint(0, CLASSES, (COUNT,)))


class Rnn(Sequence):
    title = "LSTM"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(WIDTH, 8, 2, batch_first=True), nn.Linear(8, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.lstm(x)[0][:, -1])

    def model(self) -> Any:
        return self.Model()


class Transformer(Sequence):
    title = "transformer, LayerNorm"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, "gelu", batch_first=True)
            self.out = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.block(x).mean(1))

    def model(self) -> Any:
        return self.Model()


class Tied(Feature):
    title = "tied weights"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(CLASSES, WIDTH)
            self.inner = nn.Linear(WIDTH, WIDTH)
            self.out = nn.Linear(WIDTH, CLASSES, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, x: Tensor) -> Tensor:
            kinds = (x[:, 0] > 0).long()
            return self.out(torch.tanh(self.inner(x + self.embed(kinds))))

    def model(self) -> Any:
        return self.Model()


class Convolution(Feature):
    title = "convolutions, GroupNorm, channels last"

    def model(self) -> Any:
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(48, CLASSES),
        )
        return net.to(memory_format=torch.channels_last)

    def dataset(self) -> Any:
        return TensorDataset(torch.randn(COUNT, 1, 3, 4), torch.randint(0, CLASSES, (COUNT,)))


class Unused(Feature):
    title = "parameters that nothing uses"
    note = "`allow_unused=True`"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
            self.never = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.one(x) + self.two(torch.tanh(x))

    def model(self) -> Any:
        return self.Model()

    def wrap(self, ctx: Any, parts: Parts) -> None:
        ctx.wrap(parts.model, parts.optimizer, allow_unused=True)


class Half(Feature):
    title = "bf16 autocast"
    # Both round: in shares plain torch, too, is up to 1.9 apart; a share that is lost once makes it 20.
    verdict, close, unit = NOISE, 2.0, "of what bf16 rounds off"
    note = "sums of bf16 products in another order"
    rounds = True

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        x, y = batch
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.rounds):
            out = parts.model(x.float())
        return nn.functional.cross_entropy(out.double(), y, reduction="none")

    def model(self) -> Any:
        return super().model().float()

    def noise(self, found: Result, train: Train) -> float:
        rounded = train(self, 0)
        return self.difference(found, rounded) / self.difference(train(Whole(), 0), rounded)


class Whole(Half):
    """The same in float32."""

    rounds = False


class Compiled(Feature):
    title = "`torch.compile`"

    note = '`backend="aot_eager"` here'

    def model(self) -> Any:
        return torch.compile(super().model(), backend="aot_eager")


FEATURES = (
    Plain(), Adam(), Amsgrad(), Rmsprop(), Groups(), Rnn(), Transformer(), Tied(), Convolution(),
    Unused(), Half(), Compiled(),
)  # fmt: skip
