"""Jobs that no budget is left for are foreseen to start once it renews."""

from dataclasses import replace

from muster.core.planners.delta import delta
from muster.daemon.foresight.kept_back import KeptBack
from tests.builders import cluster, job, placement, running, view

DECEMBER = 1796083200.0


def test_a_barred_job_may_start_when_the_month_begins() -> None:
    seen = view(cluster(1), [job("a", number=1), job("b", number=2)])
    kept = KeptBack()
    kept.bar({1}, DECEMBER)
    shown = kept.shown(seen)
    assert [shown.jobs[number].not_before for number in (1, 2)] == [DECEMBER, 0.0]
    assert list(shown.jobs) == list(seen.jobs)
    kept.bar((), DECEMBER)
    assert kept.shown(seen) is seen


def test_what_has_not_changed_is_not_sent_again() -> None:
    """Thousands may wait for a budget."""
    seen = view(cluster(1), [job("a", number=1), job("b", number=2)])
    kept = KeptBack()
    kept.bar({1, 2}, DECEMBER)
    first = kept.shown(seen)
    changed = replace(seen.jobs[2], held_by="ann")
    after = kept.shown(replace(seen, jobs={**seen.jobs, 2: changed}))
    assert [number for number, *_ in delta(first, after).jobs] == [2]


def test_a_job_that_has_gone_is_left_out() -> None:
    seen = view(cluster(1), [running(job("b", number=2), placement(("n0", 1)))])
    kept = KeptBack()
    kept.bar({1}, DECEMBER)
    assert list(kept.shown(seen).jobs) == [2]
