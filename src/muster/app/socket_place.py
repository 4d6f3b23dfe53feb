"""Where the daemon's Unix socket lies: in a folder that only its user can enter."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from muster.files.errors import InputError

LONGEST = 107
"""Bytes of a socket's path, by the kernel's `sockaddr_un`."""
NAME = "muster.sock"
PRIVATE, SHARED = 0o600, 0o666
"""Modes of a user's own socket, and of one for all users of the machine."""


def private_socket(data: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a daemon's own socket: in its folder, or below a shorter path."""
    path = data / NAME
    if len(os.fsencode(path)) <= LONGEST:
        return path
    known = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return _short_folder(environ) / f"{known}.sock"


def shared_socket(path: Path) -> Path:
    """Return the path of a socket for all users; its folder is made, but not those around it."""
    path = path.absolute()
    if len(os.fsencode(path)) > LONGEST:
        raise InputError.at("--socket", f"a socket's path has at most {LONGEST} bytes")
    around = path.parent.parent
    if not path.parent.exists() and (not around.is_dir() or around == Path("/")):  # a slip
        raise InputError.at("--socket", f"no folder {path.parent}; make it first, or use /run/muster")
    before = os.umask(0o022)  # a daemon's is tighter
    try:
        path.parent.mkdir(mode=0o755, exist_ok=True)
    except OSError as error:
        raise InputError.at("--socket", f"cannot make {path.parent}: {error.strerror}") from None
    finally:
        os.umask(before)
    return path


def _short_folder(environ: Mapping[str, str]) -> Path:
    """Return a private folder with a short path; another user may have made it first."""
    given = environ.get("XDG_RUNTIME_DIR")
    if given and _is_private(Path(given)):
        folder = Path(given) / "muster"
    else:
        folder = Path(tempfile.gettempdir()) / f"muster-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(folder):
        raise InputError(f"up: {folder} is not a folder of yours alone; remove it, or give --socket")
    return folder


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    return private and found.st_uid == os.geteuid()
