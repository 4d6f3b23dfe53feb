"""Jobs that are to have more than they hold, and on which nodes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from muster.model.placement import Slot
from muster.model.view import JobState
from muster.place.board import Board

Slots = tuple[Slot, ...]


@dataclass(slots=True, eq=False)
class Taker:
    """A job that is to have more, and what it would take."""

    state: JobState
    find: Callable[[Board], Slots | None]
    """What it would take on another board, for as many workers; None: that does not fit."""
    slots: Slots
    amounts: Counter[str] = field(default_factory=Counter)
    """Devices by type among them."""
    reserved: bool = False
    """Whether its pool reserves as much as it would then use."""
    turn: int = 0
    """Its place in the policy's order."""

    def takes(self, bits: Mapping[str, int]) -> bool:
        """Whether it takes any of these devices."""
        for slot in self.slots:  # noqa: SIM110, hot path: a generator is slower
            if slot.bits & bits.get(slot.node, 0):
                return True
        return False


class Takers:
    """All of them, in the policy's order, found by node: on a large cluster they are a thousand."""

    def __init__(self) -> None:
        self._known: dict[int, Taker] = {}
        """By number of the job."""
        self._on: defaultdict[str, set[int]] = defaultdict(set)
        """Jobs by node."""
        self._turns = 0

    def __iter__(self) -> Iterator[Taker]:
        return iter(tuple(self._known.values()))

    def add(self, taker: Taker) -> None:
        """Add the next one."""
        self._turns += 1
        taker.turn = self._turns
        self._known[taker.state.number] = taker
        self._enter(taker)

    def remove(self, taker: Taker) -> None:
        """Forget one of them."""
        self._leave(taker)
        del self._known[taker.state.number]

    def move(self, taker: Taker, slots: Slots) -> None:
        """Let one of them take other devices."""
        self._leave(taker)
        taker.slots = slots
        self._enter(taker)

    def of(self, job: int) -> Taker | None:
        """Return the one that is this job."""
        return self._known.get(job)

    def beside(self, nodes: Iterable[str]) -> list[Taker]:
        """Return those with tasks on any of these nodes."""
        found = set[int]().union(*(self._on.get(node, ()) for node in nodes))
        return in_turn(self._known[number] for number in found)

    def taking(self, bits: Mapping[str, int]) -> list[Taker]:
        """Return those that take any of these devices."""
        return [taker for taker in self.beside(bits) if taker.takes(bits)]

    def _enter(self, taker: Taker) -> None:
        for slot in taker.slots:
            self._on[slot.node].add(taker.state.number)

    def _leave(self, taker: Taker) -> None:
        for slot in taker.slots:
            self._on[slot.node].discard(taker.state.number)


def in_turn(takers: Iterable[Taker]) -> list[Taker]:
    """Return them in the policy's order."""
    return sorted(takers, key=lambda taker: taker.turn)
