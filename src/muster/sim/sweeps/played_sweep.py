"""A sweep to simulate: its members, how long their epochs take, and what they would report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.model.job import Job
from muster.model.sweep import Sweep
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed


@dataclass(frozen=True, slots=True)
class PlayedSweep:
    """A sweep with numbers of its own, and the metric of each member after each of its epochs."""

    at: float
    """s of its submission."""
    sweep: Sweep
    curves: Sequence[Sequence[float | None]]
    """By position; as many epochs as there are values, None: no number."""
    epoch: float
    """s of an epoch on the workers that a member asks for."""

    def rungs(self, place: int) -> list[int]:
        """Return the epochs after which a member is compared, or ends."""
        epochs, found = len(self.curves[place]), list[int]()
        while self.sweep.asha is not None and self.sweep.asha.epochs(len(found)) < epochs:
            found.append(self.sweep.asha.epochs(len(found)))
        return [*found, epochs]

    def leg(self, place: int, number: int, legs: int, at: float) -> Arrival:
        """Return the job that trains a member to its next rung; `legs`: how many it has done."""
        rungs = self.rungs(place)
        begun = rungs[legs - 1] if legs else 0
        job = self._member(place, number, legs)
        return Arrival(at, job, Fixed((rungs[legs] - begun) * self.epoch, job.workers.least))

    def _member(self, place: int, number: int, legs: int) -> Job:
        name = self.sweep.member_name(place)
        return replace(self.sweep.template, name=f"{name}@{legs}" if legs else name, number=number)
