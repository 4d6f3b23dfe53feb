"""Models with layers that are random, frozen, or look at the whole batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.matrix.feature import CLASSES, COUNT, NOISE, WIDTH, Feature, Parts, Result, Train
from tests.matrix.noted import note, noted
from tests.matrix.order import batches

SEEDS = range(1, 21)


class ByLoss(Feature):
    """A training that is random by nature: the loss it reaches is one of those over many seeds."""

    verdict, close, unit = NOISE, 4.0, "standard deviations"

    def result(self, parts: Parts) -> Result:
        parts.model.cpu().eval()
        x, y = parts.data[:]
        with torch.no_grad():
            return {"loss": functional.cross_entropy(parts.model(x), y)}

    def noise(self, found: Result, train: Train) -> float:
        seen = torch.stack([train(self, seed)["loss"] for seed in SEEDS])
        return float((found["loss"] - seen.mean()).abs() / seen.std())


class Dropout(ByLoss):
    title = "dropout"
    note = "other neurons drop out when shares differ; the same when a step is redone"

    def model(self) -> Any:
        return nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, CLASSES))


class LocalNorm(Feature):
    """Workers note their shares, so that plain torch can normalise over each by itself."""

    title = "BatchNorm"
    note = "over a worker's own share, as in DistributedDataParallel"

    def model(self) -> Any:
        return nn.Sequential(
            nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, CLASSES)
        )

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            note(parts.folder, ctx, ctx.share)
            self.body(parts, batch, ctx.backward, ctx.step)

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        shares = noted(parts.folder)
        for step, (x, y) in enumerate(batches(parts.data, self.options(), steps, seed)):
            cuts = [share for (share,) in shares[step] if share]
            assert sum(cuts) == len(x)
            each = zip(x.split(cuts), y.split(cuts), strict=True)
            parts.optimizer.zero_grad()
            torch.cat([self.losses(parts, part) for part in each]).mean().backward()
            parts.optimizer.step()

    def result(self, parts: Parts) -> Result:
        """The parameters: the averages are each worker's own."""
        return {name: p.detach().clone() for name, p in parts.model.named_parameters()}


class FrozenNorm(Feature):
    title = "frozen BatchNorm (`eval()`)"

    def model(self) -> Any:
        norm = nn.BatchNorm1d(16)
        norm.running_mean.uniform_()
        norm.requires_grad_(False)
        return nn.Sequential(nn.Linear(WIDTH, 16), norm, nn.GELU(), nn.Linear(16, CLASSES)).eval()

    def optimizer(self, model: Any) -> Any:
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, lr=0.1, momentum=0.9)


class Lora(FrozenNorm):
    title = "LoRA over frozen weights"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
            self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
            self.out = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.tanh(self.base(x) + self.up(self.down(x))))

    def model(self) -> Any:
        return self.Model()


class Regression(Feature):
    title = "regression of several targets"

    def model(self) -> Any:
        return nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, 3))

    def dataset(self) -> Any:
        return torch.utils.data.TensorDataset(torch.randn(COUNT, WIDTH), torch.randn(COUNT, 3))

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        x, y = batch
        return functional.smooth_l1_loss(parts.model(x), y, reduction="none").mean(1)


FEATURES = (Dropout(), LocalNorm(), FrozenNorm(), Lora(), Regression())
