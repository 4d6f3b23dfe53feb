"""The HTTP API of a daemon: tokens, limits and streams around its service."""
