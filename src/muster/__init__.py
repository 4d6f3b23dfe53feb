"""Muster: a scheduler and elastic training runtime for clusters of accelerators."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Client", "FileShards", "Training", "converged", "init", "local", "loss"]

if TYPE_CHECKING:
    from muster.app.local import local
    from muster.client import Client
    from muster.runtime.data.streams import FileShards
    from muster.runtime.user.session import init
    from muster.runtime.user.training import Training
    from muster.runtime.user.until import converged, loss

_WHERE = {
    "Client": "muster.client",
    "FileShards": "muster.runtime.data.streams",
    "Training": "muster.runtime.user.training",
    "converged": "muster.runtime.user.until",
    "init": "muster.runtime.user.session",
    "local": "muster.app.local",
    "loss": "muster.runtime.user.until",
}


def __getattr__(name: str) -> Any:
    """What scripts use; loaded on demand, since a training needs torch and the rest does not."""
    if name not in _WHERE:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
