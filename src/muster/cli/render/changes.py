"""Which of the things that happened are worth a line."""

from collections.abc import Iterable

from muster.wire.records import ChangeRecord

_ROUTINE = ("TaskOrdered",)
"""What only says that a decision which was told is being carried out, once for each task."""


def telling(changes: Iterable[ChangeRecord]) -> list[ChangeRecord]:
    """The changes without the routine."""
    return [change for change in changes if change.kind not in _ROUTINE]
