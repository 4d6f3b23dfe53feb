"""What was last told of a job: most of it still holds when the job has only gone on."""

from dataclasses import dataclass

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.costs import Costs
from muster.perf.learnt.held import Held
from muster.perf.learnt.tables import ByType


@dataclass(slots=True)
class Told:
    """A job's last outlook, and what it followed from."""

    job: Job
    held: Held | None
    heard: tuple[int, int]
    """What the learner had heard by then."""
    costs: Costs
    spread: float
    """Of its speed."""
    untried: tuple[str, ...]
    mixing: float
    stretches: tuple[int, int] = (-1, -1)
    """Where it was, and where it will end: its speed is that of the work between."""
    here: float | None = None
    steady: ByType | None = None
    given: tuple[object, ...] = ()
    """All else that the outlook followed from."""
    outlook: Outlook | None = None

    def holds_for(self, job: Job, held: Held | None, heard: tuple[int, int]) -> bool:
        """Whether it is of the same job on the same devices, and nothing was heard since."""
        return job is self.job and heard == self.heard and (held is self.held or held == self.held)

    def follows_from(self, given: tuple[object, ...]) -> Outlook | None:
        """Return the outlook if it followed from just this."""
        return self.outlook if given == self.given else None
