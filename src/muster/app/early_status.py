"""The status of a daemon that does not stand yet, from its store."""

from muster import __version__
from muster.store.store import Store
from muster.wire.api.daemon_records import StatusRecord
from muster.wire.api.job_records import LIVE

STARTING, WAITING = "starting", "waiting"


def early_status(store: Store, since: float) -> StatusRecord:
    """Return what the store knows: jobs, by status. What was folded is not known yet."""
    counts = store.counts()
    return StatusRecord(
        version=__version__,
        cluster="",
        role=STARTING,
        since=since,
        policy="",
        devices=0,
        free=0,
        pending=counts.get(WAITING, 0),
        running=sum(counts.get(status, 0) for status in LIVE if status != WAITING),
        cycles=0,
        last_cycle=0.0,
        counts=counts,
    )
