"""Feeds of samples: a dataset with numbered samples, or one of streams leased by shard.

A feed is part of the training's state and advances with committed steps only. All members derive it
from the same ballots, so each knows what the others take.
"""

import ctypes
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

from torch import Tensor
from torch.utils.data import default_collate

from muster.runtime.data.fingerprint import Fingerprint
from muster.runtime.data.leases import ShardLeases, ShardReader
from muster.runtime.data.loader import BatchSource
from muster.runtime.data.samples import Order, Position, cut
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import Vote

NO_SAMPLES = 2
"""Rows of the stand-in batch of a worker with an empty share: BatchNorm needs two."""
LEASES_EACH = 2
"""A worker continues in its second shard when the first ends within a step."""
EXACT = 1 << 24
"""Largest integer that is exact in a float32 ballot."""


_log = logging.getLogger("muster")


@dataclass(frozen=True, slots=True)
class StepPart:
    """One task's samples of a step."""

    first: int
    count: int
    total: int
    """Samples of the whole step, as known at its beginning."""
    finished: int = 0
    far: int = 0
    """Of leased shards: see `leases.Taken`."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What workers compare of a step's samples, which all must have drawn alike."""

    checksum: int = 0
    """Of ids or contents; 0: each worker has its own."""
    sketch: float = 0.0
    """Of fractions: see `fingerprint.py`."""


def checksum(content: bytes) -> int:
    """Return a number other than 0 that a float32 ballot holds exactly."""
    return crc32(content) % (EXACT - 1) + 1


class Feed(Protocol):
    """Samples for every member, step by step."""

    batch: int
    seed: int
    samples: int
    """Per epoch; 0: unknown."""
    least: int = 1
    """Samples a worker gets at least, if it gets any."""

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        """Return a worker's samples of the step at a position."""

    def load(self, position: Position, part: StepPart) -> Any:
        """Load them as a batch; a stand-in for none."""

    def total(self, position: Position) -> int:
        """Return the samples of the step at a position, as known before it."""

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        """Return the position after a committed step."""

    def use(self, batch: int) -> None:
        """Take steps of another batch from the next one on."""
        self.batch = batch

    def staff(self, tasks: Sequence[str]) -> None:
        """Set the workers that take samples; others are gone."""
        return

    def value(self) -> Any:
        """Return what a joiner or a checkpoint needs besides the position."""
        return None

    def restore(self, value: Any, alive: bool) -> None:
        """Restore such a value; `alive`: its workers still run."""
        return

    def example(self) -> Any:
        """Return a tiny batch."""

    def drawn(self, position: Position) -> Drawn:
        """Return what workers compare of a step's samples, over all workers."""
        return Drawn()

    def fingerprint(self) -> Fingerprint:
        """Return what members compare of their datasets."""
        return Fingerprint()

    def close(self) -> None:
        """End the feed's threads."""
        return


class Indexed(Feed):
    """A dataset with `len()` and `dataset[i]`: every sample exactly once per epoch, or as often as its
    sampler says."""

    def __init__(
        self,
        order: Order,
        source: BatchSource,
        ends: Callable[[Position], bool],
        found: Fingerprint | None = None,
    ) -> None:
        """`found`: the dataset's fingerprint, if it is known."""
        self._order, self._source, self._ends, self._found = order, source, ends, found
        self.batch, self.seed, self.samples = order.batch, order.seed, order.count
        self._mine: tuple[Sequence[int], int] | None = None
        """Shares and rank of the last step, which the next will probably have."""

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        self._mine = shares, rank
        total = self._order.size(position)
        return StepPart(*cut(total, shares, self.least)[rank], total)

    def load(self, position: Position, part: StepPart) -> Any:
        ids = self._order.ids(position)
        mine = ids[part.first : part.first + part.count] if part.count else _stand_in(ids)
        batch = self._source.load(mine, position.epoch)
        if part.count:
            self._expect(position)
        return batch

    def _expect(self, position: Position) -> None:
        """Have the following steps loaded ahead."""
        shares, rank = self._mine or ((1,), 0)
        for _ in range(self._source.depth):
            position = self._order.after(position)
            if self._ends(position):
                return
            ids = self._order.ids(position)
            first, count = cut(len(ids), shares, self.least)[rank]
            self._source.expect(ids[first : first + count], position.epoch)

    def total(self, position: Position) -> int:
        return self._order.size(position)

    def use(self, batch: int) -> None:
        self.batch = self._order.batch = batch

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        return self._order.after(position)

    def example(self) -> Any:
        return self._source.load(_stand_in(self._order.ids(Position())))

    def drawn(self, position: Position) -> Drawn:
        ids = self._order.ids(position).contiguous()
        return Drawn(checksum(ctypes.string_at(ids.data_ptr(), 8 * len(ids))))

    def fingerprint(self) -> Fingerprint:
        if self._found is None:
            self._found = self._source.fingerprint()
        return self._found

    def close(self) -> None:
        self._source.close()


