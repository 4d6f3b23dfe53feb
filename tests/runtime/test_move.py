"""A training whose tasks all go elsewhere trains on, and comes to the same result."""

from pathlib import Path

import pytest

from tests.runtime.scripts.jobs import LONG, Job

PACE = ("--pace", "0.02", "--epochs", "1000")


def move(job: Job, workers: int, *leave: str) -> None:
    """Want this many workers, none of them among those named."""
    coordinator = job._coordinator
    assert coordinator is not None
    coordinator._do(lambda: coordinator.roster.resize(workers, 0, leave))
    with coordinator.changed:
        assert coordinator.changed.wait_for(
            lambda: (
                len(coordinator.roster.members) == workers
                and not set(leave) & set(coordinator.roster.members)
            ),
            LONG,
        )


@pytest.mark.parametrize("sync", ["ring", "sharded"])
def test_all_tasks_move_and_the_steps_go_on(tmp_path: Path, sync: str) -> None:
    with Job(tmp_path, *PACE, workers=1, sync=sync) as job:
        before = job.ahead(5)
        move(job, 1, "worker-0")
        move(job, 2, "worker-1")
        assert set(job.history.members) == {"worker-2", "worker-3"}
        job.ahead(5)
        outcome = job.end()
        assert outcome.history.lost == {}
        # Nobody began again: the result alone would not tell, since it would be the same.
        assert min(done.step for done in job.record.done if done.task != "worker-0") > before
