"""Nodes, pools and tasks as users see them."""

from dataclasses import replace

from muster.daemon.gang.state import GangState, Sight
from muster.daemon.gang.transitions import Goal
from muster.daemon.service.reading.records import holdings, node_record, pool_records, task_records
from muster.model.job import Job, Role
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.task import TaskEnded, TaskExited, TaskId, TaskOrdered
from muster.model.view import JobState
from muster.store.batch import Journalled
from tests.builders import cluster, job, placement, running, slot, view

PLACED = placement(("n0", 0b0001), ("n0", 0b0110))


def test_a_node_shows_which_devices_are_held_and_by_whom() -> None:
    here = view(cluster(2), [running(job("b", 2), PLACED), job("waits", 1)])
    held = holdings(here)
    busy, idle = (node_record(here, node, held, lambda job: job.name) for node in here.cluster.nodes)
    assert (busy.jobs, busy.bitmap, busy.free, busy.devices) == (("b",), "xxx.....", 5, 8)
    assert (idle.jobs, idle.bitmap, idle.free) == ((), "........", 8)


def test_of_jobs_that_may_not_be_seen_a_node_tells_only_how_many() -> None:
    jobs = [running(job(name, 1), placement(("n0", 1 << at))) for at, name in enumerate("abc")]
    (node,) = view(cluster(1), [*jobs]).cluster.nodes

    def jobs_on(*hidden: str) -> tuple[str, ...]:
        here = view(cluster(1), [*jobs])
        named = node_record(
            here, node, holdings(here), lambda job: None if job.name in hidden else job.name
        )
        return named.jobs

    assert jobs_on("b") == ("a", "c", "another user's job")
    assert jobs_on("a", "b", "c") == ("3 jobs of other users",)


def test_pools_come_after_their_parents_and_count_what_is_below() -> None:
    pools = PoolTree(
        {
            "vision": Pool("vision", "lab"),
            "lab": Pool("lab", quotas={"A100": Quota(reservation=8)}),
        }
    )
    jobs: list[Job | JobState] = [
        running(job("a", 2, pool="vision"), PLACED),
        job("b", 1, pool="vision"),
    ]
    found = pool_records(view(cluster(1), jobs, pools), Entitlements({("lab", "A100"): 5}), {"lab"})
    assert [(pool.name, pool.leaf, pool.shared) for pool in found] == [
        ("lab", False, True),
        ("vision", True, False),
    ]
    for pool in found:
        assert (pool.running, pool.pending, pool.quotas[0].used) == (1, 1, 3)
    assert (found[0].quotas[0].reservation, found[0].quotas[0].entitled) == (8, 5)


def ordered(index: int, attempt: int = 0, generation: int = 1) -> TaskOrdered:
    task = TaskId(1, generation, Role.WORKER, index, attempt)
    return TaskOrdered(1, task, slot("n0", 1 << index, index), 0.0)


def journal(*facts: TaskOrdered | TaskEnded) -> list[Journalled]:
    return [Journalled(at, fact) for at, fact in enumerate(facts, 1)]


def test_tasks_that_live_and_tasks_that_have_ended() -> None:
    first, again, other = ordered(0), ordered(0, attempt=1), ordered(1)
    end = TaskEnded(1, TaskExited(first.task, 1.0, None, 9, error="out of memory"), 1.0, lost=True)
    gang = GangState(tasks=(again, other))
    sight = Sight(running=frozenset({other.task}))
    found = task_records(gang, sight, journal(first, other, end, again))
    assert [(each.task, each.attempt, each.status) for each in found] == [
        ("worker-0", 0, "ended"),
        ("worker-0", 1, "ordered"),
        ("worker-1", 0, "running"),
    ]
    assert (found[0].code, found[0].signal, found[0].error) == (None, 9, "out of memory")
    assert (found[2].devices, found[2].log) == ((1,), "1/worker-1")


def test_all_live_tasks_are_stopping_when_their_gang_is() -> None:
    gang = GangState(tasks=(ordered(0), ordered(1)), goal=Goal.PREEMPT)
    found = task_records(gang, Sight(), [])
    assert [each.status for each in found] == ["stopping", "stopping"]


def test_tasks_of_a_job_that_is_over_have_ended_even_if_nobody_saw_how() -> None:
    (found,) = task_records(None, Sight(), journal(ordered(0)))
    assert (found.status, found.code) == ("ended", None)
    later = replace(ordered(0), task=replace(ordered(0).task, generation=2))
    assert [each.generation for each in task_records(None, Sight(), journal(later, ordered(0)))] == [
        1,
        2,
    ]
