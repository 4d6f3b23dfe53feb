"""Iterable datasets: shards are leased to workers, and every sample is seen at least once per epoch.

A stream has no global cursor, so whole shards are handed out; if a worker is lost, another starts its
shard over. Shards of a dataset with `repeatable = True` always yield the same samples in the same
order, so the other worker continues after the last committed step: exactly once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from hashlib import blake2b
from itertools import islice
from typing import Any

from muster.runtime.data.reader import told
from muster.runtime.errors import BadTrainingError

Opened = Callable[[int, int], Iterable[Any]]
"""Opens a shard in an epoch."""


@dataclass(frozen=True, slots=True)
class ShardLease:
    """Lets a worker read a shard in an epoch; `far` samples of it are committed."""

    epoch: int
    shard: int
    holder: str
    far: int = 0


@dataclass(frozen=True, slots=True)
class ShardLeases:
    """Who reads which shard, derived by every rank from the same ballots.

    Shards are granted in one order; those granted and neither held nor returned are done.
    """

    shards: int
    seed: int = 0
    epochs: int | None = None
    """None: endless."""
    repeatable: bool = False
    """Whether shards always yield the same samples in the same order."""
    granted: int = 0
    """First grants so far, over all epochs."""
    held: tuple[ShardLease, ...] = ()
    """In the order granted, which is the order their holders read them in."""
    back: tuple[ShardLease, ...] = ()
    """Returned unfinished, granted next; `holder` is the previous one."""

    @property
    def epoch(self) -> int:
        """The first epoch with an unfinished shard."""
        unfinished = [lease.epoch for lease in (*self.held, *self.back)]
        return min([*unfinished, self.granted // self.shards])

    @property
    def has_more(self) -> bool:
        """Whether more can be granted."""
        return bool(self.back) or self.epochs is None or self.granted < self.shards * self.epochs

    def of(self, task: str) -> tuple[ShardLease, ...]:
        """Return a worker's leases in reading order."""
        return tuple(lease for lease in self.held if lease.holder == task)

    def grant(self, tasks: Sequence[str], each: int) -> "ShardLeases":
        """Grant leases to workers with fewer than `each`: a first to all before a second to any.

        Continues with the next epoch when one is used up: nobody waits for the slowest shard.
        """
        leases = self
        for count in range(1, each + 1):
            for task in tasks:
                if len(leases.of(task)) < count:
                    leases = leases._granted_to(task)
        return leases

    def commit(self, task: str, finished: int, far: int) -> "ShardLeases":
        """Commit a worker's step: `finished` leases, and `far` samples of the next."""
        mine = self.of(task)
        done, current = mine[:finished], mine[finished : finished + 1]
        if len(done) < finished or (far and not current):
            raise ValueError(
                f"{task} holds {len(mine)} leases: it cannot have finished {finished} and more"
            )
        read = {lease: replace(lease, far=far) for lease in current if far > lease.far}
        held = tuple(read.get(lease, lease) for lease in self.held if lease not in done)
        return replace(self, held=held)

    def lost(self, tasks: Iterable[str]) -> "ShardLeases":
        """Take back the leases of lost workers."""
        gone = set(tasks)
        leases = [lease for lease in self.held if lease.holder in gone]
        held = tuple(lease for lease in self.held if lease not in leases)
        if not self.repeatable:
            leases = [replace(lease, far=0) for lease in leases]
        # Old epochs first: they hold up the end of an epoch.
        back = tuple(sorted((*self.back, *leases), key=lambda lease: (lease.epoch, lease.shard)))
        return replace(self, held=held, back=back)

    def value(self) -> dict[str, Any]:
        """Return plain numbers, text and lists, for a checkpoint or a joiner."""
        held, back = ([list(astuple(lease)) for lease in part] for part in (self.held, self.back))
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "held": held, "back": back}

    @staticmethod
    def restored(value: Mapping[str, Any]) -> "ShardLeases":
        """Restore from `value()`."""
        # Checkpoints of 0.1.0 have a fifth number.
        held, back = (tuple(ShardLease(*lease[:4]) for lease in value[key]) for key in ("held", "back"))
        return ShardLeases(**{**value, "held": held, "back": back})

    def _granted_to(self, task: str) -> "ShardLeases":
        if self.back:
            lease = replace(self.back[0], holder=task)
            return replace(self, held=(*self.held, lease), back=self.back[1:])
        epoch, place = divmod(self.granted, self.shards)
        if self.epochs is not None and epoch >= self.epochs:
            return self
        lease = ShardLease(epoch, _order(self.shards, self.seed, epoch)[place], task)
        return replace(self, held=(*self.held, lease), granted=self.granted + 1)


@dataclass(frozen=True, slots=True)
class Taken:
    """A worker's samples of a step, and its ballot's words on its leases (see `commit`)."""

    samples: list[Any]
    finished: int
    far: int
    left_out: int = 0
    """Samples that nobody gets: too few to learn from."""


