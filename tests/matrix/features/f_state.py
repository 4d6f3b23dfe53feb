"""State of one's own, and what changes while it trains."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.matrix.feature import CLASSES, WIDTH, Backward, Feature, Parts, Result


class Averaged(Feature):
    title = "EMA of the weights"
    note = "`ctx.keep(ema=ema)`, updated `if ctx.applied`"

    def build(self) -> Parts:
        parts = super().build()
        parts.more["ema"] = AveragedModel(parts.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        return parts

    def wrap(self, ctx: Any, parts: Parts) -> None:
        super().wrap(ctx, parts)
        ctx.keep(ema=parts.more["ema"])

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            super().body(parts, batch, ctx.backward, ctx.step)
            if ctx.applied:
                parts.more["ema"].update_parameters(parts.model)

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        super().body(parts, batch, backward, step)
        parts.more["ema"].update_parameters(parts.model)

    def result(self, parts: Parts) -> Result:
        ema = {f"ema.{name}": t.clone() for name, t in parts.more["ema"].state_dict().items()}
        return {**super().result(parts), **ema}


class Unfrozen(Feature):
    title = "un-freezing a layer midway"
    note = "`requires_grad_(True)` or `ctx.unfreeze(module)`"

    def model(self) -> Any:
        model = super().model()
        model[0].requires_grad_(False)
        return model

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        if step >= 10:
            parts.model[0].requires_grad_(True)
        super().body(parts, batch, backward, step)


class Evaluated(Feature):
    title = "evaluation on all workers"
    note = "`ctx.evaluate(data, metric=...)`"

    def metric(self, model: Any, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x), y, reduction="none")

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            self.body(parts, batch, ctx.backward, ctx.step)
            if ctx.step % 5 == 4:
                ctx.evaluate(parts.data, batch=7, metric=self.metric)
        parts.more["loss"] = ctx.evaluate(parts.data, batch=7, metric=self.metric)

    def result(self, parts: Parts) -> Result:
        loss = parts.more.get("loss")
        if loss is None:
            with torch.no_grad():
                loss = float(self.metric(parts.model, *parts.data[:]).mean())
        return {**super().result(parts), "loss": torch.tensor(loss)}


class Sparse(Feature):
    title = "sparse embeddings"

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, WIDTH, sparse=True)

        def forward(self, x: Tensor) -> Tensor:
            ids = (x[:, :3] * 10).long().clamp(-24, 24) + 25
            return self.embed(ids).sum(1)[:, :CLASSES]

    def model(self) -> Any:
        return self.Model()

    def optimizer(self, model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.5)


FEATURES = (Averaged(), Unfrozen(), Evaluated(), Sparse())
