"""AFS, apathetic future share: one device at a time, to the winner of pairwise comparisons.

Source: Hwang et al., "Elastic resource sharing for distributed deep learning", NSDI'21 (KAIST). Let p
be a job's speed (work per s) with what it has been dealt, p' with one more worker. Of two jobs

- with nothing yet: the one with the shorter time left on its first grant gets it;
- else, s being the one that would now end sooner (time left = work left / p, in s) and l the other: l
  gets it if and only if (p'_l - p_l) / p'_l > (p'_s - p_s) / p_s, else s.

The inequality compares the sums of the two completion times, assuming the job left keeps its share when
the other ends: the future does not matter ("apathetic"). A job drops out once one more worker does not
raise its speed. `known` lengths are AFS-L. Otherwise (AFS-P) attained service stands for work left
(`unknown.expected`), at the speed per device of its gang.

The paper deals single devices. Here a job's first grant is its gang, and workers may take several
devices, so both sides are divided by the devices of the grant: gains per device. The relation is not
transitive, so the order matters: jobs are compared in order of priority and age, the winner with the
next.
"""

from dataclasses import dataclass
from functools import partial
from math import inf
from operator import attrgetter

from muster.model.pool import Entitlements
from muster.model.view import View
from muster.policy.base import Allocation, Shares
from muster.policy.merits import by_service, by_time_left
from muster.policy.room import Room
from muster.policy.unknown import Crowd, Prospect, expected, prospects


@dataclass(frozen=True, slots=True)
class Afs:
    """Winner of pairwise comparisons, device by device."""

    name: str = "afs"
    informed: bool = True
    known: bool = True
    """Whether the outlooks' work left is used."""
    cap: int | None = None
    """Most devices of a job beyond its gang; None: as many as it can use."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate workers, one grant at a time."""
        room = Room(view, entitlements)
        queue = prospects(view, room.movable, now)
        crowd = Crowd(entitlements.capacity)
        bids = [_Bid(each, None if self.known else expected(each.state, now)) for each in queue]
        contest = _Contest([bid for bid in bids if bid.enter(room, crowd, self.cap)])
        while contest.live and any(room.free(each) > 0 for each in entitlements.capacity):
            contest.settle(contest.winner.grant(room, crowd))
        # Small jobs are placed first, as in the evaluations of Optimus and AFS.
        dealt = sorted((bid.gets() for bid in bids), key=attrgetter("most"))
        everyone = view.jobs.values()
        known = partial(by_time_left, view, room, everyone, now)
        merits = known if self.known else partial(by_service, everyone, now)
        return Shares(tuple(dealt), memory, steers=True, merits=merits)


class _Bid:
    """A job, what it was dealt, and what one more grant would change."""

    def __init__(self, prospect: Prospect, had: float | None) -> None:
        self.prospect = prospect
        self.had = had
        """Device-seconds that stand for the work left; None: it is known."""
        self.device_type = ""
        self.workers = 0
        self.limit = prospect.most
        self.time = inf
        """s left with what it has."""
        self.first = inf
        """s left with its gang."""
        self.behind = 0.0
        """(p' - p) / p' per device of the grant: counts if it is the longer."""
        self.ahead = inf
        """(p' - p) / p per device of the grant: counts if it is the shorter."""

    def enter(self, room: Room, crowd: Crowd, cap: int | None) -> bool:
        """Return whether it takes part; a job without devices gets its gang and does not."""
        prospect = self.prospect
        if not prospect.each:
            self.workers = prospect.gang
            return False
        if cap is not None:
            self.limit = max(prospect.gang, min(prospect.most, cap // prospect.each))
        return self._choose(room, crowd)

    def grant(self, room: Room, crowd: Crowd) -> bool:
        """Give it one more worker, or its gang; return whether it still takes part."""
        more = 1 if self.workers else self.prospect.gang
        if room.most(self.prospect.job, self.device_type) < more:
            return not self.workers and self._choose(room, crowd)
        room.take(self.prospect.job, self.device_type, more)
        self.workers += more
        return self._weigh()

    def gets(self) -> Allocation:
        return self.prospect.gets(self.device_type, self.workers)

    def _choose(self, room: Room, crowd: Crowd) -> bool:
        chosen = self.prospect.choose_type(room, crowd)
        if chosen is None:
            return False
        self.device_type = chosen
        return self._weigh()

    def _weigh(self) -> bool:
        """Compute times and gains; False: one more is of no use."""
        if self.workers >= self.limit:
            return False
        prospect, held = self.prospect, self.workers
        gang_rate = prospect.rate(self.device_type, prospect.gang)
        left = prospect.left
        if self.had is not None:
            left = self.had * gang_rate / (prospect.gang * prospect.each)
        if not held:
            self.first = left / gang_rate
            self.behind = 1.0 / (prospect.gang * prospect.each)
            return True
        now = prospect.rate(self.device_type, held)
        then = prospect.rate(self.device_type, held + 1)
        if then <= now:
            return False
        self.time = left / now
        self.behind = (then - now) / (then * prospect.each)
        self.ahead = (then - now) / (now * prospect.each)
        return True


class _Contest:
    """Jobs in order, and the winner among each prefix of them.

    After a grant only the winner has changed, so comparisons before its turn still hold.
    """

    def __init__(self, live: list[_Bid]) -> None:
        self.live = live
        self._leads: list[int] = []
        self._compare()

    @property
    def winner(self) -> _Bid:
        return self.live[self._leads[-1]]

    def settle(self, stays: bool) -> None:
        """Compare again after the winner's grant, without it if it does not stay."""
        changed = self._leads[-1]
        if not stays:
            del self.live[changed]
        del self._leads[changed:]
        self._compare()

    def _compare(self) -> None:
        live, leads = self.live, self._leads
        if not live:
            return
        if not leads:
            leads.append(0)
        lead = leads[-1]
        best = live[lead]
        for at in range(len(leads), len(live)):
            each = live[at]
            if each.time < best.time:
                wins = best.behind <= each.ahead
            elif best.time < inf:
                wins = each.behind > best.ahead
            else:
                wins = each.first < best.first
            if wins:
                lead, best = at, each
            leads.append(lead)


POLICIES = (Afs(), Afs(name="afs-p", known=False))
