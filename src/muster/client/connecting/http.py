"""httpx without its command line, which would load rich and pygments: 75 ms of each of our commands."""

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]  # as if it were not installed
    import httpx

    del sys.modules[_COMMAND_LINE]
else:
    import httpx

__all__ = ["httpx"]
