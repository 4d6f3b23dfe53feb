"""Folders that jobs ship, and their limits."""

from dataclasses import dataclass

SHIP_LIMIT = 256_000_000
"""Bytes of a folder that a job ships, before they are packed: code and small files."""
SHIP_ENTRIES = 100_000
"""Files, folders and links of such a folder."""
PACK_PART = 512 * 1024
"""Bytes of one part of a pack: in base64 it fits into a request and into a line of the protocol."""


@dataclass(frozen=True, slots=True)
class PackRecord:
    """A packed folder, as far as it has been uploaded."""

    digest: str
    size: int
    """Bytes that the daemon has."""
    complete: bool
