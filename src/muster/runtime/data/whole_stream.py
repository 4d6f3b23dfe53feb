"""A stream without shards: every worker reads all of it, and keeps its part of each step.

Exactly once, if the stream yields the same samples on every worker. Generators are seeded by (seed,
epoch) when it is opened and are its own while it is read, and workers compare a step's first sample.
Reading is not divided, so this is for streams that cost little to read.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from torch.utils.data import default_collate

from muster.runtime.data.feed import NO_SAMPLES, Drawn, Feed, StepPart, checksum
from muster.runtime.data.fingerprint import Sketch
from muster.runtime.data.randomness import (
    generator_states,
    generators_kept,
    seed_generators,
    set_generator_states,
)
from muster.runtime.data.reader import Collate, told
from muster.runtime.data.samples import Position, cut, mixed_seed
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import Vote


class WholeStream(Feed):
    """Samples of a stream, of which each worker keeps its own."""

    def __init__(
        self,
        dataset: Any,
        batch: int,
        seed: int = 0,
        drop_last: bool = False,
        collate: Collate | None = None,
    ) -> None:
        self._dataset, self._least = dataset, batch if drop_last else 1
        self._collate = collate or default_collate
        self.batch, self.seed, self.samples = batch, seed, 0
        self._reading: _Reading | None = None

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        total = self.total(position)
        return StepPart(*cut(total, shares)[rank], total)

    def load(self, position: Position, part: StepPart) -> Any:
        step = self._step(position)
        mine = step[part.first : part.first + part.count]
        return self._collate(mine or (step * NO_SAMPLES)[:NO_SAMPLES])

    def total(self, position: Position) -> int:
        return len(self._step(position))

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        total = self.total(position)
        rest = self._samples(position.epoch, position.cursor + total, self._least)
        return position.after(total, len(rest) < self._least)

    def example(self) -> Any:
        return self._collate((self._step(Position()) * NO_SAMPLES)[:NO_SAMPLES])

    def drawn(self, position: Position) -> Drawn:
        sketch = Sketch()
        sketch.add(self._step(position)[0])
        return Drawn(checksum(sketch.exact.to_bytes(6, "little")), sketch.value)

    def _step(self, position: Position) -> list[Any]:
        """Return the samples of the step at a position, over all workers."""
        step = self._samples(position.epoch, position.cursor, self.batch)
        if len(step) < self._least:
            raise BadTrainingError(
                f"the stream ends at sample {position.cursor + len(step)} of epoch {position.epoch}, "
                f"and a step at {position.cursor} needs {self._least}: empty, or shorter than before"
            )
        if self._reading is not None:
            self._reading.forget(position.cursor)
        return step

    def _samples(self, epoch: int, first: int, count: int) -> list[Any]:
        """Return up to `count` samples of an epoch from the first on."""
        reading = self._reading
        if reading is None or reading.epoch != epoch or reading.base > first:
            reading = self._reading = _Reading(self._dataset, epoch, mixed_seed(self.seed, epoch))
        return reading.samples(first, count)


class _Reading:
    """One epoch's stream, with random generators of its own."""

    def __init__(self, dataset: Any, epoch: int, seed: int) -> None:
        self.epoch, self.base = epoch, 0
        self._kept: list[Any] = []
        """The samples from `base` on that were read."""
        with generators_kept():
            seed_generators(seed)
            if hasattr(dataset, "set_epoch"):
                dataset.set_epoch(epoch)
            self._source = iter(dataset)
            self._states = generator_states()

    def samples(self, first: int, count: int) -> list[Any]:
        """Return up to `count` samples from the first on."""
        if self.base + len(self._kept) < first + count:
            self._read_to(first, first + count)
        return self._kept[first - self.base : first - self.base + count]

    def forget(self, before: int) -> None:
        """Drop samples of steps that are done."""
        del self._kept[: before - self.base]
        self.base = before

    def _read_to(self, first: int, end: int) -> None:
        with generators_kept():
            set_generator_states(self._states)
            try:
                while self.base + len(self._kept) < first:  # what others have done is not kept
                    next(self._source)
                    self.base += 1
                    self._kept.clear()
                self._kept += islice(self._source, end - self.base - len(self._kept))
            except StopIteration:
                pass
            except Exception as problem:
                raise BadTrainingError(
                    f"the stream could not be read after sample {self.base + len(self._kept)} of epoch "
                    f"{self.epoch}: {told(problem)}"
                ) from problem
            self._states = generator_states()
