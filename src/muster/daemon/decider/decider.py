"""What decides in the process of its own: follows the daemon's view, and answers with what is new."""

from dataclasses import dataclass, replace

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.planners.delta import ViewDelta, ViewFollower
from muster.core.planners.proposal import Planners
from muster.core.state.check import BrokenInvariantError, check
from muster.daemon.decider.news import News
from muster.model.decision import Promise
from muster.policy.registry import POLICIES


@dataclass(frozen=True, slots=True)
class DeciderQuestion:
    """One cycle; the change of the view that it is about comes beside it."""

    now: float
    adopted: bool = False
    """Whether the last answer is in the journal: then what it remembers counts."""
    memory: Memory | None = None
    """What to begin with, in place of its own."""
    promises: tuple[Promise, ...] = ()
    """Devices that are withheld for jobs: the daemon makes promises between two cycles, too."""


class Decider:
    """A cycle that follows a view by what has changed."""

    def __init__(self, policy: str, planners: Planners | None = None) -> None:
        self._policy, self._planners = policy, planners
        self._follower = ViewFollower(0, 1)
        self._cycle = self._new_cycle()
        self.memory = Memory()
        self._next: Memory | None = None
        """What it remembers once its last answer is in the journal."""
        self._news = News()

    def decide(self, change: ViewDelta, asked: DeciderQuestion) -> Decisions | str:
        """Return what is new, or the invariant that the decisions would break."""
        self._remember(asked)
        view = self._follower.follow(change)
        try:
            decided = self._cycle.decide(view, asked.now, self.memory)
            check(view, decided)
        except BrokenInvariantError as error:
            self._cycle = self._new_cycle()
            return str(error)
        self._next = decided.memory
        kept = Memory(decided.memory.mood, decided.memory.promises)
        news = self._news.of(decided.decisions, adopted=asked.adopted)
        return replace(decided, decisions=news, memory=kept)

    def remembered(self) -> Memory:
        """Return what it remembers with its last answer, which the daemon has adopted."""
        return self.memory if self._next is None else self._next

    def _new_cycle(self) -> Cycle:
        return Cycle(POLICIES[self._policy], planners=self._planners)

    def _remember(self, asked: DeciderQuestion) -> None:
        if asked.memory is not None:
            self.memory = asked.memory
        elif asked.adopted and self._next is not None:
            self.memory = self._next
        self.memory = replace(self.memory, promises=asked.promises)
        self._next = None
