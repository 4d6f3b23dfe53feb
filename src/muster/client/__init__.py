"""The Python client of a daemon."""

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
