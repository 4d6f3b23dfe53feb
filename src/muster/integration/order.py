"""The order of samples as a framework's own sampler has it, the same on every worker."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.samples import mixed_seed


def order_of(loader: Any, seed: int) -> Callable[[int], Tensor]:
    """Return the sample ids of each epoch, as the loader's sampler would draw them."""
    batches = loader.batch_sampler
    sampler = batches.sampler

    def drawn(epoch: int) -> Tensor:
        set_epoch = getattr(sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        # A sampler without a seed of its own draws from the global generator.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(mixed_seed(seed, epoch))
            ids = torch.tensor(list(sampler))
        whole = len(ids) - len(ids) % batches.batch_size
        return ids[:whole] if batches.drop_last else ids

    return drawn
