"""Which events are worth a line."""

from collections.abc import Iterable

from muster.wire.api.records import ChangeRecord

_ROUTINE = ("TaskOrdered",)
"""Events that only carry out a decision already shown, once for each task."""


def notable(changes: Iterable[ChangeRecord]) -> list[ChangeRecord]:
    """Return events that say something new: a job's end says it all of tasks that ended well."""
    return [each for each in changes if each.kind not in _ROUTINE and not _ended_well(each)]


def _ended_well(change: ChangeRecord) -> bool:
    return change.kind == "TaskEnded" and change.text.endswith("exit code 0")
