"""Tasks are killed (-9) at any moment: those who are left lose neither a step nor a sample."""

import random
import time
from pathlib import Path

import pytest

from tests.runtime.scripts.jobs import LONG, Job

KILLS = 25
"""With each of two ways to synchronise: 50 in all, by `make live`; `make test` does fewer."""
ENDLESS = ("--epochs", "100000", "--pace", "0.01")
SLOW_STATE = ("--slow-state", "0.05")
"""Nine parameters, one in each step at least: the joiner of a job is without samples for some steps."""


def trainers(job: Job) -> list[str]:
    """Living workers that had samples in the last step: they hold the state."""
    living, last = job.pids, (job.history.step, job.history.formation)
    recent = [d for d in job.record.done[-20:] if d.samples and d.task in living]
    return sorted({d.task for d in recent if (d.step, d.formation) == last})


def wait_trainers(job: Job, count: int) -> None:
    assert job.watch(lambda _: len(trainers(job)) >= count, LONG)


def wait_incomplete(job: Job, joiner: str) -> None:
    """Until it takes part in steps; it has no samples yet, since it lacks a part of the state."""
    job._wait_for(lambda: any(d.task == joiner for d in job.record.done), "step of a joiner", LONG)
    assert not any(d.samples for d in job.record.done if d.task == joiner)


def wait_lost(job: Job, *tasks: str) -> None:
    """Until the members have gone on without these, and done a step."""
    job._wait_for(lambda: not set(tasks) & set(job.history.members), f"loss of {tasks}", LONG)
    formation = job.history.formation
    job._wait_for(lambda: job.record.done[-1].formation >= formation, "step", LONG)


@pytest.mark.parametrize(
    ("sync", "kills"),
    [
        ("ring", 4),
        ("sharded", 4),
        pytest.param("ring", KILLS, marks=pytest.mark.slow),
        pytest.param("sharded", KILLS, marks=pytest.mark.slow),
    ],
)
def test_at_random_points(sync: str, kills: int, tmp_path: Path) -> None:
    rng = random.Random(5 if sync == "ring" else 6)
    with Job(tmp_path, *ENDLESS, workers=3, sync=sync, replace=True) as job:
        for _ in range(kills):
            job.ahead(rng.randint(1, 4))
            wait_trainers(job, 2)  # so that one is left, whoever goes
            victim = rng.choice(sorted(set(job.history.members) & set(job.pids)))
            # Waits for nothing: it is the random place within a step, of 10 ms and more.
            time.sleep(rng.random() * 0.02)
            assert job.kill(victim)
        outcome = job.end()
    assert list(outcome.history.lost.values()).count("signal 9") == kills


@pytest.mark.parametrize("victim", ["worker-0", "worker-1", "worker-2"])
@pytest.mark.parametrize("sync", ["ring", "sharded"])
def test_while_a_joiner_gets_the_state(victim: str, sync: str, tmp_path: Path) -> None:
    """worker-2 joins, worker-0 is the first worker and the donor, worker-1 looks on."""
    with Job(tmp_path, *ENDLESS, *SLOW_STATE, workers=2, sync=sync) as job:
        wait_trainers(job, 2)
        job.change(3)
        wait_incomplete(job, "worker-2")
        job.kill(victim)
        wait_lost(job, victim)
        wait_trainers(job, 2)
        outcome = job.end()
    assert outcome.history.lost == {victim: "signal 9"}
    assert outcome.history.changes[-1].cause == "failure"


@pytest.mark.parametrize("victims", [("worker-0",), ("worker-1", "worker-3"), ("worker-0", "worker-1")])
def test_first_worker_and_two_at_once(victims: tuple[str, ...], tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, "--loop", workers=4) as job:
        wait_trainers(job, 4)
        for victim in victims:
            job.kill(victim)
        wait_lost(job, *victims)
        outcome = job.end()
    assert outcome.history.lost == dict.fromkeys(victims, "signal 9")
    assert len(outcome.history.changes[-1].members) == 4 - len(victims)


