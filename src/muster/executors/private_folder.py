"""Folders for their owner only. Quick to import."""

from pathlib import Path


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        # `mkdir(parents=True)` would give the ones above the usual rights.
        make_private(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
