"""Muster's loader processes and torch's DataLoader take turns, block by block."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from muster.runtime.data.given import DataOptions, feed_of
from muster.runtime.data.samples import Position

COUNT, BATCH, SIDE = 100_000, 16, 160
BLOCK = 24
"""Batches in a block."""
SKIPPED = 8
"""Of them, at its beginning: batches that were loaded while the other one had its turn."""


class Pictures(Dataset[Any]):
    """Pictures made of a few stored ones, augmented as in training."""

    def __init__(self) -> None:
        self._stored = torch.randint(0, 256, (64, 3, SIDE + 8, SIDE + 8), dtype=torch.uint8)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        top, left, flip = (int(torch.randint(n, ())) for n in (9, 9, 2))
        picture = self._stored[i % 64, :, top : top + SIDE, left : left + SIDE].float() / 255
        picture = picture.flip(2) if flip else picture
        return (picture - 0.45) / 0.22 + 0.05 * torch.randn(picture.shape), i % 10


@dataclass(frozen=True, slots=True)
class Feeding:
    """Seconds of a batch in each block."""

    muster: tuple[float, ...]
    torch: tuple[float, ...]
    """One more: before and after each of Muster's."""
    muster_busy: float
    torch_busy: float
    """CPU seconds of all blocks in the processes that load them."""
    first: float
    """Seconds to Muster's first batch, with the start of its processes."""

    @property
    def ratio(self) -> float:
        """Muster's speed over torch's around it, in the median."""
        around = zip(self.torch, self.torch[1:], strict=False)
        pairs = zip(self.muster, around, strict=True)
        return median((before + after) / 2 / ours for ours, (before, after) in pairs)


def take_turns(loaders: int, blocks: int) -> Feeding:
    """Measure blocks of batches, torch's first and last."""
    torch.set_num_threads(1)
    data = Pictures()
    began = time.monotonic()
    ours = _batches(data, loaders)
    next(ours)
    first = time.monotonic() - began
    mine = _children()
    theirs = iter(DataLoader(data, BATCH, shuffle=True, num_workers=loaders))
    others = _children() - mine
    muster, plain = [], [_block(theirs)]
    before = _busy(mine), _busy(others)
    for _ in range(blocks):
        muster.append(_block(ours))
        plain.append(_block(theirs))
    busy = _busy(mine) - before[0], _busy(others) - before[1]
    ours.close()  # type: ignore[attr-defined]
    return Feeding(tuple(muster), tuple(plain), *busy, first)


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def _busy(processes: set[int]) -> float:
    """Return the CPU seconds of processes so far (proc(5): utime and stime, fields 14 and 15)."""
    ticks = 0
    for pid in processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _batches(data: Any, loaders: int) -> Iterator[Any]:
    """Yield what a single worker's feed loads."""
    feed = feed_of(data, DataOptions(BATCH, loaders=loaders), pin=False)[0]
    position = Position()
    try:
        while True:
            part = feed.part(position, [BATCH], 0, "worker-0")
            yield feed.load(position, part)
            position = feed.after(position, [], [])
    finally:
        feed.close()


def _block(source: Iterator[Any]) -> float:
    """Return the seconds of a batch in the middle of a block."""
    for _ in range(SKIPPED):
        _consume(next(source))
    began = time.perf_counter()
    for _ in range(BLOCK - SKIPPED):
        _consume(next(source))
    return (time.perf_counter() - began) / (BLOCK - SKIPPED)


def _consume(batch: Any) -> None:
    """Compute a little with a batch, as a training does."""
    x, y = batch
    assert float((x.mean() + y.sum()).isfinite())
