"""What decides in the process of its own: follows the daemon's view, and answers with what is new."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.planners.delta import ViewDelta, ViewFollower
from muster.core.planners.proposal import Planners
from muster.core.state.check import BrokenInvariantError, check
from muster.model.decision import Decision, Kind, Promise
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
        self._told: dict[int, Decision] = {}
        """Why jobs wait, as the daemon knows it."""

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
        return replace(decided, decisions=tuple(self._news(decided)), memory=kept)

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

    def _news(self, decided: Decisions) -> Iterator[Decision]:
        """Yield all decisions but those to wait for the reason that the daemon knows."""
        before, self._told = self._told, {}
        for each in decided.decisions:
            if each.kind is not Kind.WAIT:
                yield each
                continue
            known = before.get(each.job)
            same = known is not None and known == each
            self._told[each.job] = known if known is not None and same else each
            if not same:
                yield each


class ToldDecisions:
    """The daemon's end: fills in what the decider did not repeat."""

    def __init__(self) -> None:
        self._waits: dict[int, Decision] = {}

    def whole(self, news: Decisions, waiting: Iterator[int]) -> Decisions:
        """Return the decisions about all jobs; `waiting`: those that wait in the view."""
        changed = {each.job for each in news.decisions}
        fresh = {each.job: each for each in news.decisions if each.kind is Kind.WAIT}
        before = self._waits
        self._waits = {n: fresh.get(n) or before[n] for n in waiting if n in fresh or n not in changed}
        kept = (each for number, each in self._waits.items() if number not in changed)
        return replace(news, decisions=(*news.decisions, *kept))
