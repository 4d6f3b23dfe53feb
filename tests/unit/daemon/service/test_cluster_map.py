"""The map of the cluster: who is on each device, for whom it is withheld, and what others may see."""

from math import inf

from muster.daemon.service.reading.cluster_map import cluster_map
from muster.model.decision import Promise
from muster.model.reason import Code
from muster.wire.api.map_records import FREE, HIDDEN
from tests.builders import cluster, job, placement, running, view


def test_each_device_has_its_job_and_who_it_is_withheld_for() -> None:
    first, later = running(job("a", 2), placement(("n0", 0b0011))), job("b", 1)
    here = view(cluster(2), [first, later])
    waiting = next(state for state in here.jobs.values() if state.placement is None)
    promise = Promise(waiting.number, placement(("n1", 0b1)), Code.WAITING_DEVICES, inf)
    found = cluster_map(here, [promise], {}, lambda job: True)
    busy, idle = found.nodes
    (only,) = found.jobs
    assert busy.jobs == (only.number, only.number, *(FREE,) * 6) and busy.promised == ()
    assert idle.jobs == (FREE,) * 8 and idle.promised == (waiting.number, *(FREE,) * 7)
    assert (only.name, only.devices, found.free) == ("a", 2, 14)
    assert found.fragmentation == 6 / 14


def test_of_jobs_that_may_not_be_seen_the_map_has_no_number() -> None:
    hidden = running(job("secret", 1), placement(("n0", 0b1)))
    found = cluster_map(view(cluster(1), [hidden]), [], {}, lambda job: False)
    assert found.nodes[0].jobs[0] == HIDDEN and found.jobs == ()
    assert "secret" not in repr(found)
