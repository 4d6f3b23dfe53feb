"""BatchNorm's running averages with a batch that may grow.

They move by `momentum` in every step, so they would lag behind by as many more samples as the batch has
grown, and a model that learns fast would be worse in `eval()`. A step of M samples moves them as M / M0
steps of the own batch do: by 1 - (1 - momentum)^(M / M0). Modules hold the user's own momentum outside
of steps. Compiled models keep it: another number would have them compiled again.
"""

from collections.abc import Iterable

from torch import nn
from torch.nn.modules.batchnorm import _NormBase


class RunningAverages:
    """The running averages of a training's models."""

    def __init__(self, models: Iterable[nn.Module], own: int) -> None:
        """`own`: samples of the user's own batch."""
        self._models, self._own = [each for each in models if not is_compiled(each)], own
        self._kept: list[tuple[_NormBase, float]] = []
        """Modules and the user's momentum, during a step."""

    def begin(self, samples: int) -> None:
        """Begin a step of this many samples over all workers."""
        self.end()
        if samples <= self._own:
            return
        found = (module for model in self._models for module in model.modules())
        norms = (module for module in found if isinstance(module, _NormBase))
        self._kept = [(norm, norm.momentum) for norm in norms if norm.momentum]
        for norm, momentum in self._kept:
            norm.momentum = 1 - (1 - momentum) ** (samples / self._own)

    def end(self) -> None:
        """End a step."""
        for norm, momentum in self._kept:
            norm.momentum = momentum
        self._kept = []


def is_compiled(model: nn.Module) -> bool:
    """Whether a part of a model is compiled."""
    return any(
        hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )
