"""Which events are worth a line."""

from collections.abc import Iterable

from muster.wire.records import ChangeRecord

_ROUTINE = ("TaskOrdered",)
"""Events that only carry out a decision already shown, once for each task."""


def notable(changes: Iterable[ChangeRecord]) -> list[ChangeRecord]:
    return [change for change in changes if change.kind not in _ROUTINE]
