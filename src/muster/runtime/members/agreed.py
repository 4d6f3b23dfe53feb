"""What members know of each other from ballots and roll calls: the same on every rank."""

from collections.abc import Sequence
from math import inf

from muster.runtime.members.ballot import MemberStatus, Vote
from muster.runtime.members.crew import Crew
from muster.runtime.members.shares import reshare
from muster.runtime.members.stragglers import StragglerWatch
from muster.wire.tasks.messages import MemberPlan


class Agreed:
    """Workers' speeds, memory and ability, and the resulting shares of the batch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        """Samples of a full step."""
        self.least = batch
        """The batch may shrink to this if memory is short."""
        self._watch = StragglerWatch()
        self._balance = True
        self._lines: list[tuple[float, float] | None] = []
        self._rows: Sequence[Vote | MemberStatus] = ()
        self.able: list[bool] = []
        """By rank: whether it holds the state and takes samples."""
        self.shares: tuple[int, ...] = ()

    def enter(self, rows: Sequence[MemberStatus], able: list[bool], plan: MemberPlan) -> None:
        """Begin a formation with the workers' status, and who can work."""
        self.shares, self._balance = plan.batch, plan.balance
        self._learn(rows, able)

    def knows(self, before: Crew, crew: Crew) -> bool:
        """Whether a roll call would say nothing new: some leave, and all others have the whole state.

        The same on every member: only plans and ballots count.
        """
        left = set(crew.tasks) < set(before.tasks) and before.workers == before.size
        able = {task for task, can in zip(before.tasks, self.able, strict=False) if can}
        return left and able.issuperset(crew.tasks) and not (before.holdings or crew.holdings)

    def stay(self, ranks: Sequence[int], plan: MemberPlan) -> None:
        """Begin a formation of those that were at these ranks, with what is known of them."""
        self.shares, self._balance = plan.batch, plan.balance
        self._learn([self._rows[rank] for rank in ranks], [self.able[rank] for rank in ranks])

    def learn(self, votes: Sequence[Vote], applied: bool = True) -> None:
        """Learn from the workers' votes of a step; a void one makes no joiner able."""
        self._learn(votes, [bool(vote.able) for vote in votes] if applied else self.able)

    def stragglers(self, tasks: Sequence[str]) -> list[tuple[str, float]]:
        """Return stragglers to report, and how many times slower they are."""
        # At equal shares: a fixed cost over a small share would look slow.
        each = self.batch / max(1, len(self._lines))
        rates = {
            task: line[0] / each + line[1]
            for task, line in zip(tasks, self._lines, strict=False)
            if line is not None
        }
        return self._watch.note(rates)

    def _learn(self, rows: Sequence[Vote | MemberStatus], able: list[bool]) -> None:
        self.able, self._rows = able, rows
        self._lines = [(r.fixed, r.per_sample) if r.per_sample else None for r in rows]
        caps = [row.cap or inf for row in rows]
        known = self._lines if self._balance else [None] * len(rows)
        noise = max((row.noise for row in rows), default=0.0)
        self._fit(sum(cap for cap, can in zip(caps, able, strict=True) if can))
        self.shares = reshare(known, caps, able, self.batch, self.shares, noise)

    def _fit(self, room: float) -> None:
        """Shrink a free batch to what fits into the workers' memory."""
        if room < self.batch:
            self.batch = max(self.least, int(room))
