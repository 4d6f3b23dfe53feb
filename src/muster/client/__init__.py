"""The Python client of a daemon."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.client import Client
    from muster.client.errors import ClientError, FieldFault
    from muster.client.handle import Handle
    from muster.client.job_query import JobSelection
    from muster.client.settings import ClientSettings, read_settings, settings_path, write_settings

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
    "ClientSettings": "settings",
    "FieldFault": "errors",
    "Handle": "handle",
    "JobSelection": "job_query",
    "read_settings": "settings",
    "settings_path": "settings",
    "write_settings": "settings",
}


def __getattr__(name: str) -> Any:
    """Loaded on demand: a daemon writes settings for clients, and needs none of the rest."""
    if name not in _WHERE:
        raise AttributeError(f"module 'muster.client' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"muster.client.{_WHERE[name]}"), name)
