"""Where samples come from: a dataset with numbered samples, or one of streams that are leased by shard.

A feed is a part of the training's state and moves with committed steps only. All members derive it from
the same ballots, so each knows what every other takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from torch.utils.data import default_collate

from muster.runtime.data.leases import ShardLeases, ShardReader
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order, Position, cut
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import Vote

NO_SAMPLES = 2
"""Rows of the stand-in batch of a worker whose share is empty: BatchNorm cannot bear one."""
LEASES_EACH = 2
"""A worker reads on in its second shard where the first one ends within a step."""
EXACT = 1 << 24
"""Whole numbers up to this survive a float32 ballot."""


@dataclass(frozen=True, slots=True)
class StepPart:
    """One task's part of a step."""

    first: int
    count: int
    total: int
    """Samples of the whole step, as far as is known when it begins."""
    finished: int = 0
    far: int = 0
    """Of leased shards: see `leases.Taken`."""


class Feed(Protocol):
    """Samples for every member, step by step."""

    batch: int
    seed: int
    samples: int
    """Of an epoch; 0 where nobody knows."""

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        """What a worker takes in the step at a position."""

    def load(self, position: Position, part: StepPart) -> Any:
        """That part as a batch; of none, a stand-in."""

    def total(self, position: Position) -> int:
        """Samples of the step at a position, as far as is known before it."""

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        """A step is committed: where the training stands then."""

    def staff(self, tasks: Sequence[str]) -> None:
        """Workers that take samples from now on; others are gone."""

    def value(self) -> Any:
        """What a joiner or a checkpoint needs besides the position."""

    def restore(self, value: Any, alive: bool) -> None:
        """Take that over; `alive`: its workers still are."""

    def example(self) -> Any:
        """A tiny batch."""

    def close(self) -> None:
        """No more."""


class Indexed:
    """A dataset with `len()` and `dataset[i]`: one order, one cursor, every sample exactly once."""

    def __init__(self, order: Order, loader: Loader, ends: Callable[[Position], bool]) -> None:
        self._order, self._loader, self._ends = order, loader, ends
        self.batch, self.seed, self.samples = order.batch, order.seed, order.count

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        """A slice of the step's samples."""
        total = self._order.size(position)
        return StepPart(*cut(total, shares)[rank], total)

    def load(self, position: Position, part: StepPart) -> Any:
        """Load the slice, and begin with the next step's."""
        ids = self._order.ids(position)
        mine = _slice(ids, part) if part.count else ids[:NO_SAMPLES]
        batch = self._loader.load(mine, position.epoch)
        following = self._order.after(position)
        if part.count and not self._ends(following) and self._order.size(following) == part.total:
            self._loader.expect(_slice(self._order.ids(following), part))
        return batch

    def total(self, position: Position) -> int:
        """The global batch, and less at the end of an epoch."""
        return self._order.size(position)

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        """The cursor moves on."""
        return self._order.after(position)

    def staff(self, tasks: Sequence[str]) -> None:
        """Any set of workers will do."""

    def value(self) -> Any:
        """The position says it all."""
        return None

    def restore(self, value: Any, alive: bool) -> None:
        """The position says it all."""

    def example(self) -> Any:
        """The first samples."""
        return self._loader.load(list(range(min(NO_SAMPLES, self._order.count))))

    def close(self) -> None:
        """End the loader's threads."""
        self._loader.close()


class Leased:
    """A dataset of streams (`shards()`, `shard(i)`): every sample at least once in an epoch."""

    def __init__(
        self, dataset: Any, batch: int, seed: int, epochs: int | None, collate: Any = None
    ) -> None:
        self._shards, self._collate = ShardReader(dataset), collate or default_collate
        self._leases = ShardLeases(self._shards.count, seed, epochs, self._shards.repeatable)
        self.batch, self.seed, self.samples = batch, seed, 0
        self._taken: list[Any] = []

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        """The next samples of this worker's leases: as many as its share, or what is left of them."""
        taken = self._shards.take(self._leases.of(task), shares[rank])
        if taken.far >= EXACT:
            raise BadTrainingError(f"a shard has more than {EXACT} samples: cut the dataset finer")
        self._taken = taken.samples
        return StepPart(0, len(taken.samples), self.batch, taken.finished, taken.far)

    def load(self, position: Position, part: StepPart) -> Any:
        """Put them together."""
        return self._collate(self._taken) if part.count else self.example()

    def total(self, position: Position) -> int:
        """The global batch; the ballots say how many there were."""
        return self.batch

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        """Leases get farther, and new ones are granted."""
        for task, vote in zip(tasks, votes, strict=False):
            self._leases = self._leases.commit(task, int(vote.finished), int(vote.far))
        self.staff([task for task, vote in zip(tasks, votes, strict=False) if vote.able])
        epoch = self._leases.epoch
        seen = int(sum(vote.samples for vote in votes))
        cursor = position.cursor + seen if epoch == position.epoch else 0
        return Position(epoch, cursor, position.step + 1)

    def staff(self, tasks: Sequence[str]) -> None:
        """What others held is given back; everybody here gets leases."""
        gone = {lease.holder for lease in self._leases.held} - set(tasks)
        self._leases = self._leases.lost(gone).grant(tasks, LEASES_EACH)

    def value(self) -> Any:
        """Who holds what."""
        return self._leases.value()

    def restore(self, value: Any, alive: bool) -> None:
        """Take the leases over; those of an earlier run are nobody's."""
        self._leases = ShardLeases.restored(value)
        if not alive:
            self._leases = self._leases.lost({lease.holder for lease in self._leases.held})

    def example(self) -> Any:
        """The first samples of the first shard."""
        stream = iter(self._shards.open(0))
        samples = [sample for _, sample in zip(range(NO_SAMPLES), stream, strict=False)]
        return self._collate(samples)

    def close(self) -> None:
        """Nothing runs."""


def _slice(ids: Tensor, part: StepPart) -> Tensor:
    return ids[part.first : part.first + part.count]
