"""The state of a daemon: all that its journal determines, and the fold that makes it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from muster.core.state.evolve import evolve
from muster.daemon.gang.images import GangImage, folded
from muster.model.event import Event
from muster.model.task import Fact, PolicySet
from muster.model.view import View

_EVENTS = get_args(Event)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that survives the daemon: the journal folds to it."""

    view: View
    gangs: Mapping[int, GangImage]
    policy: str

    def after(self, facts: Iterable[Fact]) -> "State":
        """The state after these facts; raises what `evolve` raises, and nothing has changed then."""
        known = list(facts)
        view = evolve(self.view, [fact for fact in known if isinstance(fact, _EVENTS)])
        gangs, policy = self.gangs, self.policy
        for fact in known:
            gangs = folded(gangs, fact)
            if isinstance(fact, PolicySet):
                policy = fact.policy
        return replace(self, view=view, gangs=gangs, policy=policy)
