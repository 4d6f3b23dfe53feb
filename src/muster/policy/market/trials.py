"""Trials: idle devices lent to a job that is believed not to need them, to see whether it does.

A belief may be wrong or out of date: one bad measurement, a machine that was busy then, another batch.
A job that keeps few devices for such a reason would never show better. So while devices are idle and
nobody waits:

1. a job that could be resized live, and is measured where it is, is lent as many workers again as it
   has (Pollux grows no faster), one job of a pool at a time;
2. it keeps them for `TRIED` s after its pause, until it is measured there; then beliefs decide, with
   that measurement among them;
3. if they let it keep them, it may be lent more at once; if not, the next trial comes after `horizon`,
   then after twice as long, and so on. Each costs two pauses; between two there are 100 pauses or more.

Likewise a job is lent as many workers as it has on a type where no job of its application was measured:
data sheets and other applications say how fast it should be there, and only a trial how fast it is. One
that must restart to move is tried, too, if it has long enough left.

Whoever else wants the devices gets them: a trial ends when a job waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from muster.model.view import Phase
from muster.policy.market.bids import Bid, Trial
from muster.policy.room import Room

TRIED = 30.0
"""s of a trial after its pause: the runtime's first two measurements take 15."""
RARE = 100.0
"""Least s between two trials, in pauses."""
WORTH = 10.0
"""Least s that a job has left, in trials: the others gain from it what this one loses."""


@dataclass(slots=True)
class Trials:
    """The trials of one pool's jobs, at one moment."""

    known: Mapping[int, Trial]
    room: Room
    horizon: float
    now: float

    def hold(self, bids: Sequence[Bid]) -> tuple[dict[int, Trial], float]:
        """Lend idle devices, after the deal; return all trials, and when to ask again."""
        found = {bid.number: self.known[bid.number] for bid in bids if bid.number in self.known}
        idle = all(bid.workers for bid in bids)
        for bid in bids:
            trial = found.get(bid.number)
            if trial is not None and trial.open and bid.state.phase is Phase.RUNNING:
                after = self._goes_on(bid, trial) if idle else None
                found.pop(bid.number)
                if after is not None:
                    found[bid.number] = after
        if idle and not any(trial.open for trial in found.values()):
            ready = [bid for bid in bids if self._may(bid) and self._due(bid, found) <= self.now]
            for bid in sorted(ready, key=lambda bid: (_failed(found, bid), bid.number)):
                if (goal := self._elsewhere(bid) or self._more(bid)) is not None:
                    where, workers = goal
                    found[bid.number] = Trial(workers, self.now, _failed(found, bid), True, where)
                    self._lend(bid, where, workers)
                    break
        return found, self._next(bids, found) if idle else inf

    def _next(self, bids: Sequence[Bid], found: Mapping[int, Trial]) -> float:
        """Return when a trial ends, or the next could begin: after the one that is open, and if there
        is anything to lend."""
        if any(trial.open for trial in found.values()):
            bids = [bid for bid in bids if bid.number in found and found[bid.number].open]
        return min([self._again(bid, found) for bid in bids], default=inf)

    def _goes_on(self, bid: Bid, trial: Trial) -> Trial | None:
        """Return the trial after this moment; None: it ended without an answer."""
        over = self.now >= trial.since + self.horizon
        there = bid.type_held == trial.device_type and bid.held == trial.workers
        if there and (over or (bid.measured and self.now >= self._enough(bid))):
            kept = bid.type == trial.device_type and bid.workers >= trial.workers
            return Trial(trial.workers, self.now, 0 if kept else trial.failed + 1)
        if over or not (there or bid.type == bid.type_held):
            return Trial(trial.workers, self.now, trial.failed + 1)
        had = bid.workers if bid.type == trial.device_type else 0
        if had < trial.workers <= had + self.room.most(bid.job, trial.device_type):
            self._lend(bid, trial.device_type, trial.workers)
        return trial

    def _lend(self, bid: Bid, device_type: str, workers: int) -> None:
        self.room.take(bid.job, bid.type, -bid.workers)
        self.room.take(bid.job, device_type, workers)
        bid.type, bid.workers = device_type, workers

    def _may(self, bid: Bid) -> bool:
        """Whether a trial would tell something, at little cost."""
        here = bid.outlook.here
        enough = WORTH * (TRIED + 2 * bid.pause)
        return _could(bid) and here is not None and here > 0.0 and bid.left / here > enough

    def _due(self, bid: Bid, found: Mapping[int, Trial]) -> float:
        """Return when the job may be tried next."""
        trial = found.get(bid.number)
        if trial is None or not trial.failed:
            return self._enough(bid)
        return trial.since + max(self.horizon, RARE * bid.pause) * 2.0 ** (trial.failed - 1)

    def _elsewhere(self, bid: Bid) -> tuple[str, int] | None:
        """Return the type to try it on, the one believed fastest, and as many workers as it has."""
        untried = (each for each in bid.outlook.untried if each in bid.curves)
        found = [
            (bid.curves[each].speeds[bid.curves[each].workers.index(bid.held)], each)
            for each in untried
            if bid.held in bid.curves[each].workers and self.room.most(bid.job, each) >= bid.held
        ]
        return (max(found)[1], bid.held) if found else None

    def _more(self, bid: Bid) -> tuple[str, int] | None:
        """Return its type and the most workers to lend it: twice what it has, if there is room."""
        if not _could_grow(bid):
            return None
        most = min(2 * bid.held, bid.held + self.room.most(bid.job, bid.type))
        within = [count for count in bid.curves[bid.type].workers if bid.held < count <= most]
        return (bid.type, within[-1]) if within else None

    def _enough(self, bid: Bid) -> float:
        """Return when it has been long enough where it is to be judged."""
        since = self.now if bid.state.since is None else bid.state.since
        return since + bid.paused + TRIED

    def _again(self, bid: Bid, found: Mapping[int, Trial]) -> float:
        """Return when the job's trial ends, or could begin."""
        trial = found.get(bid.number)
        if trial is not None and trial.open:
            moments: tuple[float, ...] = (self._enough(bid), trial.since + self.horizon)
        elif not _could(bid) or (bid.held and (self._elsewhere(bid) or self._more(bid)) is None):
            return inf
        elif trial is None or not trial.failed:
            moments = (self._enough(bid),)
        else:
            moments = (self._due(bid, found), self._enough(bid))
        return min([moment for moment in moments if moment > self.now], default=inf)


def _could(bid: Bid) -> bool:
    """Whether it keeps or starts with what it was dealt, and could use more or something else."""
    untried = bid.outlook.untried
    if not untried and not _could_grow(bid):
        return False
    if bid.beside or not bid.workers or bid.outlook.spread <= 0.0:
        return False
    if bid.held and not (bid.held == bid.workers and bid.type == bid.type_held):
        return False
    return _could_grow(bid) or any(each in bid.curves for each in untried)


def _could_grow(bid: Bid) -> bool:
    """Whether it could use more workers without a restart."""
    return bid.workers < bid.most and not bid.job.restarts


def _failed(found: Mapping[int, Trial], bid: Bid) -> int:
    trial = found.get(bid.number)
    return 0 if trial is None else trial.failed
