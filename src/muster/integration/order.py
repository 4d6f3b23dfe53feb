"""The order of samples as a framework's own sampler has it, the same on every worker."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def order_of(loader: Any) -> Callable[[int], Tensor]:
    """Return the sample ids of each epoch as a loader's sampler draws them, for `ctx.data`.

    One without a seed of its own draws from the global generators, which the runtime seeds for it.
    """
    batches = loader.batch_sampler

    def drawn(epoch: int) -> Tensor:
        set_epoch = getattr(batches.sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        ids = torch.tensor(list(batches.sampler))
        whole = len(ids) - len(ids) % batches.batch_size
        return ids[:whole] if batches.drop_last else ids

    return drawn
