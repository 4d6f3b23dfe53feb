"""Muster: a scheduler and elastic training runtime for clusters of accelerators."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "AsyncClient",
    "Client",
    "Executor",
    "FileShards",
    "FunctionError",
    "Training",
    "converged",
    "init",
    "local",
    "loss",
    "progress",
    "report",
    "result",
    "submit",
]

if TYPE_CHECKING:
    from muster.app.local import local
    from muster.client import Client
    from muster.client.async_client import AsyncClient
    from muster.functions.default import result, submit
    from muster.functions.errors import FunctionError
    from muster.functions.executor import FunctionExecutor as Executor
    from muster.functions.progress import progress
    from muster.runtime.data.streams import FileShards
    from muster.runtime.report import report
    from muster.runtime.user.session import init
    from muster.runtime.user.training import Training
    from muster.runtime.user.until import converged, loss

_WHERE = {
    "AsyncClient": "muster.client.async_client",
    "Client": "muster.client",
    "Executor": "muster.functions.executor:FunctionExecutor",
    "FileShards": "muster.runtime.data.streams",
    "FunctionError": "muster.functions.errors",
    "Training": "muster.runtime.user.training",
    "converged": "muster.runtime.user.until",
    "init": "muster.runtime.user.session",
    "local": "muster.app.local",
    "loss": "muster.runtime.user.until",
    "progress": "muster.functions.progress",
    "report": "muster.runtime.report",
    "result": "muster.functions.default",
    "submit": "muster.functions.default",
}
"""The module of each name, and its name there where that differs."""


def __getattr__(name: str) -> Any:
    """What scripts use; loaded on demand, since a training needs torch and the rest does not."""
    if name not in _WHERE:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    from importlib import import_module

    module, _, own = _WHERE[name].partition(":")
    return getattr(import_module(module), own or name)


def __dir__() -> list[str]:
    """What there is, for completion: loaded or not."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