def _stand_in(ids: Tensor) -> Tensor:
    """Return ids for a worker without samples."""
    return ids.repeat(NO_SAMPLES)[:NO_SAMPLES]


class Leased(Feed):
    """A dataset of streams (`shards()`, `shard(i)`): every sample at least once per epoch."""

    def __init__(
        self, dataset: Any, batch: int, seed: int, epochs: int | None, collate: Any = None
    ) -> None:
        self._shards, self._collate = ShardReader(dataset), collate or default_collate
        self._leases = ShardLeases(self._shards.count, seed, epochs, self._shards.repeatable)
        self.batch, self.seed, self.samples = batch, seed, 0
        self._taken: list[Any] = []
        self._speaks = self._warned = False
        """Whether this worker is the first one; whether it has said that there are too few shards."""
        self._few: list[Any] = []
        """Samples of the stand-in batch."""
        self._empty = True
        """No sample was seen yet."""

    def part(self, position: Position, shares: Sequence[int], rank: int, task: str) -> StepPart:
        self._speaks = rank == 0
        if self._shards.count < len(shares) and self._speaks and not self._warned:
            self._warned = True
            _log.warning(
                "the dataset has %d shards for %d workers: some get no samples, and steps are smaller "
                "than the global batch; cut the data into more shards", self._shards.count, len(shares),
            )  # fmt: skip
        holds = LEASES_EACH if self._leases.has_more else 0
        taken = self._shards.take_enough(self._leases.of(task), shares[rank], self.least, holds)
        if taken.left_out:
            _log.warning(
                "%s leaves out %d sample: it is the last of its shards, and BatchNorm needs %d at once",
                task, taken.left_out, self.least,
            )  # fmt: skip
        if taken.far >= EXACT:
            raise BadTrainingError(f"a shard has more than {EXACT} samples: cut the dataset finer")
        self._taken = taken.samples
        return StepPart(0, len(taken.samples), self.batch, taken.finished, taken.far)

    def load(self, position: Position, part: StepPart) -> Any:
        return self._collate(self._taken) if part.count else self.example()

    def total(self, position: Position) -> int:
        return self.batch

    def after(self, position: Position, tasks: Sequence[str], votes: Sequence[Vote]) -> Position:
        for task, vote in zip(tasks, votes, strict=False):
            self._leases = self._leases.commit(task, int(vote.finished), int(vote.far))
        self.staff([task for task, vote in zip(tasks, votes, strict=False) if vote.able])
        epoch = self._leases.epoch
        seen = int(sum(vote.samples for vote in votes))
        self._empty = self._empty and not seen
        if self._empty and epoch > position.epoch:
            raise BadTrainingError("all shards of the dataset are empty: there is nothing to train on")
        cursor = position.cursor + seen if epoch == position.epoch else 0
        return Position(epoch, cursor, position.step + 1, position.seen + seen)

    def staff(self, tasks: Sequence[str]) -> None:
        """Return the leases of others and grant new ones."""
        gone = {lease.holder for lease in self._leases.held} - set(tasks)
        self._tell_repeats(gone)
        self._leases = self._leases.lost(gone).grant(tasks, LEASES_EACH)

    def _tell_repeats(self, gone: set[str]) -> None:
        """Say which samples will be seen again."""
        begun = [lease for lease in self._leases.held if lease.holder in gone and lease.far]
        if begun and self._speaks and not self._shards.repeatable:
            _log.warning(
                "%s left shard %s unfinished: it starts over, and %d samples are seen again (at least "
                "once; shards with repeatable=True go on where they were)",
                ", ".join(sorted({lease.holder for lease in begun})),
                ", ".join(str(lease.shard) for lease in begun), sum(lease.far for lease in begun),
            )  # fmt: skip

    def value(self) -> Any:
        return self._leases.value()

    def restore(self, value: Any, alive: bool) -> None:
        self._leases, self._empty = ShardLeases.restored(value), False
        if not alive:
            self._leases = self._leases.lost({lease.holder for lease in self._leases.held})

    def example(self) -> Any:
        if not self._few:
            self._few = self._shards.first(NO_SAMPLES)
        return self._collate(self._few)
