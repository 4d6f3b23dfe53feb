"""Sweeps of real processes: submitted with one command, stopped at rungs, continued."""

import json
import sys
from pathlib import Path

import pytest

from tests.live.daemons import LONG, Daemon, until

DESCEND = Path(__file__).parent / "scripts" / "descend.py"
TOLD = 'printf "%s\\n" "$MUSTER_SWEEP $MUSTER_SWEEP_INDEX/$MUSTER_SWEEP_SIZE $MUSTER_SWEEP_LR {seed}"'


def test_each_member_has_its_values_its_name_and_its_log(daemon: Daemon) -> None:
    words = ("run", "-y", "--wait", "--name", "grid", "--sweep", "lr=0.1,0.01", "--sweep", "seed=1..2")
    done = daemon.muster(*words, "--", "sh", "-c", TOLD)
    assert done.returncode == 0, done.stderr
    assert "4 members: lr=0.1,0.01 seed=1..2" in done.stdout
    assert "finished, 4 members: 4 succeeded" in done.stdout
    printed = [next(daemon.client.logs(f"grid.{place}", follow=False)) for place in range(4)]
    assert printed == [
        f"1/worker-0 | grid {place}/4 {lr} {seed}"
        for place, (lr, seed) in enumerate([("0.1", 1), ("0.1", 2), ("0.01", 1), ("0.01", 2)])
    ]


def test_an_array_runs_so_many_at_once(daemon: Daemon) -> None:
    job = {"name": "rows", "command": ["sh", "-c", "echo row {index}; exec sleep 600"]}
    sweep = daemon.client.sweep(job, array="3-9:3%1")

    def statuses() -> dict[str, str]:
        return {each.index: each.status for each in sweep.members()}

    until(lambda: statuses() == {"3": "running", "6": "to come", "9": "to come"})
    daemon.client.stop("rows.3")
    until(lambda: statuses() == {"3": "cancelled", "6": "running", "9": "to come"})
    printed = until(lambda: list(daemon.client.logs("rows.6", follow=False)), "it prints")
    assert printed == ["1/worker-0 | row 6"]
    assert sweep.stop().status == "stopping"
    assert sweep.wait(LONG).counts == {"cancelled": 2}


def test_losers_are_stopped_and_the_best_is_trained_to_its_end(daemon: Daemon) -> None:
    rates = [0.001, 0.01, 0.02, 0.05, 0.3, 0.1]
    sweep = daemon.client.sweep(
        {"name": "descent", "command": [sys.executable, str(DESCEND), "--lr", "{lr}"]},
        over={"lr": rates},
        asha={"metric": "loss", "rung": 1, "eta": 2},
        at_most=3,
    )
    assert sweep.wait(LONG).status == "finished"
    best = sweep.best()
    assert best is not None
    assert (best.params["lr"], best.status, best.epoch) == ("0.3", "succeeded", 9)
    worst = next(each for each in sweep.members() if each.params["lr"] == "0.001")
    assert worst.status == "pruned"
    assert worst.reason.startswith("stopped at rung 1 (1 epoch): loss 0.996")
    trained = sum(each.epoch or 0 for each in sweep.members())
    assert trained < 9 * len(rates)
    # What was stopped goes on from where it was, if somebody wants it.
    (job,) = sweep.go_on([worst.index], "--epochs", "12")
    assert daemon.await_status(str(job.number), "succeeded", "failed").status == "succeeded"
    lines = list(daemon.client.logs(job.number, follow=False))
    assert lines[0].endswith(f"from epoch {worst.epoch}")
    assert lines[-1].endswith("after epoch 12")
    again = next(each for each in sweep.members() if each.index == worst.index)
    assert (again.number, again.status, again.epoch) == (job.number, "succeeded", 12)
    assert again.reason == f"continues job {worst.number}, pruned"
    shown = daemon.muster("sweep", "show", "descent", "--plot").stdout
    assert shown.index("0.3 ") < shown.index("0.001 ")
    assert "loss over lr (log)" in shown
    members = json.loads(daemon.muster("sweep", "show", "descent", "-o", "json").stdout)["members"]
    assert [each["params"]["lr"] for each in members] == [f"{rate:g}" for rate in rates]


def test_mistakes_are_told_before_anything_is_submitted(daemon: Daemon) -> None:
    done = daemon.muster("run", "-y", "--sweep", "lr=0.1", "--", "echo", "{lrr}")
    assert done.returncode == 2
    assert "{lrr} is none of the sweep's parameters, lr, index (did you mean {lr}?)" in done.stderr
    done = daemon.muster("run", "-y", "--at-most", "3", "--", "echo", "a")
    assert "--at-most: needs a sweep; add for example --sweep lr=0.1,0.01" in done.stderr


@pytest.mark.slow
def test_a_training_of_the_runtime_is_stopped_by_its_own_loss(daemon: Daemon, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    sweep = daemon.client.sweep(
        {"name": "torch", "command": [sys.executable, str(script), "{lr}"]},
        over={"lr": [0.2, 0.0001, 0.0002]},
        asha={"rung": 1, "eta": 3},
    )
    assert sweep.wait(LONG).status == "finished"
    found = {each.params["lr"]: each for each in sweep.members()}
    assert found["0.2"].status == "succeeded"
    assert found["0.0001"].status == "pruned"
    assert found["0.0001"].metrics["loss"] > found["0.2"].metrics["loss"]
    (job,) = sweep.go_on([found["0.0001"].index])
    assert daemon.await_status(str(job.number), "succeeded", "failed").status == "succeeded"


TRAINING = """
import sys
import time

import torch

import muster

torch.manual_seed(0)
inputs = torch.randn(64, 4)
data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
ctx = muster.init()
model = torch.nn.Linear(4, 1)
model, optimizer = ctx.wrap(model, torch.optim.SGD(model.parameters(), lr=float(sys.argv[1])))
ctx.data(data, 8, epochs=9)
ctx.checkpoint("state", every=4)
for inputs, wanted in ctx.steps():
    time.sleep(0.02)
    ctx.backward(((model(inputs) - wanted) ** 2).mean(1))
    optimizer.step()
"""


def test_a_sweep_waits_for_a_job_and_a_job_for_the_sweep(daemon: Daemon, tmp_path: Path) -> None:
    go = tmp_path / "go"
    prep = daemon.sh(f"while [ ! -e {go} ]; do sleep 0.05; done", name="prep")
    words = ("run", "-y", "--name", "search", "--after", "prep", "--sweep", "x=1..2")
    done = daemon.muster(*words, "--", "sh", "-c", "echo member {x}; exit $(({x} - 1))")
    assert f"unknown: starts once job {prep.number} (prep) has succeeded" in done.stdout, done.stderr
    daemon.muster("run", "-y", "--name", "report", "--after", "search", "--", "true")
    daemon.muster("run", "-y", "--name", "rescue", "--after", "search:failed", "--", "true")
    assert "waiting, 2 members: 2 to come" in daemon.muster("show", "search").stdout
    go.touch()
    waited = daemon.muster("wait", "search", "rescue", "report")
    assert waited.returncode == 100, "a member failed"
    assert "(search): finished, 2 members: 1 succeeded, 1 failed" in waited.stderr
    assert "(rescue) succeeded" in waited.stderr
    assert "(report) skipped after" in waited.stderr
    assert "(search) has members that failed" in waited.stderr
    assert "search.0 1/worker-0 | member 1" in daemon.muster("logs", "search").stdout
