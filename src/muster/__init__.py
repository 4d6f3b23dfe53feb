"""Muster: a scheduler and elastic training runtime for clusters of accelerators."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Training", "init", "loss"]

if TYPE_CHECKING:
    from muster.runtime.session import init
    from muster.runtime.training import Training, loss


def __getattr__(name: str) -> Any:
    """What a training script uses; loaded on demand, since it needs torch and the rest does not."""
    if name == "init":
        from muster.runtime.session import init

        return init
    if name in ("Training", "loss"):
        from muster.runtime import training

        return getattr(training, name)
    raise AttributeError(f"module 'muster' has no attribute {name!r}")
