"""Gradients that no worker has, since their owners apply them: whoever reads one gets an error."""

from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError


class WithheldGradient(Tensor):
    """Stands in for a gradient; takes no memory."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("detach_", "requires_grad_", "zero_"):  # of zero_grad
            return args[0]
        raise BadTrainingError(
            "gradients cannot be read or changed (clipping, unscaling, logging) if owners update: no "
            'worker has them; use owners="reduce"'
        )


def withheld(parameter: Tensor) -> WithheldGradient:
    """Return a stand-in for a parameter's gradient."""
    empty = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
    return empty.expand(parameter.shape).as_subclass(WithheldGradient)
