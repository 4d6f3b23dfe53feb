"""Unix sockets for the API: who connects is known from the kernel, without a token."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from muster.api.door.listener import BACKLOG


def bound_unix(path: Path, mode: int) -> socket.socket:
    """Open a Unix socket for `serve`, in the place of one that nobody listens at any more."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        before = os.umask(0o777 & ~mode)  # so that nobody else can connect in between
        try:
            found.bind(str(path))
        finally:
            os.umask(before)
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def _clear(path: Path) -> None:
    """Remove a socket that was left behind; OSError if it is something else, or in use."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(errno.EADDRINUSE, "a file of this name exists", str(path))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(path))
