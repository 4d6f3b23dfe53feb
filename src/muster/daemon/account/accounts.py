"""The accounts of a daemon: the meter of what jobs hold, and the budgets of it."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from muster.daemon.account.budgets import Budgets, month_of
from muster.daemon.account.meter import HOUR, Charges, Meter
from muster.daemon.loop.fold import Turn
from muster.daemon.loop.state import State
from muster.model.placement import Slot
from muster.store.batch import Use
from muster.store.store import Store


class Accounts:
    """What the loop keeps of use: written with the facts that it follows from."""

    def __init__(self) -> None:
        self.meter, self.budgets = Meter(), Budgets()
        self.busy: Callable[[], Mapping[str, Sequence[float | None]]] = dict
        """Returns how busy the devices of nodes are."""

    def restore(self, store: Store, state: State, now: float) -> None:
        """Go on from what the last daemon wrote."""
        self.meter.restore(state, store.charged_until(tuple(state.view.jobs)))
        begin = int(month_of(now) // HOUR)
        self.budgets.restore(store.usage(begin, int(now // HOUR) + 1, ("user", "pool")), now)

    def charges(self, turn: Turn, now: float) -> Charges:
        """Return what a turn adds, and from time to time what all jobs have held since."""
        made, rest = self.meter.charges(turn), self.meter.flush(now)
        own = {number: tab for number, tab in rest.tabs.items() if number not in made.tabs}
        kept = tuple(self._watched(turn.state, rest.uses, made.tabs))
        return replace(made, uses=made.uses + kept, tabs={**own, **made.tabs})

    def adopt(self, charges: Charges) -> None:
        """Take over what was written."""
        self.meter.adopt(charges)
        self.budgets.spend(charges.uses)

    def _watched(self, state: State, uses: Iterable[Use], without: Container[int]) -> Iterator[Use]:
        """Yield uses with how busy their devices were, where they told."""
        busy = self.busy()
        for use in uses:
            job = state.view.jobs.get(use.number)
            if use.number in without:
                continue
            part = None if job is None or not busy else _part(job.held(), busy)
            yield use if part is None else replace(use, busy=use.held * part, watched=use.held)


def _part(slots: Iterable[Slot], busy: Mapping[str, Sequence[float | None]]) -> float | None:
    """Return the mean of what the devices of these slots tell; None: none does."""
    told = [
        part
        for slot in slots
        for place, part in enumerate(busy.get(slot.node, ()))
        if slot.bits >> place & 1 and part is not None
    ]
    return sum(told) / len(told) if told else None
