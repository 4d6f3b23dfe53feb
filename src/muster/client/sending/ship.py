"""What a job ships: a folder of this machine, or a pack that a daemon has. Quick to import."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIGEST = "sha256:"
"""Begins the digest of a pack; anything else that a job ships is a path."""


def shipping(record: Mapping[str, Any]) -> Path | None:
    """Return the folder that a job ships and that is yet to be packed."""
    ship = record.get("ship")
    if not isinstance(ship, str) or not ship or ship.startswith(DIGEST):
        return None
    return Path(ship).expanduser().resolve()


def as_shipped(record: Mapping[str, Any], folder: Path, digest: str) -> dict[str, Any]:
    """Return the job with a pack in place of a folder; its working directory counts from there."""
    shipped = {**record, "ship": digest}
    where = shipped.pop("folder", None)
    if isinstance(where, str):
        inside = Path(where).resolve()
        if folder in inside.parents:
            shipped["folder"] = inside.relative_to(folder).as_posix()
    return shipped
