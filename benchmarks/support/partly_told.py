"""Learnt beliefs of which one part is the oracle's: what the other part costs."""

from dataclasses import replace

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.sim.learnt import Learnt
from muster.sim.truth import Truth

PARTS = ("lengths", "speeds")


class PartlyTold(Learnt):
    """Learnt, but for one part of every outlook."""

    told = ""
    """One of `PARTS`."""

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return what is learnt with the part that is told; both count work in s on one device."""
        learnt, true = super().outlook(job, truth, crew, done), truth.outlook(done, crew)
        if self.told == "lengths":
            return replace(learnt, left=true.left)
        return replace(learnt, speed=true.speed, here=true.here)
