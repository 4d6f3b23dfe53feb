"""What the workers have agreed on beside the step, so that one that missed a result can read it.

Between two sums of gradients all workers call the same collectives in the same order. If one of them is
lost, some may have the last result and others not: when they regroup, they share what they know. A
step that is redone reads the results of its first run.

A *section* is what lies between the sum of one step and that of the next: the rest of the loop's body,
what comes between two epochs, and the beginning of the next body. It has the number of that first step.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Sections = dict[str, list[Any]]
"""Results by section, for JSON."""


class ResultLog:
    """The results of the current section, and of the one before while a step is open."""

    def __init__(self) -> None:
        self.section = 0
        self._results: list[Any] = []
        self._next = 0
        self._first = 0
        """The place at which the open step began."""
        self._before: tuple[int, list[Any], int] | None = None
        """The section before the sum of the open step, in case it is redone."""

    @property
    def count(self) -> int:
        """Results in this section and the one before."""
        return len(self._results) + (len(self._before[1]) if self._before else 0)

    @property
    def is_used(self) -> bool:
        """Whether there was a collective since the last sum."""
        return bool(self._results)

    @property
    def is_known(self) -> bool:
        """Whether the result of the next collective is known already."""
        return self._next < len(self._results)

    def add(self, result: Any) -> None:
        """Note the result of the next collective."""
        self._results.append(result)

    def read(self) -> Any:
        """Return the result of the next collective."""
        self._next += 1
        return self._results[self._next - 1]

    def begin_step(self) -> None:
        """A worker gets its batch."""
        self._first, self._before = self._next, None

    def sum(self, step: int) -> None:
        """The gradients of a step are summed, or its sum has failed: the next section begins."""
        if self.section < step:
            self._before = self.section, self._results, self._first
            self.section, self._results, self._next = step, [], 0

    def end_void(self, done: int) -> None:
        """A void step has ended; it is redone, unless others have done it (`done` steps are)."""
        if self._before is not None and self.section > done:
            self.section, self._results, self._first = self._before
            self._next = self._first
        self._before = None

    def keep(self) -> None:
        """The open step counts."""
        self._before = None

    def forget(self) -> None:
        """Start over: the training goes back to a checkpoint."""
        self.section, self._results, self._next, self._before = 0, [], 0, None

    def value(self) -> Sections:
        """Return what this worker knows."""
        known = {str(self.section): self._results}
        return known if self._before is None else {**known, str(self._before[0]): self._before[1]}

    def adopt(self, others: Iterable[Mapping[str, list[Any]]], done: int) -> None:
        """Complete it with what others know; `done`: the steps that are done."""
        joins = self.section < done
        if joins:
            self.section, self._results, self._before = done, [], None
        for known in others:
            theirs = known.get(str(self.section), [])
            if len(theirs) > len(self._results):
                self._results = list(theirs)
        if joins:
            self._next = self._first = len(self._results)
