"""From what a user gives `ctx.data` to a feed: datasets, samplers, DataLoaders, streams."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from muster.runtime.data.feed import Feed, Indexed, Leased
from muster.runtime.data.fingerprint import fingerprint
from muster.runtime.data.loader import BatchSource, Loader
from muster.runtime.data.processes import LoaderInit, LoaderProcesses
from muster.runtime.data.reader import Collate
from muster.runtime.data.sampled import SampledOrder, check_sampler
from muster.runtime.data.samples import Order, Position
from muster.runtime.data.streams import as_shards, is_stream
from muster.runtime.data.whole_stream import WholeStream
from muster.runtime.errors import BadTrainingError

Ends = Callable[[Position], bool]
"""Whether a training is done at a position."""


@dataclass(frozen=True, slots=True)
class DataOptions:
    """What a user says of the data; see `Session.data`."""

    batch: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    collate: Collate | None = None
    augment: bool | None = None
    loaders: int = 0
    sampler: Any = None
    shards: int | None = None
    prefetch: int = 2
    loader_init: LoaderInit | None = None
    context: Any = None
    """How loader processes are started; None: forked."""
    largest: int = 0
    """The most samples of a step, if the batch is free; 0: it stays as it is."""

    def ends(self, position: Position) -> bool:
        """Whether the training is done at a position; a free batch counts steps of the own one."""
        if self.epochs is not None and position.epoch >= self.epochs:
            return True
        if self.steps is None:
            return False
        if self.largest and self.batch:
            return position.seen >= self.steps * self.batch
        return position.step >= self.steps


def feed_of(dataset: Any, options: DataOptions, pin: bool) -> tuple[Feed, int]:
    """Return the feed of what the user gave, and the steps of the whole training (0: unknown)."""
    if isinstance(dataset, DataLoader):
        dataset, options = _taken_apart(dataset, options)
    feed = _streamed(dataset, options)
    if feed is not None:
        return feed, (options.steps or 0) if options.epochs is None else 0
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise BadTrainingError(
            f"{type(dataset).__name__} has no length and cannot be iterated: give a dataset with len() "
            "and dataset[i], or one of streams with shards() -> int and shard(i) -> iterator"
        )
    order = _order_of(len(dataset), options)
    ends = [options.steps, None if options.epochs is None else options.epochs * order.steps_per_epoch]
    length = min((end for end in ends if end is not None), default=0)
    return _indexed(dataset, order, options, pin), length


def _streamed(dataset: Any, options: DataOptions) -> Feed | None:
    """Return the feed of a stream; None: the dataset is none."""
    shards = as_shards(dataset, options.shards)
    if shards is None and not is_stream(dataset):
        return None
    for given, name in ((options.sampler, "sampler"), (options.loaders and not shards, "loaders")):
        if given:
            raise BadTrainingError(
                f"{name}= needs a dataset with len() and dataset[i]: "
                f"{type(dataset).__name__} is a stream"
            )
    batch = _batch(options)
    if shards is None:
        return WholeStream(dataset, batch, options.seed, options.drop_last, options.collate)
    return Leased(shards, batch, options.seed, options.epochs, options.collate)


def _indexed(dataset: Any, order: Order, options: DataOptions, pin: bool) -> Indexed:
    source: BatchSource
    if options.loaders:
        source = LoaderProcesses(
            dataset,
            options.collate,
            options.loaders,
            options.seed,
            pin,
            options.prefetch,
            options.loader_init,
            options.context,
        )
        return Indexed(order, source, options.ends)
    found = fingerprint(dataset)
    augment = found.random if options.augment is None else options.augment
    source = Loader(dataset, options.collate, 1, options.seed, augment, pin)
    return Indexed(order, source, options.ends, found)


def _order_of(count: int, options: DataOptions) -> Order:
    if options.sampler is not None:
        batch = options.batch or 0
        order = SampledOrder(options.sampler, count, batch, options.seed, options.drop_last)
        if order.gives_batches and options.largest:
            raise BadTrainingError(
                "the sampler gives batches of its own, so their size is not free: let it give ids, or "
                "give one number as global_batch"
            )
        return order
    return Order(count, _batch(options), options.seed, options.shuffle, options.drop_last)


def _batch(options: DataOptions) -> int:
    if options.batch is None:
        raise BadTrainingError(
            "global_batch= is missing: the samples of a step over all workers, e.g. "
            "ctx.data(dataset, global_batch=256)"
        )
    return options.batch


def _taken_apart(loader: "DataLoader[Any]", options: DataOptions) -> tuple[Any, DataOptions]:
    """Take a DataLoader's parts as if they had been given one by one; what was given counts more."""
    if loader.batch_size is None and loader.batch_sampler is None:
        raise BadTrainingError(
            "the DataLoader has batch_size=None, so its dataset yields whole batches, which cannot be "
            "divided among workers: let it yield samples, and give batch_size or global_batch="
        )
    collate = loader.collate_fn if loader.collate_fn is not default_collate else None
    taken = replace(
        options,
        batch=options.batch or loader.batch_size,
        drop_last=options.drop_last or loader.drop_last,
        collate=options.collate or collate,
        loaders=options.loaders or loader.num_workers,
        prefetch=loader.prefetch_factor or options.prefetch,
        loader_init=options.loader_init or loader.worker_init_fn,
        context=loader.multiprocessing_context,
    )
    if is_stream(loader.dataset):
        return loader.dataset, replace(taken, shards=options.shards or loader.num_workers or None)
    return loader.dataset, _sampled_as(loader, taken)


def _sampled_as(loader: "DataLoader[Any]", options: DataOptions) -> DataOptions:
    if options.sampler is not None:
        return options
    if type(loader.batch_sampler) is not BatchSampler:
        check_sampler(loader.batch_sampler)
        return replace(options, sampler=loader.batch_sampler)
    own = loader.batch_sampler
    batch, drop_last = options.batch or own.batch_size, options.drop_last or own.drop_last
    options, sampler = replace(options, batch=batch, drop_last=drop_last), own.sampler
    if type(sampler) is SequentialSampler:
        return replace(options, shuffle=False)
    plain = type(sampler) is RandomSampler and not sampler.replacement and not sampler._num_samples
    if plain and sampler.generator is None:
        return replace(options, shuffle=True)
    return replace(options, sampler=sampler)
