"""What the API says of a job's files."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileRecord:
    """Something in a folder."""

    name: str
    kind: str
    """"file", "folder" or "other": neither, such as a link that leads out of the job's folder."""
    size: int | None = None
    """Bytes."""
    modified: float | None = None
    """s since 1970."""


@dataclass(frozen=True, slots=True)
class FolderRecord:
    """What lies in a folder of a job."""

    entries: tuple[FileRecord, ...]
    """By name, the first thousand."""
    left_out: int = 0
    """Further ones."""
