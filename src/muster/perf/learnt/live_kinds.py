"""Which jobs of each application are live, and of how many one's end would tell the length."""

from dataclasses import dataclass, field

from muster.model.job import Job
from muster.perf.learnt.job_kind import JobKind


@dataclass(slots=True)
class LiveKinds:
    """All live jobs."""

    _kinds: dict[int, JobKind] = field(default_factory=dict)
    """What each is taken for: another, once it is known what it trains."""

    def note(self, kind: JobKind, job: Job, done: float) -> int:
        """Take in how far a job is; return of how many jobs its end would tell the length."""
        number = job.number
        before = self._kinds.get(number)
        if before is not kind:
            self.drop(number)
            self._kinds[number] = kind
        kind.note(number, done)
        return kind.told_by(number) if job.application is not None and job.duration is None else 1

    def drop(self, number: int) -> None:
        """Take in that a job is not live any more."""
        kind = self._kinds.pop(number, None)
        if kind is not None:
            kind.drop(number)
