"""Several models, optimisers and backward passes: as in `tests/runtime/scripts/features.py`."""

from collections.abc import Callable
from typing import Any

import torch

from tests.matrix.feature import Feature, Parts, Result
from tests.matrix.order import batches
from tests.runtime.scripts import features, tasks


class Adopted(Feature):
    """A training that other tests have, too."""

    def __init__(self, name: str, title: str, note: str = "") -> None:
        self.title, self.note = title, note
        self._name = name

    def begin(self) -> None:
        features.elastic = True

    def build(self) -> Parts:
        torch.manual_seed(7)
        self._made = features.FEATURES[self._name]()
        model, optimizer = self._made.models[0]
        return Parts(model, optimizer, self._made.data)

    def options(self) -> dict[str, Any]:
        return {"global_batch": tasks.BATCH, **self._made.options}

    def wrap(self, ctx: Any, parts: Parts) -> None:
        for model, optimizer in self._made.models:
            ctx.wrap(model, optimizer)

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            self._made.step(ctx, batch)

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        ctx = features.Plain(steps)
        whole = {"global_batch": tasks.BATCH}
        for ctx.step, batch in enumerate(batches(self._made.data, whole, steps, seed)):
            ctx.total = ctx.share = len(batch[0])
            self._made.step(ctx, batch)

    def result(self, parts: Parts) -> Result:
        return self._made.result()


FEATURES = (
    Adopted("gan", "GAN: two models in turns", "`ctx.backward(losses, optimizer=...)`"),
    Adopted("two_optimizers", "two optimisers on one model", "`ctx.wrap(model, [sgd, adamw])`"),
    Adopted("loose", "learnt loss weights outside the model, a frozen teacher"),
    Adopted("two_losses", "two backward passes before one update"),
    Adopted("weighted", "token means and class weights", "`ctx.backward(losses, weight=...)`"),
    Adopted("micro", "micro-batches", "`micro_batch=3` and `ctx.parts(batch)`"),
    Adopted("sync_batchnorm", "SyncBatchNorm"),
    Adopted("contrastive", "contrastive loss over the whole batch", "`ctx.gather(rows)`"),
    Adopted("skipped", "updates left out", "`ctx.skip()`"),
    Adopted("scaled", "`GradScaler` with overflows", "`ctx.backward(losses, scaler=...)`"),
)
