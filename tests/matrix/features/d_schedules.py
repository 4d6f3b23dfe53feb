"""Rates that change while it trains."""

from typing import Any

import torch

from tests.matrix.feature import Backward, Feature, Parts


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


FEATURES = (Scheduled(), Lambda(), ByHand())
