"""What `ctx.backward` accepts: one loss per sample, so that unequal shares get the right weight."""

from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError
from muster.runtime.step.device import DeviceNumber


def check_losses(losses: Any, count: int, weighted: bool) -> None:
    """Raise unless there is a loss for each sample; weighted ones may have more dimensions."""
    if not isinstance(losses, Tensor) or losses.dim() == 0:
        raise BadTrainingError(
            f"the loss is one number for {count} samples: return one for each of them "
            '(reduction="none"), so that unequal shares of the batch get the right weight; for a mean '
            "over tokens or class weights call ctx.backward(losses, weight=...)"
        )
    if losses.shape[0] != count:
        raise BadTrainingError(
            f"the losses have shape {list(losses.shape)} for {count} samples: return one for each, "
            "the mean over everything but the first dimension; a loss over pairs of samples needs "
            "those of all workers: ctx.gather(embeddings)"
        )
    if losses.dim() != 1 and not weighted:
        raise BadTrainingError(
            f"the losses have shape {list(losses.shape)}: return one number for each sample, "
            "e.g. losses.flatten(1).mean(1)"
        )


def weight_of(weight: Any, count: int) -> DeviceNumber:
    """Return what the losses of these samples are divided by, with those of all workers.

    `weight`: one number per sample, their sum, or None: the number of samples.
    """
    if weight is None:
        return DeviceNumber(torch.tensor(float(count), dtype=torch.float64))
    total = weight.detach().double().sum() if isinstance(weight, Tensor) else weight
    if isinstance(weight, Tensor) and weight.dim() and weight.shape[0] != count:
        raise BadTrainingError(
            f"the weights have shape {list(weight.shape)} for {count} samples: give one for each"
        )
    return DeviceNumber(torch.as_tensor(total, dtype=torch.float64))
