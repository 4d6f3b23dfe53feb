"""The HTTP API of a daemon: tokens, limits and streams around its service."""

from muster.api.app import create_app
from muster.api.limits import Limits
from muster.api.listener import Tls, bound, serve, url_of

__all__ = ["Limits", "Tls", "bound", "create_app", "serve", "url_of"]
