"""How much of a question is played: fewer worlds and coarser steps the more jobs there are.

A cycle costs as much as it has jobs, so that a question costs worlds times cycles times jobs. With few
jobs that is small, and all is played as finely as times are told. With many, worlds go first, down to
as many as an 80 % interval can be read from, then the steps grow: a world reaches as far, in fewer of
them.
"""

from dataclasses import dataclass

WORLDS = 16
"""Worlds played: the nearest to either end of the 80 % interval is then the last but one."""
FEWEST_WORLDS = 8
"""Least of them: the ends of the interval are then the least and the most."""
CYCLES = 150
"""Most cycles of a world."""
FEWEST_CYCLES = 16
REACH = 12.0
"""Steps of this over the cycles of a world bring it from a second to months: e^12 s are 1.9 of them."""
MOST = 160_000
"""Most jobs in all cycles of all worlds of a question: each takes about 0.1 ms."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What is played of a question."""

    worlds: int
    cycles: int
    """Most of a world."""

    @property
    def coarse(self) -> float:
        """Least part of the time since the present between two cycles: times are told to no more."""
        return REACH / self.cycles

    @staticmethod
    def for_jobs(jobs: int, worlds: int = WORLDS) -> "Effort":
        """Return what is played for this many live jobs; `worlds`: most of them."""
        shared = MOST // max(1, jobs)
        fewest = min(worlds, FEWEST_WORLDS)
        kept = min(worlds, max(fewest, shared // CYCLES))
        return Effort(kept, min(CYCLES, max(FEWEST_CYCLES, shared // kept)))
