"""All faults of a job, from a file or a request."""

from collections.abc import Sequence
from dataclasses import dataclass

from muster.files.errors import (
    LONGEST_FIELD,
    LONGEST_PROBLEM,
    InputError,
    Loc,
    clipped,
    dotted,
    printable,
)

MAX_FAULTS = 100
"""Nobody reads more, and a request must not inflate its answer."""


@dataclass(frozen=True, slots=True)
class Fault:
    loc: Loc
    problem: str

    @property
    def field(self) -> str:
        """The place on one line."""
        return clipped(printable(dotted(self.loc)), LONGEST_FIELD)

    @property
    def text(self) -> str:
        """The problem on one line."""
        return clipped(printable(self.problem), LONGEST_PROBLEM)


class FaultsError(InputError):
    """An invalid job: `str()` is the first fault, `lines` has one for each."""

    def __init__(self, faults: Sequence[Fault], lines: Sequence[str] = ()) -> None:
        self.faults = tuple(faults[:MAX_FAULTS])
        self.lines = tuple(lines[:MAX_FAULTS]) or tuple(_line(fault) for fault in self.faults)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(self.lines[0] + more)


def first_of(faults: Sequence[Fault]) -> Fault:
    """Return the first fault, with the number of the others."""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return Fault(faults[0].loc, faults[0].problem + more)


def _line(fault: Fault) -> str:
    return f"{fault.field}: {fault.text}" if fault.loc else fault.text
