"""The Python client of a daemon."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.calls.job_query import JobSelection
    from muster.client.client import Client
    from muster.client.connecting.settings import (
        ClientSettings,
        read_settings,
        settings_path,
        write_settings,
    )
    from muster.client.errors import ClientError, FieldFault
    from muster.client.handles.handle import Handle

__all__ = [
    "Client",
    "ClientError",
    "ClientSettings",
    "FieldFault",
    "Handle",
    "JobSelection",
    "read_settings",
    "settings_path",
    "write_settings",
]

_WHERE = {
    "Client": "client",
    "ClientError": "errors",
    "ClientSettings": "connecting.settings",
    "FieldFault": "errors",
    "Handle": "handles.handle",
    "JobSelection": "calls.job_query",
    "read_settings": "connecting.settings",
    "settings_path": "connecting.settings",
    "write_settings": "connecting.settings",
}


def __getattr__(name: str) -> Any:
    """Loaded on demand: a daemon writes settings for clients, and needs none of the rest."""
    if name not in _WHERE:
        raise AttributeError(f"module 'muster.client' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"muster.client.{_WHERE[name]}"), name)
