"""When a job would start and end if it were submitted now."""

from dataclasses import replace

from muster.foresight.forecaster import Forecaster
from muster.foresight.play import Present
from muster.foresight.submitting import Submitting
from muster.model.outlook import Outlook, Table
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, placement, running, view


def test_it_waits_for_what_is_ahead_and_nothing_is_remembered_of_it() -> None:
    busy = running(job("busy", 8, number=1), placement(*(("n0", 1 << bit) for bit in range(8))))
    alone = Table((0.0,) * 7 + (1.0,))
    seen = replace(view(cluster(1), [busy]), outlooks={1: Outlook(600.0, alone)})
    present, forecaster = Present(seen, 0.0, POLICIES["fifo"]), Forecaster()
    question = Submitting(job("next", 8, number=2), Outlook(60.0, alone), worlds=4)
    found = question(present, forecaster)
    assert found.start is not None and 600.0 <= found.start.middle <= 700.0
    assert found.start.middle + 60.0 <= found.finish.middle <= 760.0
    assert found.own and found.preempted == 0.0
    assert forecaster.taken() == [] and len(forecaster.past) == 0
