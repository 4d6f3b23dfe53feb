"""State of one's own, and what changes while it trains."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from tests.matrix.feature import (
    BATCH,
    CLASSES,
    COUNT,
    WIDTH,
    Backward,
    Feature,
    Parts,
    Result,
    mean_backward,
)
from tests.matrix.order import batches


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


class Shampoo(torch.optim.Optimizer):
    """A full-matrix preconditioner for each dimension, in a list, as SOAP and Shampoo have them."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                p -= group["lr"] * self._direction(p)

    def _direction(self, p: Tensor) -> Tensor:
        state = self.state[p]
        if not state:
            state["factors"] = [torch.eye(size, device=p.device) for size in p.shape]
        found = p.grad
        for dim, factor in enumerate(state["factors"]):
            rows = p.grad.movedim(dim, 0).reshape(len(factor), -1)
            factor += rows @ rows.T
            values, vectors = torch.linalg.eigh(factor)
            root = vectors @ torch.diag(values ** (-1 / (2 * p.dim()))) @ vectors.T
            found = torch.tensordot(found, root, dims=([0], [0]))
        return found


class Lists(Feature):
    title = "an optimiser with lists of matrices (Shampoo, SOAP)"

    def optimizer(self, model: Any) -> Any:
        return Shampoo(model.parameters(), lr=0.05)


class Resumed(Feature):
    title = "own resume from own files"
    note = "`ctx.start_at(step=...)`"
    done = 5

    def wrap(self, ctx: Any, parts: Parts) -> None:
        before = self.build()  # an earlier run, that saved as people do
        self.plain(before, self.done)
        file = BytesIO()
        torch.save([before.model.state_dict(), before.optimizer.state_dict()], file)
        file.seek(0)
        for thing, state in zip((parts.model, parts.optimizer), torch.load(file), strict=True):
            thing.load_state_dict(state)
        super().wrap(ctx, parts)
        ctx.start_at(step=self.done)


class Patience:
    """Says when a loss has not fallen for three evaluations."""

    def __init__(self) -> None:
        self.best, self.since = torch.inf, 0

    def is_spent(self, loss: float) -> bool:
        better = loss < self.best - 2e-3
        self.best, self.since = (loss, 0) if better else (self.best, self.since + 1)
        return self.since == 3

    def state_dict(self) -> dict[str, float]:
        return {"best": self.best, "since": self.since}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.best, self.since = state["best"], int(state["since"])


class Stopped(Evaluated):
    title = "early stopping, the last checkpoint written"
    note = "`ctx.epochs()`, `ctx.evaluate`, `ctx.stop()`, `ctx.keep(patience=...)`"
    ends = True

    def build(self) -> Parts:
        parts = super().build()
        parts.more["patience"] = Patience()
        return parts

    def optimizer(self, model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.06)

    def wrap(self, ctx: Any, parts: Parts) -> None:
        super().wrap(ctx, parts)
        ctx.keep(patience=parts.more["patience"])
        ctx.checkpoint(str(parts.folder / "saved"), every=100)

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for _ in ctx.epochs():
            for batch in ctx.steps():
                pace()
                self.body(parts, batch, ctx.backward, ctx.step)
            loss = ctx.evaluate(parts.data, batch=7, metric=self.metric)
            if parts.more["patience"].is_spent(loss):
                ctx.stop()
        parts.more["steps"] = ctx.step

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        for step, batch in enumerate(batches(parts.data, self.options(), 10_000, seed), start=1):
            self.body(parts, batch, mean_backward, step)
            if step * BATCH % COUNT == 0:
                with torch.no_grad():
                    loss = float(self.metric(parts.model, *parts.data[:]).mean())
                if parts.more["patience"].is_spent(loss):
                    break
        parts.more["plain"], parts.more["steps"] = True, step

    def result(self, parts: Parts) -> Result:
        model = parts.model.state_dict()
        if "plain" not in parts.more:
            last = max((parts.folder / "saved").glob("step-*.pt"))
            model = torch.load(last)["model"]
        steps = torch.tensor(float(parts.more["steps"]))
        return {
            **Feature.result(self, parts),
            **{f"saved.{k}": v for k, v in model.items()},
            "n": steps,
        }


FEATURES = (
    Averaged(), Unfrozen(), Evaluated(), Sparse(), Lists(), Resumed(), Stopped(),
)  # fmt: skip
