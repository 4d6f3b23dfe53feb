"""Owners that update: nobody has the optimiser's whole state, and the result is plain training's."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runtime.scripts import adam, tasks, unsure
from tests.runtime.scripts.jobs import CLOSE, LONG, Job

ENDLESS = ("--epochs", "100000", "--pace", "0.01")
ADAM, UNSURE = Path(adam.__file__), Path(unsure.__file__)


def job_of(folder: Path, *args: str, **options: Any) -> Job:
    """With owners that update."""
    return Job(folder, *args, **{"owners": "update", "sync": "sharded", **options})


def wait_lost(job: Job, *tasks: str) -> None:
    """Until the members have gone on without these, and done a step."""
    job._wait_for(lambda: not set(tasks) & set(job.history.members), f"loss of {tasks}", LONG)
    formation = job.history.formation
    job._wait_for(lambda: job.record.done[-1].formation >= formation, "step", LONG)


def pieces_kept(folder: Path, step: int) -> list[int]:
    """Elements of the momentum in a checkpoint, by parameter."""
    (path,) = folder.glob(f"step-{step:012d}.pt")
    state = torch.load(path, weights_only=False)["optimizer"]["state"]
    return [kept["momentum_buffer"].numel() for kept in state.values() if kept]


@pytest.mark.parametrize(
    ("model", "sync", "servers"), [("cnn", "sharded", 0), ("transformer", "dedicated", 2)]
)
def test_one_three_two_four_one(model: str, sync: str, servers: int, tmp_path: Path) -> None:
    args = ("--model", model, *ENDLESS, "--loop")
    with job_of(tmp_path, *args, workers=1, servers=servers, sync=sync) as job:
        first = job.ahead(3) and job.pids["worker-0"]
        for count in (3, 2, 4, 1):
            job.change(count, servers)
            job.ahead(8)
        assert job.pids["worker-0"] == first
        outcome = job.end(model)
    assert [len(c.members) - servers for c in outcome.history.changes] == [1, 3, 2, 4, 1]
    assert [c.cause for c in outcome.history.changes] == ["start"] + ["plan"] * 4
    assert sorted(outcome.history.losses) == list(range(1, outcome.history.step + 1))


@pytest.mark.parametrize(
    ("sync", "servers", "kills"),
    [
        ("sharded", 0, 4),
        ("dedicated", 2, 4),
        pytest.param("sharded", 0, 12, marks=pytest.mark.slow),
        pytest.param("dedicated", 2, 12, marks=pytest.mark.slow),
    ],
)
def test_kills_at_random_points(sync: str, servers: int, kills: int, tmp_path: Path) -> None:
    """Any one may go: what it kept has another holder, so no checkpoint is needed."""
    rng, size, killed = random.Random(kills), 3 + servers, set[str]()
    with job_of(tmp_path, *ENDLESS, workers=3, servers=servers, sync=sync, replace=True) as job:
        for _ in range(kills):
            job.wait_members(size, LONG)
            job.ahead(rng.randint(1, 4))
            victim = rng.choice(sorted(set(job.history.members) & set(job.pids)))
            # Waits for nothing: it is the random place within a step, of 10 ms and more.
            time.sleep(rng.random() * 0.02)
            assert job.kill(victim)
            killed.add(victim)
            wait_lost(job, victim)
        job.wait_members(size, LONG)
        outcome = job.end()
    assert outcome.history.lost == dict.fromkeys(killed, "signal 9")


@pytest.mark.parametrize(
    ("before", "saves"), [(2, False), pytest.param(4, True, marks=pytest.mark.slow)]
)
def test_a_kill_while_members_change(before: int, saves: bool, tmp_path: Path) -> None:
    """A leaver and the killed one may be owner and mirror: only then a checkpoint is needed."""
    rng, saved = random.Random(before), ("--checkpoint", str(tmp_path / "saved"))
    with job_of(tmp_path, *ENDLESS, *(saved if saves else ()), workers=before, replace=True) as job:
        for _ in range(4):
            job.change(before)
            job.ahead(6)
            victim = rng.choice([task for task in job.history.members if task in job.pids])
            job.resize(3)
            time.sleep(rng.random() * 0.1)  # before, while or after the others change
            job.kill(victim)
            wait_lost(job, victim)
            job.wait_members(3, LONG)
        job.ahead(12)
        job.end()


def test_owner_and_mirror_at_once_and_a_checkpoint(tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"))
    with job_of(tmp_path, *ENDLESS, *saved, workers=4) as job:
        job.ahead(12)
        # Each is mirrored by the next: what worker-1 owns is lost with worker-2.
        for victim in ("worker-1", "worker-2"):
            job.kill(victim)
        wait_lost(job, "worker-1", "worker-2")
        begun = job.history.formation
        job.ahead(12)
        done = job.record.done
        again = min(d.step for d in done if d.formation >= begun)
        assert again % 5 == 1  # the first after a checkpoint
        assert again <= max(d.step for d in done if d.formation < begun)
        outcome = job.end()
    assert sorted(outcome.history.members) == ["worker-0", "worker-3"]


def test_owner_and_mirror_at_once_and_no_checkpoint(tmp_path: Path) -> None:
    with job_of(tmp_path, *ENDLESS, workers=4) as job:
        job.ahead(5)
        for victim in ("worker-1", "worker-2"):
            job.kill(victim)
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "a checkpoint folder" in outcome.error


@pytest.mark.parametrize(("first", "second"), [("update", "reduce"), ("reduce", "update")])
def test_checkpoints_serve_both_modes(first: str, second: str, tmp_path: Path) -> None:
    saved = ("--checkpoint", str(tmp_path / "saved"))
    with job_of(tmp_path, *ENDLESS, *saved, workers=3, owners=first) as job:
        job.ahead(12)
        stopped = job.end().history.step
    model, *_ = tasks.make("cnn")
    # The tally has no momentum; all others have theirs whole.
    assert sorted(pieces_kept(tmp_path / "saved", stopped)) == sorted(
        p.numel() for n, p in model.named_parameters() if n != "tally"
    )
    with job_of(tmp_path, *ENDLESS, *saved, workers=2, owners=second) as job:
        job.ahead(9)
        assert min(d.step for d in job.record.done) == stopped + 1
        job.end()


@pytest.mark.parametrize(("sync", "servers"), [("ring", 0), ("auto", 1)])
def test_adam_and_a_falling_rate(sync: str, servers: int, tmp_path: Path) -> None:
    args = ("--pace", "0.01")
    with job_of(tmp_path, *args, script=ADAM, workers=2, servers=servers, sync=sync) as job:
        job.ahead(10)
        job.change(3, servers)
        job.ahead(5)
        job.kill("worker-1")
        wait_lost(job, "worker-1")
        job.ahead(5)
        job.stop("enough")
        steps = job.finish().history.step
    mine, other = torch.load(tmp_path / "out.pt"), adam.plain(steps)
    assert tasks.worst(mine, other) < CLOSE


@pytest.mark.parametrize(
    ("where", "servers"),
    [
        # Each is mirrored by the next: only these two have what worker-1 owns.
        ("vote=7@worker-1,worker-2", 0),
        ("vote=7@worker-0,worker-2", 1),
        ("vote=7@server-0", 1),
        ("vote=7@worker-0,worker-1,worker-2", 1),
        ("entry=1@worker-1,worker-2,worker-3", 0),
        ("entry=1@worker-3", 1),
        ("entry=1@server-0,worker-1", 1),
    ],
)
def test_some_are_unsure_whether_all_are_ready(where: str, servers: int, tmp_path: Path) -> None:
    """They find out from the others: a step counts for all or for nobody, and so does an entry."""
    args = ("--pace", "0.01", "--unsure", where)
    sync = "dedicated" if servers else "sharded"
    with job_of(tmp_path, *args, script=UNSURE, workers=3, servers=servers, sync=sync) as job:
        job.ahead(12)
        job.change(4, servers)
        job.ahead(5)
        job.stop("enough")
        outcome = job.finish()
    assert [c.cause for c in outcome.history.changes].count("failure") == 1
    assert not outcome.history.lost
    mine, other = torch.load(tmp_path / "out.pt"), adam.plain(outcome.history.step)
    assert tasks.worst(mine, other) < CLOSE


def test_one_is_unsure_whether_all_are_at_the_end(tmp_path: Path) -> None:
    """The others are gone with their parts of the state: there is nothing to go on with."""
    args = ("--pace", "0.01", "--unsure", "end=1@worker-2")
    with job_of(tmp_path, *args, script=UNSURE, workers=4) as job:
        job.ahead(5)
        job.stop("enough")
        outcome = job.finish()
        job.wait_exit("worker-2")
    mine, other = torch.load(tmp_path / "out.pt"), adam.plain(outcome.history.step)
    assert tasks.worst(mine, other) < CLOSE


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--clip", "1.0"), "norm of the whole gradient"),
        (("--kind", "NAdam"), "NAdam is not known"),
        (("--streams",), "leased shards"),
    ],
)
def test_what_owners_that_update_cannot_do(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    with job_of(tmp_path, *args, script=ADAM) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert words in outcome.error and 'owners="reduce"' in outcome.error


def test_parameters_without_a_gradient(tmp_path: Path) -> None:
    args = ("--pace", "0.01", "--idle")
    with job_of(tmp_path, *args, "refused", script=ADAM, workers=2) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "no gradient reached idle" in outcome.error
    with job_of(tmp_path, *args, "allowed", script=ADAM, workers=2) as job:
        job.ahead(10)
        job.stop("enough")
        steps = job.finish().history.step
    mine = torch.load(tmp_path / "out.pt")
    assert mine.pop("idle").tolist() == [1, 1, 1]  # as it was made
    assert tasks.worst(mine, adam.plain(steps)) < CLOSE
