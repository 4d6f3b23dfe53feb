"""Between the gradients and the update."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.matrix.feature import CLASSES, REFUSED, WIDTH, Backward, Feature, Parts


class Clipped(Feature):
    title = "clipping by norm"

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        parts.optimizer.zero_grad()
        backward(self.losses(parts, batch))
        nn.utils.clip_grad_norm_(parts.model.parameters(), 0.1)
        parts.optimizer.step()


class ClippedValues(Feature):
    title = "clipping by value"

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        parts.optimizer.zero_grad()
        backward(self.losses(parts, batch))
        nn.utils.clip_grad_value_(parts.model.parameters(), 0.01)
        parts.optimizer.step()


class Penalty(Feature):
    title = "gradient penalty (double backward)"

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        x, y = batch
        x = x.clone().requires_grad_()
        losses = functional.cross_entropy(parts.model(x), y, reduction="none")
        (slope,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        return losses + 0.1 * slope.square().sum(1)


class Checkpointed(Feature):
    title = "activation checkpointing"

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        x, y = batch
        out = checkpoint(parts.model[:3], x, use_reentrant=False)
        return functional.cross_entropy(parts.model[3:](out), y, reduction="none")


class Reentrant(Feature):
    title = "reentrant checkpointing of a shared block"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            if not x.requires_grad:
                x = x.clone().requires_grad_()
            for _ in range(2):
                x = torch.tanh(checkpoint(self.block, x, use_reentrant=True))
            return self.out(x)

    def model(self) -> Any:
        return self.Model()


class Lbfgs(Feature):
    title = "LBFGS"
    verdict, words = REFUSED, "LBFGS evaluates the loss many times per step"

    def optimizer(self, model: Any) -> Any:
        return torch.optim.LBFGS(model.parameters())


class Mean(Feature):
    title = "a loss that is a mean"
    verdict, words = REFUSED, "the loss is one number for"
    note = '`reduction="none"`'

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        return super().losses(parts, batch).mean()


FEATURES = (Clipped(), ClippedValues(), Penalty(), Checkpointed(), Reentrant(), Lbfgs(), Mean())
