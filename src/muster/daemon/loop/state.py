"""The state of a daemon: what its journal folds to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from muster.core.state.event_errors import UnknownNameError
from muster.core.state.evolve import evolve
from muster.core.sweeps.sweep_state import SweepStates, fold_sweep
from muster.daemon.gang.state import GangState, fold_gangs
from muster.model.event import Event, Submitted
from muster.model.sweep import MemberSubmitted, member_job
from muster.model.task import Fact, PolicySet
from muster.model.view import View

_EVENTS = get_args(Event)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that survives a restart of the daemon."""

    view: View
    gangs: Mapping[int, GangState]
    policy: str
    sweeps: SweepStates = field(default_factory=dict)

    def after(self, facts: Iterable[Fact]) -> "State":
        """Return the state after these facts; raises what `evolve` raises."""
        known, sweeps = list(facts), self.sweeps
        events: list[Event] = []
        for fact in known:
            sweeps = fold_sweep(sweeps, fact)
            if isinstance(fact, MemberSubmitted):
                events.append(as_submitted(sweeps, fact))
            elif isinstance(fact, _EVENTS):
                events.append(fact)
        view = evolve(self.view, events) if events else self.view
        policies = [fact.policy for fact in known if isinstance(fact, PolicySet)]
        policy = policies[-1] if policies else self.policy
        gangs = fold_gangs(self.gangs, known)
        return replace(self, view=view, gangs=gangs, policy=policy, sweeps=sweeps)


def as_submitted(sweeps: SweepStates, fact: MemberSubmitted) -> Submitted:
    """Return the submission of a sweep's member, with its job."""
    state = sweeps.get(fact.sweep)
    place = None if state is None else state.sweep.place_of(fact.job)
    if state is None or place is None:
        raise UnknownNameError(f"no live sweep {fact.sweep} with a job {fact.job}")
    return Submitted(member_job(state.sweep, place), fact.at)
