"""Whole batches in the order that the docs promise, computed without the runtime.

Epoch e is a permutation of the samples by a generator seeded from (seed, e); a sampler or a stream is
drawn, and a sample read, with all generators seeded from (seed, e) and (seed, e, sample).
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count, islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

Options = dict[str, Any]


def batches(data: Any, options: Options, steps: int, seed: int = 0) -> Iterator[Any]:
    """Yield the batches of a training of one process; `seed` is that of the training."""
    return islice(_endless(data, dict(options), seed), steps)


def _endless(data: Any, options: Options, seed: int) -> Iterator[Any]:
    if isinstance(data, DataLoader):
        options["global_batch"], data = data.batch_size, data.dataset
    for epoch in count():
        for samples in _epoch(data, options, seed, epoch):
            yield default_collate(samples)


def _epoch(data: Any, options: Options, seed: int, epoch: int) -> Iterator[list[Any]]:
    size = options["global_batch"]
    if isinstance(data, IterableDataset):
        with _drawing(seed, epoch):
            samples = list(data)
        yield from _cut(samples, size)
        return
    for ids in _ids(len(data), options, seed, epoch):
        yield [_sample(data, i, seed, epoch) for i in ids]


def _ids(length: int, options: Options, seed: int, epoch: int) -> Iterator[list[int]]:
    sampler, size = options.get("sampler"), options["global_batch"]
    if sampler is None:
        generator = torch.Generator().manual_seed(_mixed(seed, epoch))
        drawn = torch.randperm(length, generator=generator).tolist()
        assert sorted(drawn) == list(range(length)), "each sample once"
    else:
        with _drawing(seed, epoch):
            drawn = list(sampler(epoch) if callable(sampler) else sampler)
    if isinstance(drawn[0], list):
        yield from drawn
        return
    whole = len(drawn) - len(drawn) % size if options.get("drop_last") else len(drawn)
    yield from _cut(drawn[:whole], size)


def _sample(data: Any, index: int, seed: int, epoch: int) -> Any:
    if type(data) is TensorDataset:
        return data[index]
    with _drawing(seed, epoch, index):
        return data[index]


def _cut(items: list[Any], size: int) -> list[list[Any]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


@contextmanager
def _drawing(*words: int) -> Iterator[None]:
    """Seed the generators; the model's own noise goes on where it was."""
    before = torch.get_rng_state()
    random.seed(_mixed(*words))
    torch.manual_seed(_mixed(*words))
    yield
    torch.set_rng_state(before)


def _mixed(*words: int) -> int:
    return int.from_bytes(blake2b(repr(words).encode(), digest_size=8).digest(), "little") >> 1
