"""Rates that change while it trains."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.matrix.feature import Backward, Feature, Parts, Result


class Scheduled(Feature):
    title = "warm-up and cosine schedule"
    note = "`ctx.wrap(model, optimizer, schedule)`"

    def build(self) -> Parts:
        parts = super().build()
        parts.more["schedule"] = self.schedule(parts.optimizer)
        return parts

    def schedule(self, optimizer: Any) -> Any:
        kinds = torch.optim.lr_scheduler
        warm = kinds.LinearLR(optimizer, 0.1, total_iters=5)
        cosine = kinds.CosineAnnealingLR(optimizer, 40)
        return kinds.SequentialLR(optimizer, [warm, cosine], [5])

    def wrap(self, ctx: Any, parts: Parts) -> None:
        ctx.wrap(parts.model, parts.optimizer, parts.more["schedule"])

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        super().body(parts, batch, backward, step)
        parts.more["schedule"].step()


class Lambda(Scheduled):
    title = "one-cycle schedule with momentum"

    def schedule(self, optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=10_000)


class ByHand(Feature):
    title = "rate set by hand from `ctx.step`"

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        for group in parts.optimizer.param_groups:
            group["lr"] = 0.1 / (1 + step)
        super().body(parts, batch, backward, step)


class Plateau(Scheduled):
    """Its step is at the top of the loop, which runs twice if a worker is lost."""

    title = "`ReduceLROnPlateau`"
    note = "`schedule.step(ctx.evaluate(...))`"

    def schedule(self, optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.8, patience=1)

    def metric(self, model: Any, x: Tensor, y: Tensor) -> Tensor:
        # What the model never sees: it gets worse soon.
        return functional.cross_entropy(model(-x), y, reduction="none")

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            if ctx.step % 2 == 0:
                found = ctx.evaluate(parts.data, batch=7, metric=self.metric)
                parts.more["schedule"].step(found)
            Feature.body(self, parts, batch, ctx.backward, ctx.step)

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        if step % 2 == 0:
            with torch.no_grad():
                parts.more["schedule"].step(float(self.metric(parts.model, *parts.data[:]).mean()))
        Feature.body(self, parts, batch, backward, step)

    def result(self, parts: Parts) -> Result:
        rate = torch.tensor(parts.optimizer.param_groups[0]["lr"])
        return {**super().result(parts), "rate": rate}


FEATURES = (Scheduled(), Lambda(), ByHand(), Plateau())
