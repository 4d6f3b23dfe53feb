"""When a step ends: gradients leave in pieces as they become ready, beside the backward pass.

Pieces follow each other in the order of readiness. With C seconds of computing beside them, r_k the
part of it after which piece k is ready, Q_k the bytes and N_k the number of pieces from k on, they are
done at

    max over k of  C r_k + tau Q_k + lambda N_k + sigma q_k        [s]

tau in s/byte, lambda in s/piece: some piece k is the last that had to become ready; after it there is
no gap. With several stages tau is the pace of the slowest, and sigma q_k the time of piece k of q_k
bytes in the others. Read backwards, the same points give a forward pass whose parameters arrive while
it runs: what is needed last was ready first.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from muster.model.profile import ModelProfile

BUCKET = 25_000_000
"""Bytes of gradients that travel as one piece: the bucket of PyTorch's DistributedDataParallel."""

FORWARD = 1 / 3
"""Part of a step's computing before the first gradient: the backward pass does twice the operations of
the forward pass, once for the inputs of each layer and once for its weights."""

FEW = 24
"""Pieces up to which a loop is quicker than arrays."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of a model's gradients in the order of readiness: r, Q, N and q above, by piece."""

    ready: NDArray[np.float64]
    bytes_on: NDArray[np.float64]
    count_on: NDArray[np.float64]
    sizes: NDArray[np.float64]
    few: tuple[tuple[float, float, float, float], ...] = ()
    """All of it by piece, if there are few."""

    def done(self, compute: float, per_byte: float, per_piece: float, through: float = 0.0) -> float:
        """Return the seconds until the last piece has arrived, beside `compute` s of computing."""
        if not per_byte and not per_piece:
            return compute
        if self.few:
            last = compute
            for ready, on, count, size in self.few:
                at = compute * ready + per_byte * on + per_piece * count + through * size
                if at > last:
                    last = at
            return last
        times = compute * self.ready + per_byte * self.bytes_on + per_piece * self.count_on
        if through:
            times += through * self.sizes
        return max(compute, float(times.max()))


@lru_cache(maxsize=256)
def pieces_of(tensors: tuple[tuple[int, float], ...], bucket: int) -> Pieces:
    """Join tensors (bytes, ready) into pieces of at least `bucket` bytes, and cut large ones."""
    if not tensors:
        return Pieces(np.ones(1), np.zeros(1), np.zeros(1), np.zeros(1))
    sizes: list[float] = []
    ready: list[float] = []
    held = 0
    for i, (size, at) in enumerate(tensors):
        held += size
        last = i == len(tensors) - 1
        if held >= bucket or last:
            count = max(1, round(held / bucket))
            sizes += [held / count] * count
            ready += [at] * count
            held = 0
    each = np.array(sizes)
    on = np.cumsum(each[::-1])[::-1]
    counts = np.arange(len(sizes), 0, -1, dtype=np.float64)
    arrays = (np.array(ready), on, counts, each)
    few = tuple(zip(*(array.tolist() for array in arrays), strict=True))
    return Pieces(*arrays, few if len(few) <= FEW else ())


def pieces(profile: ModelProfile, bucket: int = BUCKET) -> Pieces:
    """Return the pieces in which a model's gradients travel."""
    return pieces_of(tuple((tensor.bytes, tensor.ready) for tensor in profile.tensors), bucket)
