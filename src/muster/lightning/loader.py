"""The training's batches for Lightning's loop: as many per epoch as its own loader has.

A step of `accumulate_grad_batches` batches is one step of the runtime. Of each of its batches a worker
has the samples that are in its share: some, all, or none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from muster.integration.entry import entered
from muster.runtime.user.parts import split
from muster.runtime.user.session import Session


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What a worker has of one of the loader's batches."""

    rows: int
    """Its own samples; if 0, what it gets is a stand-in."""
    of: int
    """Samples of the batch, over all workers."""


class FitLoader:
    """Stands for the training's `DataLoader`: yields this worker's samples of each batch."""

    def __init__(self, loader: Any, batches: int, session: Session, update: Callable[[], None]) -> None:
        """`update`: follow the others' update, as a joiner without the whole state."""
        self._loader, self._batches, self._session = loader, batches, session
        self._update = update
        self._steps: Iterator[Any] = iter(())
        self._next: Any = None
        self.part = BatchPart(0, 0)
        """Of the batch that was yielded last."""

    def begin(self) -> None:
        """Join the training; the first batch is loaded, and the state is the others'."""
        self._steps = entered(self._session, self._update)
        self._next = next(self._steps, None)

    def again(self) -> Iterator[Any]:
        """Yield this worker's samples of a step that is redone, batch by batch."""
        return self._batches_of(next(self._steps))

    def end(self) -> None:
        """Commit the last step, and leave after the last checkpoint."""
        self._session.stop()
        for _ in self._steps:
            self._session.skip()  # Lightning has stopped early: the others hear of it with this step

    def __iter__(self) -> Iterator[Any]:
        while True:
            batch, self._next = self._next, None
            batch = next(self._steps, None) if batch is None else batch
            if batch is None:
                return
            yield from self._batches_of(batch)

    def __len__(self) -> int:
        return self._batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def _batches_of(self, batch: Any) -> Iterator[Any]:
        """Yield a step's share in the loader's batches."""
        ctx = self._session
        parts = parts_of(ctx.first, ctx.share, ctx.total, self._loader.batch_size)
        if len(parts) == 1:
            (self.part,) = parts
            yield batch
            return
        found = ctx.cut(batch, [part.rows for part in parts if part.rows])
        for self.part in parts:
            yield next(found) if self.part.rows else split(batch, ctx.share, 0, 1)
        found.close()  # type: ignore[attr-defined]


def parts_of(first: int, share: int, total: int, size: int) -> list[BatchPart]:
    """Return what a share of a step has of its batches: `share` samples from `first` on of `total`."""
    found = []
    for begin in range(0, total, size):
        end = min(begin + size, total)
        rows = min(end, first + share) - max(begin, first)
        found.append(BatchPart(max(0, rows) if share else 0, end - begin))
    return found
