"""Workers come and go while a model trains: the result is that of one process, whatever happened."""

from pathlib import Path

import pytest

from tests.runtime.scripts import tasks
from tests.runtime.scripts.jobs import LONG, Job, check_result

ENDLESS = ("--epochs", "100000", "--pace", "0.03")
"""Stopped when the members have changed as they should: steps after that would show nothing new."""


@pytest.mark.parametrize("model", ["cnn", "transformer"])
@pytest.mark.parametrize(
    ("sync", "servers", "form"),
    [("ring", 0, ()), ("sharded", 0, ("--loop",)), ("dedicated", 1, ("--loop",))],
)
def test_one_three_two_four(
    model: str, sync: str, servers: int, form: tuple[str, ...], tmp_path: Path
) -> None:
    args = ("--model", model, *ENDLESS, *form)
    with Job(tmp_path, *args, workers=1, servers=servers, sync=sync) as job:
        first = job.ahead(3) and job.pids["worker-0"]
        for count in (3, 2, 4):
            job.change(count, servers)
            job.ahead(8)
        assert job.pids["worker-0"] == first
        outcome = job.end(model)
    assert [(len(c.members) - servers, c.cause) for c in outcome.history.changes] == [
        (1, "start"),
        (3, "plan"),
        (2, "plan"),
        (4, "plan"),
    ]
    for formation, workers in ((1, 1), (2, 3), (3, 2), (4, 4)):
        steps = job.steps_of(formation)
        assert len(steps) > 3
        # Joiners have the state after some steps, and then samples of their own.
        assert len(job.workers_of(max(steps))) == workers
    assert sorted(outcome.history.losses) == list(range(1, outcome.history.step + 1))


@pytest.mark.parametrize(("model", "sync"), [("cnn", "sharded"), ("transformer", "ring")])
def test_unequal_workers_get_unequal_shares(model: str, sync: str, tmp_path: Path) -> None:
    # A sample takes worker-1 four times as long as worker-0, and worker-2 twice as long.
    slow = ("--slow", "worker-0=0.1,worker-1=0.4,worker-2=0.2")
    args = ("--model", model, "--epochs", "30", *slow)
    with Job(tmp_path, *args, workers=3, sync=sync) as job:
        job.ahead(60)
        job.finish()
    shares = {d.task: d.samples for d in job.record.done if d.step == 120}
    assert sum(shares.values()) == tasks.BATCH
    # 24 shared as 1/1 : 1/4 : 1/2 is 13.7, 3.4 and 6.9; a busy machine blurs it. As many each is 8.
    assert shares["worker-0"] > tasks.BATCH / 3
    assert shares["worker-0"] > shares["worker-2"] > shares["worker-1"] >= 1
    check_result(tmp_path, model, 120)


def test_shares_follow_the_members(tmp_path: Path) -> None:
    slow = ("--slow", "worker-0=0.1,worker-1=0.4,worker-2=0.1")
    with Job(tmp_path, *ENDLESS, *slow, workers=2) as job:
        job.ahead(20)
        job.change(3)
        job.ahead(20)
        job.change(1)
        job.ahead(5)
        outcome = job.end()
    for step in range(1, outcome.history.step + 1):
        mine = [d for d in job.record.done if d.step == step]
        assert sum(d.samples for d in mine) == tasks.BATCH


def test_the_coordinator_may_change_its_mind(tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, workers=1) as job:
        job.ahead(3)
        for count in (4, 2, 3, 1, 2):
            job.resize(count)
        job.wait_members(2, LONG)
        job.ahead(5)
        job.end()
