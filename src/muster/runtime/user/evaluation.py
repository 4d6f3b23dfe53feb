"""Evaluation over all workers: every sample once, whoever is lost meanwhile.

Each worker that holds the state takes a part of the samples by its share of the batch. Then all tell
each other what they have done; what a lost worker had is divided among the survivors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import cut
from muster.runtime.errors import BadTrainingError
from muster.runtime.shape.trace import mapped
from muster.runtime.user.together import Sums, add_sums

Metric = Callable[..., Any]
"""metric(model, *batch): a number for each sample, or a mapping of names to them."""
Span = tuple[int, int]
"""Samples [first, last)."""
Done = list[tuple[int, int, Sums]]
"""Spans with the sums of their samples."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The samples of an evaluation, and how many of them go into a batch."""

    dataset: Any
    batch: int
    collate: Any = None

    @staticmethod
    def of(data: Any, batch: int | None, collate: Any) -> "Evaluated":
        """Check what a user gave; take a DataLoader apart."""
        if isinstance(data, DataLoader):
            data, batch, collate = data.dataset, batch or data.batch_size, collate or data.collate_fn
        if batch is None or batch < 1:
            raise BadTrainingError(
                f"ctx.evaluate() was given batch={batch}: give the samples that a worker takes at once"
            )
        if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
            raise BadTrainingError(
                f"ctx.evaluate() cannot divide a {type(data).__name__} among the workers: give a "
                "dataset with len() and dataset[i], or a DataLoader of one"
            )
        return Evaluated(data, batch, collate)


class Evaluation:
    """One evaluation on one worker."""

    def __init__(
        self,
        models: Sequence[Any],
        data: "Evaluated",
        metric: Metric,
        device: torch.device,
        gathered: Callable[[], AbstractContextManager[None]] | None = None,
    ) -> None:
        """`gathered`: of a model in parts, which all workers use at the same time."""
        self._models, self._metric, self._batch, self._device = models, metric, data.batch, device
        self._gathered = gathered
        self._count = len(data.dataset)
        self._loader = Loader(data.dataset, data.collate, pin=device.type == "cuda")
        self._done: Done = []

    def run(
        self, exchange: Callable[[Any], list[Any]], mine: Callable[[], tuple[Sequence[int], int]]
    ) -> Sums:
        """Evaluate with the others; `mine` returns the workers' shares and this one's rank.

        May be called again after a loss: what this worker has done is kept.
        """
        while True:
            known = sorted((list(each) for part in exchange(self._done) for each in part), key=_first)
            missing = _gaps(known, self._count)
            if not missing:
                total: Sums = {}
                for _, _, sums in known:  # in the order of the samples: the same floats everywhere
                    add_sums(total, sums)
                return total
            shares, rank = mine()
            parts = [_part(missing, shares, each) for each in range(len(shares))]
            with evaluating(self._models):
                if self._gathered is None:
                    self._do(parts[rank])
                    continue
                with self._gathered():
                    self._do(parts[rank])
                    counts = [self._batches(part) for part in parts]
                    for _ in range(max(counts) - counts[rank]):  # for those who have more to do
                        self._sums(0, min(self._batch, self._count), self._count)

    def close(self) -> None:
        """End the loader's thread."""
        self._loader.close()

    def _do(self, spans: list[Span]) -> None:
        for first, last in spans:
            sums: Sums = {}
            for at in range(first, last, self._batch):
                add_sums(sums, self._sums(at, min(at + self._batch, last), last))
            self._done.append((first, last, sums))

    def _batches(self, spans: list[Span]) -> int:
        return sum(-(-(last - first) // self._batch) for first, last in spans)

    def _sums(self, first: int, last: int, end: int) -> Sums:
        loaded = self._loader.load(range(first, last))
        if last < end:
            self._loader.expect(range(last, min(last + self._batch, end)))
        batch = mapped(loaded, lambda tensor: tensor.to(self._device, non_blocking=True))
        found = apply(self._metric, self._models[0], batch)
        named = found if isinstance(found, Mapping) else {"": found}
        return {str(name): _sum_of(str(name), value, last - first) for name, value in named.items()}


def apply(metric: Metric, model: Any, batch: Any) -> Any:
    """Call a criterion as criterion(model(*inputs), target), a function as function(model, *batch)."""
    parts = list(batch) if isinstance(batch, list | tuple) else [batch]
    if isinstance(metric, nn.Module):
        return metric(model(*parts[:-1]), parts[-1])
    return metric(model, *parts)


@contextmanager
def evaluating(models: Sequence[Any]) -> Iterator[None]:
    """Put models into evaluation mode without gradients; restore each module's own mode."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def _sum_of(name: str, value: Any, count: int) -> list[float]:
    """Return sum and weight of a metric: a number for each sample, or a pair of sum and weight."""
    if isinstance(value, tuple) and len(value) == 2:
        return [float(value[0]), float(value[1])]
    if not isinstance(value, Tensor) or value.dim() != 1 or len(value) != count:
        shape = f"shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise BadTrainingError(
            f"the metric{f' {name!r}' if name else ''} has {shape} for {count} samples: return one "
            "number for each of them, or a pair (sum, weight)"
        )
    return [float(value.double().sum()), float(count)]


def _gaps(known: list[Any], count: int) -> list[Span]:
    """Return the samples that nobody has done, as spans."""
    gaps, at = [], 0
    for first, last, _ in known:
        if first > at:
            gaps.append((at, first))
        at = max(at, last)
    return [*gaps, (at, count)] if at < count else gaps


def _part(missing: list[Span], shares: Sequence[int], rank: int) -> list[Span]:
    """Return a worker's part of what is missing, by the shares."""
    first, count = cut(sum(last - first for first, last in missing), shares)[rank]
    part, at = [], 0
    for begin, end in missing:
        low = max(begin, begin + first - at)
        high = min(end, begin + first + count - at)
        if low < high:
            part.append((low, high))
        at += end - begin
    return part


def _first(span: list[Any]) -> int:
    return int(span[0])
