"""The state of a daemon: what its journal folds to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from muster.core.state.evolve import evolve
from muster.daemon.gang.state import GangState, fold_gangs
from muster.model.event import Event
from muster.model.task import Fact, PolicySet
from muster.model.view import View

_EVENTS = get_args(Event)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that survives a restart of the daemon."""

    view: View
    gangs: Mapping[int, GangState]
    policy: str

    def after(self, facts: Iterable[Fact]) -> "State":
        """Return the state after these facts; raises what `evolve` raises."""
        known = list(facts)
        events = [fact for fact in known if isinstance(fact, _EVENTS)]
        view = evolve(self.view, events) if events else self.view
        policies = [fact.policy for fact in known if isinstance(fact, PolicySet)]
        policy = policies[-1] if policies else self.policy
        return replace(self, view=view, gangs=fold_gangs(self.gangs, known), policy=policy)
