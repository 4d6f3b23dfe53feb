"""Notices on their way, each to one subscription: when to try again, and when to give up."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

from muster.daemon.notify.notice import Notice

DELAYS = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""s to the next attempt, after each that failed; then it is given up."""
MOST = 1_000
"""Notices kept for one subscription: older ones go first."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notice to be told to a subscriber."""

    to: str
    """The subscription's key; or `job`, whose own webhook is `url`."""
    notice: Notice
    due: float = 0.0
    attempts: int = 0
    url: str = ""


@dataclass(slots=True)
class Record:
    """How the deliveries of a subscription have gone since the daemon began."""

    told: int = 0
    given_up: int = 0
    error: str = ""
    """Of the last attempt that failed; empty: the last one succeeded."""


@dataclass(slots=True)
class Notices:
    """Deliveries, and up to where the journal has been read."""

    seq: int = 0
    deliveries: list[Delivery] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

    def add(self, new: Iterable[Delivery]) -> None:
        """Take deliveries; of one subscriber's, the newest are kept."""
        self.deliveries += new
        count: dict[str, int] = {}
        kept = []
        for each in reversed(self.deliveries):
            count[each.to] = count.get(each.to, 0) + 1
            if count[each.to] <= MOST:
                kept.append(each)
            else:
                self.records.setdefault(each.to, Record()).given_up += 1
        self.deliveries = kept[::-1]

    def due(self, now: float) -> list[Delivery]:
        """Return the first delivery of each subscriber whose time has come: theirs stay in order."""
        first: dict[str, Delivery] = {}
        for each in self.deliveries:
            first.setdefault(each.to, each)
        return [each for each in first.values() if each.due <= now]

    def next_due(self) -> float | None:
        """Return when the next delivery is due; None: there is none."""
        first: dict[str, float] = {}
        for each in self.deliveries:
            first.setdefault(each.to, each.due)
        return min(first.values(), default=None)

    def note(self, tried: Delivery, error: str, now: float) -> None:
        """Note how an attempt went: it is over, due again, or given up."""
        record = self.records.setdefault(tried.to, Record())
        record.error = error
        place = self.deliveries.index(tried)
        if error and tried.attempts < len(DELAYS):
            due = now + DELAYS[tried.attempts]
            self.deliveries[place] = replace(tried, due=due, attempts=tried.attempts + 1)
            return
        del self.deliveries[place]
        if error:
            record.given_up += 1
        else:
            record.told += 1

    def drop(self, to: str) -> None:
        """Forget a subscriber."""
        self.deliveries = [each for each in self.deliveries if each.to != to]
        self.records.pop(to, None)


def read_pending(stored: str | None, seq: int) -> Notices:
    """Return the notices from what `stored_pending` returned; new ones begin at this fact."""
    if not stored:
        return Notices(seq)
    found = json.loads(stored)
    waiting = [Delivery(**{**each, "notice": Notice(**each["notice"])}) for each in found["deliveries"]]
    return Notices(found["seq"], waiting)


def stored_pending(pending: Notices) -> str:
    """Return what must outlive the daemon, as text."""
    return json.dumps({"seq": pending.seq, "deliveries": [asdict(each) for each in pending.deliveries]})
