"""Records of how jobs relate to each other."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParentRecord:
    """A job that must end before another one starts."""

    number: int
    name: str
    when: str = "ok"
    """How it must end: "ok", "any" or "failed"."""
    met: bool = False
    """Whether it has."""


def was_spared(status: str, after: Iterable[ParentRecord]) -> bool:
    """Whether a job was skipped because the failure that it was for did not come."""
    return status == "skipped" and any(each.when == "failed" and not each.met for each in after)