class ShardReader:
    """Reads a dataset with `shards() -> int` and `shard(i) -> Iterator` of samples."""

    def __init__(self, dataset: Any) -> None:
        epochs = hasattr(dataset, "shard_in_epoch")
        needed = ("shards",) if epochs else ("shards", "shard")
        missing = [name for name in needed if not callable(getattr(dataset, name, None))]
        if missing:
            raise BadTrainingError(
                f"an iterable dataset must offer shards() -> int and shard(i) -> iterator: "
                f"{type(dataset).__name__} has no {' and no '.join(missing)}"
            )
        self.count = int(dataset.shards())
        if self.count < 1:
            raise BadTrainingError(f"the dataset has {self.count} shards: it must have at least 1")
        self.repeatable = bool(getattr(dataset, "repeatable", False))
        self._open: Opened = dataset.shard_in_epoch if epochs else lambda shard, _: dataset.shard(shard)
        self._streams: dict[tuple[int, int], _Stream] = {}

    def open(self, shard: int, epoch: int = 0) -> Iterator[Any]:
        """Return the samples of a shard."""
        return iter(self._open(shard, epoch))

    def first(self, count: int) -> list[Any]:
        """Return samples of the first shard that has any, as often as it takes."""
        for shard in range(self.count):
            found = list(islice(self.open(shard), count))
            if found:
                return (found * count)[:count]
        raise BadTrainingError("all shards of the dataset are empty: there is nothing to train on")

    def take(self, leases: Sequence[ShardLease], count: int) -> Taken:
        """Return up to `count` next samples of these leases; fewer if the leases end.

        Idempotent: the same leases yield the same samples again after a lost step.
        """
        kept = {(lease.epoch, lease.shard) for lease in leases}
        self._streams = {key: stream for key, stream in self._streams.items() if key in kept}
        samples: list[Any] = []
        for finished, lease in enumerate(leases):
            stream = self._stream(lease)
            part, ended = stream.next(count - len(samples), lease.far)
            samples += part
            if not ended:
                return Taken(samples, finished, lease.far + len(part))
        return Taken(samples, len(leases), 0)

    def take_enough(self, leases: Sequence[ShardLease], count: int, least: int, holds: int) -> Taken:
        """Return about `count` samples: none, or `least` at the least.

        BatchNorm cannot learn from a single sample. One that is left over waits for the next lease,
        if there will be one: `holds` leases in the next step. At the end it would stay alone, so that
        the step before takes one less or more.
        """
        count = max(count, least) if count else 0
        if not holds and 1 < least <= count:
            rest = self.take(leases, count + least - 1)
            if rest.finished == len(leases) and count < len(rest.samples):
                count = len(rest.samples) if count < 2 * least else count - least + 1
        taken = self.take(leases, count)
        few = len(taken.samples)
        if few == 0 or few >= least:
            return taken
        later = self._put_off(leases)
        return later if len(leases) - later.finished < holds else Taken([], len(leases), 0, few)

    def _put_off(self, leases: Sequence[ShardLease]) -> Taken:
        """Return no samples: leases without any are done, the others wait."""
        for finished, lease in enumerate(leases):
            if not self._stream(lease).next(0, lease.far)[1]:
                return Taken([], finished, lease.far)
        return Taken([], len(leases), 0)

    def _stream(self, lease: ShardLease) -> "_Stream":
        key = lease.epoch, lease.shard
        if key not in self._streams or self._streams[key].base > lease.far:
            self._streams[key] = _Stream(self.open, *key, lease.far)
        return self._streams[key]


@dataclass(slots=True)
class _Stream:
    """One open shard; keeps what was read but is not committed."""

    open: "Opened"
    epoch: int
    shard: int
    base: int
    """Samples before the first kept one."""
    kept: deque[Any] = field(default_factory=deque)
    source: Iterator[Any] | None = None

    def next(self, count: int, far: int) -> tuple[list[Any], bool]:
        """Return samples after the first `far`, and whether they are the last."""
        for _ in range(min(far - self.base, len(self.kept))):
            self.kept.popleft()
        self.base = far
        # One more than needed: that is how the end is known.
        while len(self.kept) <= count:
            try:
                self.kept.append(self._read())
            except StopIteration:
                return list(self.kept), True
        return list(islice(self.kept, count)), False

    def _read(self) -> Any:
        try:
            if self.source is None:
                self.source = iter(self.open(self.shard, self.epoch))
                next(islice(self.source, self.base, self.base), None)  # skip committed samples
            return next(self.source)
        except StopIteration:
            raise
        except Exception as problem:
            raise BadTrainingError(
                f"shard {self.shard} of the dataset could not be read after sample "
                f"{self.base + len(self.kept)}: {told(problem)}"
            ) from problem


def _order(shards: int, seed: int, epoch: int) -> list[int]:
    """Return the order in which an epoch's shards are granted."""
    words = [repr((seed, epoch, shard)).encode() for shard in range(shards)]
    return sorted(range(shards), key=lambda shard: blake2b(words[shard], digest_size=8).digest())
