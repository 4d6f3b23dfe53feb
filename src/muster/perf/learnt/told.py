"""What was last told of a job: most of it still holds when the job has only gone on."""

from dataclasses import dataclass

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.costs import Costs
from muster.perf.learnt.held import Held
from muster.perf.learnt.job_kind import JobKind
from muster.perf.learnt.tables import ByType


@dataclass(slots=True)
class Told:
    """A job's last outlook, and what it followed from."""

    kind: JobKind
    job: Job
    held: Held | None
    belief: int
    """What was believed of its application's steps (see `Learner._belief`)."""
    costs: Costs
    spread: float
    """Of its speed."""
    untried: tuple[str, ...]
    mixing: float
    timed: bool
    """Whether anything tells how long its steps take."""
    stretches: tuple[int, int] = (-1, -1)
    """Where it was, and where it will end: its speed is that of the work between."""
    own: tuple[Held, float] | None = None
    """Its own measured step, and where."""
    here: float | None = None
    """The speed that follows from it."""
    steady: ByType | None = None
    given: tuple[object, ...] = ()
    """All else that the outlook followed from."""
    outlook: Outlook | None = None

    def holds_for(self, job: Job, held: Held | None, belief: int) -> bool:
        """Whether it is of the same job on the same devices, by the same belief."""
        return job is self.job and belief == self.belief and (held is self.held or held == self.held)
