"""What members tell each other of their datasets, so that different ones are noticed at once.

A few samples are read, with generators seeded alike and more than once: a sample that differs between
two reads says nothing. Whole numbers and text must be equal. Of fractions and pictures, which may
differ in their last bits from one machine to another, a *sketch* is compared: the sum of w_i x_i over
the sum of |x_i|, with fixed w_i in [-1, 1]; two random pictures of 100,000 values are some 0.003 apart.
"""

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from math import isnan, nan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.randomness import (
    generator_states,
    generators_kept,
    generators_used,
    seed_generators,
)
from muster.runtime.data.samples import mixed_seed

PROBES = 3
"""Samples that are read: the first, the last and the one between."""
READS = 4
"""Times that each is read: an augmentation of its own that flips a coin looks constant over three
samples with probability (2 / 2^4)^3 = 0.2 %."""
BUDGET = 1.0
"""Seconds for all reads; slower datasets are compared by their length alone."""
TOLERANCE = 1e-4
"""Of sketches: a picture decoded by another library is some 1e-6 apart."""
MOST = 1 << 20
"""Values of a tensor that are looked at."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A dataset's length and probed contents, as numbers for a roll call."""

    samples: int = 0
    """0: unknown."""
    exact: int = 0
    """Hash of whole numbers, text and shapes (48 bits); 0: unknown."""
    sketch: float = nan
    """Of fractions and pictures; NaN: unknown."""
    random: bool = False
    """Whether samples draw from the process's generators."""

    def differs(self, other: "Fingerprint") -> str:
        """Say how another one is different; "" if it is not, as far as both are known."""
        if self.samples and other.samples and self.samples != other.samples:
            return f"{other.samples} samples instead of {self.samples}"
        known = self.exact and other.exact
        apart = abs(self.sketch - other.sketch)
        if known and (self.exact != other.exact or (not isnan(apart) and apart > TOLERANCE)):
            return f"other contents of sample 0, {self.samples // 2} or {self.samples - 1}"
        return ""


class Sketch:
    """Accumulates what is compared of some samples."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=6)
        self._sum = self._size = 0.0

    @property
    def exact(self) -> int:
        """The hash so far; never 0."""
        return int.from_bytes(self._hash.digest(), "little") or 1

    @property
    def value(self) -> float:
        """The sketch so far."""
        return self._sum / self._size if self._size else 0.0

    def add(self, sample: Any) -> None:
        """Take a sample in: tensors, arrays, numbers, text, and containers of them."""
        for part in _parts(sample):
            if isinstance(part, Tensor):
                self._add_tensor(part)
            elif isinstance(part, float):
                self._add_tensor(torch.tensor([part], dtype=torch.float64))
            else:
                self._hash.update(repr(part).encode())

    def _add_tensor(self, tensor: Tensor) -> None:
        self._hash.update(repr((str(tensor.dtype), tuple(tensor.shape))).encode())
        flat = tensor.detach().reshape(-1)[:MOST].cpu()
        if not (flat.is_floating_point() or flat.is_complex() or flat.dtype == torch.uint8):
            whole = flat.to(torch.int64).contiguous()
            self._hash.update(ctypes.string_at(whole.data_ptr(), whole.numel() * 8))
            return
        values = torch.nan_to_num((flat.abs() if flat.is_complex() else flat).to(torch.float64))
        weights = torch.cos(torch.arange(len(values), dtype=torch.float64) + 1)
        self._sum += float(weights @ values)
        self._size += float(values.abs().sum())


def fingerprint(dataset: Any) -> Fingerprint:
    """Probe a dataset."""
    count = len(dataset)
    ids = sorted({0, count // 2, count - 1})[:PROBES]
    until = time.monotonic() + BUDGET
    rounds, random = [], False
    try:
        with generators_kept():
            for _ in range(READS):
                sketch = Sketch()
                for sample in ids:
                    seed_generators(mixed_seed(0, 0, sample))
                    before = generator_states()
                    sketch.add(dataset[sample])
                    random = random or generators_used(before)
                    if time.monotonic() > until:
                        return Fingerprint(count, random=random)
                rounds.append((sketch.exact, sketch.value))
    except Exception:
        return Fingerprint(count)  # a bad sample is named when a step wants it
    same = all(one == rounds[0] for one in rounds)
    return Fingerprint(count, *rounds[0], random) if same else Fingerprint(count, random=random)


def _parts(sample: Any) -> Iterator[Any]:
    """Yield the values of a sample; what cannot be compared between machines is left out."""
    if isinstance(sample, dict):
        for key in sample:
            yield str(key)
            yield from _parts(sample[key])
    elif isinstance(sample, list | tuple):
        for part in sample:
            yield from _parts(part)
    elif isinstance(sample, str):
        yield ("" if Path(sample).is_absolute() else sample)  # files may lie elsewhere
    elif isinstance(sample, Tensor | bool | int | float | bytes | None):
        yield sample
    else:
        yield from _foreign(sample)


def _foreign(sample: Any) -> Iterator[Any]:
    """Yield arrays and pictures as tensors."""
    if hasattr(sample, "__array_interface__") or hasattr(sample, "__array__"):
        with suppress(KeyError, TypeError, ValueError, RuntimeError):
            yield torch.from_numpy(sys.modules["numpy"].array(sample))