def test_a_leaver(tmp_path: Path) -> None:
    rng = random.Random(7)
    with Job(tmp_path, *ENDLESS, workers=2) as job:
        for turn in range(6):
            leaver = f"worker-{turn + 1}"
            wait_trainers(job, 2)
            job.resize(1)
            time.sleep(rng.random() * 0.04)  # before, while or after it leaves
            job.kill(leaver)
            wait_lost(job, leaver)
            job.change(2)
        assert job.history.members == ("worker-0", "worker-7")
        job.end()


@pytest.mark.parametrize("victim", ["worker-0", "worker-1"])
def test_when_another_leaves(victim: str, tmp_path: Path) -> None:
    """The others have begun the next step without a meeting: it does not count before all are there."""
    with Job(tmp_path, *ENDLESS, "--dies-going-on", victim, workers=3) as job:
        wait_trainers(job, 3)
        job.resize(2)
        wait_lost(job, victim)
        job.ahead(3)
        outcome = job.end()
    assert outcome.history.lost == {victim: "signal 9"}
    assert [change.cause for change in outcome.history.changes] == ["start", "failure"]


@pytest.mark.parametrize("servers", [1, 2])
def test_a_server(servers: int, tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, workers=2, servers=servers, sync="dedicated") as job:
        wait_trainers(job, 2)
        job.kill("server-0")
        wait_lost(job, "server-0")
        job.ahead(5)
        outcome = job.end()
    assert outcome.history.lost == {"server-0": "signal 9"}


def test_a_server_is_replaced(tmp_path: Path) -> None:
    with Job(tmp_path, *ENDLESS, workers=2, servers=1, sync="dedicated", replace=True) as job:
        wait_trainers(job, 2)
        job.kill("server-0")
        wait_lost(job, "server-0")
        job.wait_members(3, LONG)
        job.ahead(5)
        outcome = job.end()
    assert outcome.history.changes[-1].members == ("worker-0", "worker-1", "server-1")


def test_all_and_another_number_begins_from_the_checkpoint(tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, *ENDLESS, *saved, workers=3) as job:
        job.ahead(23)
        for victim in list(job.pids):
            job.kill(victim)
        outcome = job.wait(LONG)
    assert (outcome.code, len(outcome.history.lost)) == (1, 3)
    assert "all workers are gone" in outcome.error
    with Job(tmp_path, *ENDLESS, *saved, workers=2) as job:
        job.ahead(10)
        # A checkpoint every 5 steps, perhaps one of them unfinished; the first step after it is done.
        assert min(d.step for d in job.record.done) > 10
        job.end()


def test_all_and_the_launcher_begins_again(tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, *ENDLESS, *saved, workers=2, restarts=1) as job:
        job.ahead(13)
        for victim in list(job.pids):
            job.kill(victim)
        job._wait_for(lambda: job.history.members == ("worker-2", "worker-3"), "restart", LONG)
        job.ahead(5)
        job.end()


@pytest.mark.parametrize("saved", [True, False])
def test_the_last_holder_of_the_state(saved: bool, tmp_path: Path) -> None:
    """The joiner has a part of the state and must not go on with that."""
    checkpoint = ("--checkpoint", str(tmp_path / "saved")) if saved else ()
    with Job(tmp_path, *ENDLESS, *SLOW_STATE, *checkpoint, workers=1, restarts=1) as job:
        job.ahead(12)
        job.change(2)
        wait_incomplete(job, "worker-1")
        job.kill("worker-0")
        wait_lost(job, "worker-0")
        job.ahead(20)
        job.end()
        # Its restart is the launcher's, since a part of a state is of no use.
        assert job.history.members == (("worker-1",) if saved else ("worker-2", "worker-3"))
    if not saved:
        assert "held the whole state" in job.output()
