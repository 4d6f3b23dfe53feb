"""Iterable datasets: shards are leased to workers, and every sample is seen at least once in an epoch.

A stream cannot be cut by a global cursor. Its shards are therefore handed out: a worker that holds a
lease reads the shard from begin to end, and when it is gone another reads it from the begin: at least
once. A dataset whose shards give the same samples in the same order every time may say so, by
`repeatable = True`: the other then goes on where the last committed step stood, and it is exactly once.

`ShardLeases` is a value of the training's state: every rank derives the next one from the same ballots.
`ShardReader` reads, in each worker, what its leases entitle it to.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from hashlib import blake2b
from itertools import islice
from typing import Any

from muster.runtime.errors import BadTrainingError


@dataclass(frozen=True, slots=True)
class ShardLease:
    """A worker may read a shard in an epoch; `far` samples of it are in committed steps."""

    epoch: int
    shard: int
    holder: str
    far: int = 0


@dataclass(frozen=True, slots=True)
class ShardLeases:
    """Who reads which shard. Shards are granted in one order, epoch after epoch; what has been granted
    and is neither held nor given back is done, and is not granted again."""

    shards: int
    seed: int = 0
    epochs: int | None = None
    """None: without end."""
    repeatable: bool = False
    """Shards give the same samples in the same order every time."""
    granted: int = 0
    """Shards granted for the first time, over all epochs."""
    held: tuple[ShardLease, ...] = ()
    """In the order in which they were granted, hence in which their holders read them."""
    back: tuple[ShardLease, ...] = ()
    """Given back unfinished, to be granted next; `holder` is whoever had it."""

    @property
    def epoch(self) -> int:
        """The first epoch in which a shard is not done."""
        unfinished = [lease.epoch for lease in (*self.held, *self.back)]
        return min([*unfinished, self.granted // self.shards])

    def of(self, task: str) -> tuple[ShardLease, ...]:
        """A worker's leases, in the order in which it reads them."""
        return tuple(lease for lease in self.held if lease.holder == task)

    def grant(self, tasks: Sequence[str], each: int) -> "ShardLeases":
        """Leases for workers that hold fewer than `each`: everybody's first before anybody's second.

        Where an epoch has none left the next one's are granted: nobody waits for the slowest shard.
        """
        leases = self
        for count in range(1, each + 1):
            for task in tasks:
                if len(leases.of(task)) < count:
                    leases = leases._granted_to(task)
        return leases

    def commit(self, task: str, finished: int, far: int) -> "ShardLeases":
        """A worker's part in a committed step: it has read its first `finished` leases to their end,
        and `far` samples of the one after them."""
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
        """Workers are gone: what they held is given back."""
        gone = set(tasks)
        return self._given_back([lease for lease in self.held if lease.holder in gone])

    def value(self) -> dict[str, Any]:
        """Plain numbers, text and lists, for a checkpoint or a joiner."""
        held, back = ([list(astuple(lease)) for lease in part] for part in (self.held, self.back))
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "held": held, "back": back}

    @staticmethod
    def restored(value: Mapping[str, Any]) -> "ShardLeases":
        """Out of `value()`."""
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

    def _given_back(self, leases: Sequence[ShardLease]) -> "ShardLeases":
        held = tuple(lease for lease in self.held if lease not in leases)
        if not self.repeatable:
            leases = [replace(lease, far=0) for lease in leases]
        # Old epochs first: they are what keeps an epoch from being over.
        back = tuple(sorted((*self.back, *leases), key=lambda lease: (lease.epoch, lease.shard)))
        return replace(self, held=held, back=back)


@dataclass(frozen=True, slots=True)
class Taken:
    """A worker's samples of a step, and what it says of its leases in its ballot (see `commit`)."""

    samples: list[Any]
    finished: int
    far: int


class ShardReader:
    """Reads a dataset that offers `shards() -> int` and `shard(i) -> Iterator` of samples."""

    def __init__(self, dataset: Any) -> None:
        missing = [name for name in ("shards", "shard") if not callable(getattr(dataset, name, None))]
        if missing:
            raise BadTrainingError(
                f"an iterable dataset must offer shards() -> int and shard(i) -> iterator: "
                f"{type(dataset).__name__} has no {' and no '.join(missing)}"
            )
        self.count = int(dataset.shards())
        if self.count < 1:
            raise BadTrainingError(f"the dataset has {self.count} shards: it must have at least 1")
        self.repeatable = bool(getattr(dataset, "repeatable", False))
        self._dataset = dataset
        self._streams: dict[tuple[int, int], _Stream] = {}

    def open(self, shard: int) -> Iterator[Any]:
        """A shard from its begin."""
        return iter(self._dataset.shard(shard))

    def take(self, leases: Sequence[ShardLease], count: int) -> Taken:
        """The next samples of these leases, at most `count`; fewer if the leases end before.

        Asked again with the same leases, after a lost step, it gives the same samples again.
        """
        self._close_all_but(leases)
        samples: list[Any] = []
        for finished, lease in enumerate(leases):
            stream = self._stream(lease)
            part, ended = stream.next(count - len(samples), lease.far)
            samples += part
            if not ended:
                return Taken(samples, finished, lease.far + len(part))
        return Taken(samples, len(leases), 0)

    def _stream(self, lease: ShardLease) -> "_Stream":
        key = lease.epoch, lease.shard
        if key not in self._streams or self._streams[key].base > lease.far:
            self._streams[key] = _Stream(self._dataset, lease.shard, lease.far)
        return self._streams[key]

    def _close_all_but(self, leases: Sequence[ShardLease]) -> None:
        kept = {(lease.epoch, lease.shard) for lease in leases}
        self._streams = {key: stream for key, stream in self._streams.items() if key in kept}


@dataclass(slots=True)
class _Stream:
    """One shard as it is read: what has been read but is not in a committed step is kept."""

    dataset: Any
    shard: int
    base: int
    """Samples before the first kept one."""
    kept: deque[Any] = field(default_factory=deque)
    source: Iterator[Any] | None = None

    def next(self, count: int, far: int) -> tuple[list[Any], bool]:
        """Samples after the first `far`, and whether they are the last ones."""
        for _ in range(min(far - self.base, len(self.kept))):
            self.kept.popleft()
        self.base = far
        # One more than asked for: only so is it known that these were the last.
        while len(self.kept) <= count:
            try:
                self.kept.append(self._read())
            except StopIteration:
                return list(self.kept), True
        return list(islice(self.kept, count)), False

    def _read(self) -> Any:
        try:
            if self.source is None:
                self.source = iter(self.dataset.shard(self.shard))
                next(islice(self.source, self.base, self.base), None)  # skip what is committed
            return next(self.source)
        except StopIteration:
            raise
        except Exception as problem:
            raise BadTrainingError(
                f"shard {self.shard} of the dataset could not be read after sample "
                f"{self.base + len(self.kept)}: {type(problem).__name__}: {problem}"
            ) from problem


def _order(shards: int, seed: int, epoch: int) -> list[int]:
    """The order in which an epoch's shards are granted."""

    def drawn(shard: int) -> bytes:
        return blake2b(repr((seed, epoch, shard)).encode(), digest_size=8).digest()

    return sorted(range(shards), key=drawn)
