"""A job's folder as people browse it: what lies in it, and one file as bytes."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

MOST_LISTED = 1000
"""Entries of one listing: more than anybody reads."""
LARGEST = 256 * 2**20
"""Bytes of a file that may be read so: a browser keeps it in memory. `muster cp` has no limit."""
PIECE = 64 * 2**10

Inside = Callable[[str], bool]
"""Whether a path, its links followed, stays in the job's folders."""


def listing(folder: Path, inside: Inside) -> bytes:
    """Return what lies in a folder as JSON, by name, as far as it is not too much."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda each: each.name)
    shown = [_entry(each, inside) for each in entries[:MOST_LISTED]]
    return json.dumps({"entries": shown, "left_out": len(entries) - len(shown)}).encode()


def _entry(entry: os.DirEntry[str], inside: Inside) -> dict[str, object]:
    # Names are bytes; one that is not UTF-8 is shown as near as can be.
    name = os.fsencode(entry.name).decode("utf-8", "replace")
    leaves = entry.is_symlink() and not inside(entry.path)
    try:
        status = entry.stat(follow_symlinks=not leaves)
    except OSError:  # a link to nowhere, or gone meanwhile
        return {"name": name, "kind": "other"}
    kind = "other"
    if stat.S_ISDIR(status.st_mode):
        kind = "folder"
    elif stat.S_ISREG(status.st_mode):
        kind = "file"
    return {"name": name, "kind": kind, "size": status.st_size, "modified": status.st_mtime}


def copy_part(source: IO[bytes], out: IO[bytes], size: int) -> None:
    """Copy `size` bytes, no more: a file that is being written is read as it was."""
    while size > 0 and (piece := source.read(min(size, PIECE))):
        out.write(piece)
        size -= len(piece)
