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

Whoever else wants the devices gets them: a trial ends when a job waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from muster.model.view import Phase
from muster.policy.bids import Bid, Trial
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
                if (goal := self._goal(bid)) is not None:
                    found[bid.number] = Trial(goal, self.now, _failed(found, bid), open=True)
                    self._lend(bid, goal)
                    break
        again = min((self._again(bid, found) for bid in bids if idle), default=inf)
        return found, again

    def _goes_on(self, bid: Bid, trial: Trial) -> Trial | None:
        """Return the trial after this moment; None: it ended without an answer."""
        over = self.now >= trial.since + self.horizon
        if bid.held == trial.workers and (over or (bid.measured and self.now >= self._enough(bid))):
            failed = 0 if bid.workers >= trial.workers else trial.failed + 1
            return Trial(trial.workers, self.now, failed)
        if over or bid.type != bid.type_held:
            return Trial(trial.workers, self.now, trial.failed + 1)
        if bid.workers < trial.workers <= bid.workers + self.room.most(bid.job, bid.type):
            self._lend(bid, trial.workers)
        return trial

    def _lend(self, bid: Bid, workers: int) -> None:
        self.room.take(bid.job, bid.type, workers - bid.workers)
        bid.workers = workers

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

    def _goal(self, bid: Bid) -> int | None:
        """Return the most workers to lend it: twice what it has, if there is room."""
        most = min(2 * bid.held, bid.held + self.room.most(bid.job, bid.type))
        within = [count for count in bid.curves[bid.type].workers if bid.held < count <= most]
        return within[-1] if within else None

    def _enough(self, bid: Bid) -> float:
        """Return when it has been long enough where it is to be judged."""
        since = self.now if bid.state.since is None else bid.state.since
        return since + bid.paused + TRIED

    def _again(self, bid: Bid, found: Mapping[int, Trial]) -> float:
        """Return when the job's trial ends, or could begin."""
        trial = found.get(bid.number)
        if trial is not None and trial.open:
            moments = (self._enough(bid), trial.since + self.horizon)
        elif _could(bid):
            moments = (self._due(bid, found), self._enough(bid))
        else:
            return inf
        return min((moment for moment in moments if moment > self.now), default=inf)


def _could(bid: Bid) -> bool:
    """Whether it can be resized live, keeps or starts with what it was dealt, and could use more."""
    if bid.job.restarts or bid.workers >= bid.job.workers.most or bid.outlook.spread <= 0.0:
        return False
    keeps = bid.held == bid.workers and bid.type == bid.type_held
    return bid.workers > 0 and (keeps or not bid.held)


def _failed(found: Mapping[int, Trial], bid: Bid) -> int:
    trial = found.get(bid.number)
    return 0 if trial is None else trial.failed
