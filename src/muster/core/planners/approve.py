"""The centre's approval: each proposal is entered as a whole, or refused as a whole.

A decision is refused if something it takes is not free any more or is promised, if a pool around it
would exceed a limit, or if the job has been changed by another proposal. The decisions by which other
jobs give way to one gang, and the promise of their devices to it, stand or fall together; they are
heard first, since they are not planned again here. Then planners are heard in turn, about what their
pools are entitled to, and at last about what only uses idle devices. What is refused is planned again
by the centre in the same cycle: placed on what the approved ones leave, where nothing can be refused.
Making others give way, and using what is idle by borrowing or growing, is left to the next cycle, which
comes at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.outcome import Change, MigrationReport
from muster.core.cycle.sections import SectionShares
from muster.core.cycle.start_gangs import find
from muster.core.cycle.steering.steer import find_wanted
from muster.core.planners.proposal import Proposal
from muster.core.quotas.ledger import Rejected
from muster.model.decision import Decision, Kind
from muster.model.job import Job
from muster.model.placement import Claim, Placement
from muster.model.reason import Code, Reason
from muster.model.view import Phase
from muster.policy.base import Allocation

T = TypeVar("T")

_LATER = (Code.STARTED_BORROWING, Code.GROWN)
"""What only uses idle devices comes after what pools are entitled to."""

AGAIN = 1.0
"""s after which a job may try again that another was quicker than."""

_TAKEN_BY_NOW = Reason(Code.WAITING_QUOTA)
"""Why a job waits that was to borrow."""


@dataclass(frozen=True, slots=True)
class ApprovalReport:
    """What became of the claims of planners in one cycle."""

    claims: int
    refused: int
    """Planned again by the centre."""
    outpaced: int
    """To use what is idle, which was taken by then: left to the next cycle."""


class Approval:
    """What has been approved and refused of the proposals of one cycle."""

    def __init__(self, cycle: CycleState, proposals: Sequence[Proposal]) -> None:
        self._cycle = cycle
        self._proposals = proposals
        self.decisions: dict[int, Decision] = {}
        """Approved, by job; waiting included."""
        self._later: list[Decision] = []
        """What only uses idle devices."""
        self.migrations: list[MigrationReport] = []
        self._refused: set[int] = set()
        """Jobs to plan again."""
        self._claims = self._outpaced = 0
        self.again = inf
        """When another cycle is needed, in s."""
        for proposal in proposals:
            self._make_room(proposal)
        self._enter()
        for number in self._refused:
            self.decisions.pop(number, None)

    def told(self) -> ApprovalReport | None:
        """Return what became of the claims; None: there are no planners."""
        if not self._proposals:
            return None
        return ApprovalReport(self._claims, len(self._refused), self._outpaced)

    def lend(self) -> None:
        """Hear what only uses idle devices: after all that pools are entitled to, also those that no
        planner has planned for."""
        for decision in self._later:
            if not self._hear(decision):
                self._leave_for_later(decision)
        for growth in (each for proposal in self._proposals for each in proposal.growths):
            self._grow(growth)
        self._note_obstacles()

    def plan_again(self) -> None:
        """Place the gangs that were refused on what is left; those that do not fit wait for the next
        cycle, in which their planner may make others give way."""
        again = self._refused - self._cycle.settled
        wanted = [
            [(section, each) for section in proposal.sections for each in section.allocations]
            for proposal in self._proposals
        ]
        for section, allocation in in_turn(wanted):
            if allocation.job in again:
                self._place_again(section, allocation)
        self._note_obstacles()

    def _note_obstacles(self) -> None:
        for number, decision in self.decisions.items():
            if decision.kind is Kind.WAIT:
                self._cycle.outcome.obstacles[number] = decision.reason.code

    def _place_again(self, section: SectionShares, allocation: Allocation) -> None:
        state = self._cycle.view.jobs[allocation.job]
        self.again = self._cycle.now + AGAIN
        if state.phase is not Phase.WAITING:
            return
        placement, obstacle = (
            find_wanted(self._cycle, state.job, allocation.most, allocation)
            if section.steers
            else find(self._cycle, state.job, allocation.least)
        )
        if placement is not None:
            self._cycle.start(state.job, placement, Reason(Code.STARTED))
        else:
            wait = Decision(Kind.WAIT, state.number, state.generation, Reason(obstacle))
            self.decisions[state.number] = wait

    def _enter(self) -> None:
        """Hear what planners decided, in turn, so that none of them has the first choice of what all
        of them want."""
        promised = {promise.job for proposal in self._proposals for promise in proposal.promises}
        for decision in in_turn([proposal.decisions for proposal in self._proposals]):
            if decision.kind is Kind.WAIT:
                self.decisions.setdefault(decision.job, decision)
            elif decision.reason.served in promised:
                continue  # it stands or falls with others
            elif decision.reason.code in _LATER:
                self._later.append(decision)
            elif not self._hear(decision):
                self._refused.add(decision.job)

    def _make_room(self, proposal: Proposal) -> None:
        """Hear by what other jobs give way to a gang, and keep the promises that were made."""
        promised = {promise.job for promise in proposal.promises}
        making_room: dict[int, list[Decision]] = {}
        for decision in proposal.decisions:
            if decision.kind is not Kind.WAIT and decision.reason.served in promised:
                making_room.setdefault(decision.reason.served, []).append(decision)
        for beneficiary, decisions in making_room.items():
            if not self._hear(*decisions):
                self._refused.add(beneficiary)
        for promise in proposal.promises:
            if promise.job not in self._refused:
                self._cycle.promise(promise)
        self.migrations += (each for each in proposal.migrations if each.job not in self._refused)

    def _grow(self, larger: Decision) -> None:
        """Let a start have more than its gang, if that is still free."""
        if larger.job not in self._cycle.outcome.starts or larger.placement is None:
            return
        self._claims += 1
        if _enlarge(self._cycle, self._cycle.view.jobs[larger.job].job, larger.placement):
            self.decisions[larger.job] = larger
            _record(self._cycle, larger)
        else:
            self._leave_for_later(larger)

    def _leave_for_later(self, decision: Decision) -> None:
        """Ask for another cycle in which the job may use what is idle then."""
        self._outpaced += 1
        self.again = self._cycle.now + AGAIN
        state = self._cycle.view.jobs[decision.job]
        if decision.reason.code is Code.STARTED_BORROWING and state.number not in self.decisions:
            wait = Decision(Kind.WAIT, state.number, state.generation, _TAKEN_BY_NOW)
            self.decisions[state.number] = wait

    def _hear(self, *decisions: Decision) -> bool:
        """Enter all of these, or none."""
        self._claims += 1
        if not adopt(self._cycle, decisions):
            return False
        self.decisions.update((decision.job, decision) for decision in decisions)
        self._cycle.settled.update(decision.job for decision in decisions)
        return True


def in_turn(lists: Sequence[Sequence[T]]) -> Iterator[T]:
    """Yield from each list in turn, beginning with another one each time."""
    for begin in range(max(map(len, lists), default=0)):
        for i in range(len(lists)):
            each = lists[(begin + i) % len(lists)]
            if begin < len(each):
                yield each[begin]


def adopt(cycle: CycleState, decisions: Sequence[Decision]) -> bool:
    """Enter what a planner decided as a whole; False: something of it is no longer possible."""
    claims = []
    for decision in decisions:
        claim = _claim(cycle, decision)
        if claim is None:
            return False
        claims.append(claim)
    if not _commit(cycle, claims):
        return False
    for decision in decisions:
        _record(cycle, decision)
    return True


def _claim(cycle: CycleState, decision: Decision) -> Claim | None:
    """Return what the decision takes and gives; None: the job has changed, or a limit binds."""
    outcome, number = cycle.outcome, decision.job
    state = cycle.view.jobs[number]
    if number in cycle.settled or number in outcome.starts or not cycle.untouched(state):
        return None
    held = state.held()
    slots = decision.placement.slots if decision.placement is not None else ()
    if decision.kind is Kind.START:
        claim = Claim(number, cycle.view.version, slots)
    else:
        there, then = set(held), set(slots)
        takes = tuple(slot for slot in slots if slot not in there)
        gives = tuple(slot for slot in held if slot not in then)
        claim = Claim(number, cycle.view.version, takes, gives)
    more = cycle.amounts(slots) - cycle.amounts(held)
    if more and cycle.quotas.verdict(state.job, more, borrow=True) is not None:
        return None
    return claim


def _commit(cycle: CycleState, claims: Sequence[Claim]) -> bool:
    """Commit claims as a whole; False: something is not free, nothing is changed. What they give comes
    free later, as with every shrink and stop."""
    ledger, done = cycle.standing.ledger, list[Claim]()
    for claim in claims:
        takes = Claim(claim.job, claim.version, claim.takes)
        if claim.takes and (
            not cycle.board.has(claim.takes) or isinstance(ledger.commit(takes), Rejected)
        ):
            ledger.undo(done)
            return False
        done.append(takes)
    for takes, claim in zip(done, claims, strict=True):
        cycle.take_in(takes)
        job = cycle.view.jobs[claim.job].job
        comes, goes = cycle.amounts(claim.takes), cycle.amounts(claim.gives)
        cycle.quotas.add(job, comes - goes)
        cycle.quotas.give_back(job, goes - comes)
        cycle.let_go(claim.gives)
    return True


def _enlarge(cycle: CycleState, job: Job, placement: Placement) -> bool:
    """Give a job that starts in this cycle a larger placement; False: there is no room for it."""
    old = cycle.outcome.starts[job.number].placement
    more = cycle.amounts(placement.slots) - cycle.amounts(old.slots)
    claim = Claim(job.number, cycle.view.version, placement.slots, old.slots)
    if cycle.quotas.verdict(job, more, borrow=True) is not None:
        return False
    if isinstance(cycle.standing.ledger.commit(claim), Rejected):
        return False
    cycle.take_in(claim)
    cycle.quotas.add(job, more)
    return True


def _record(cycle: CycleState, decision: Decision) -> None:
    outcome = cycle.outcome
    if decision.placement is None:
        outcome.stops[decision.job] = decision.reason
        return
    change = Change(decision.placement, decision.reason, decision.batch)
    if decision.kind is Kind.START:
        outcome.starts[decision.job] = change
        outcome.promises.pop(decision.job, None)
    elif decision.kind is Kind.RESIZE:
        outcome.resizes[decision.job] = change
    else:
        outcome.moves[decision.job] = change
