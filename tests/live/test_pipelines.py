"""Jobs after each other and jobs found by what they have in common, with real processes."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import MUSTER, Daemon, environment

DAG = """
labels: {run: nightly}
devices: 1
jobs:
  prep:
    command: sh -c 'sleep 0.2; seq 100 > data.txt'
  train:
    command: sh -c 'wc -l < data.txt > model.txt'
    devices: 2
    after: prep
  report:
    command: sh -c 'echo trained on $(cat model.txt) lines'
    after: train
  rescue:
    command: echo the training failed
    after: {train: failed}
"""


def written(daemon: Daemon, name: str, text: str) -> Path:
    path = daemon.work(name) / "pipeline.yaml"
    path.write_text(f"folder: .\n{text}", encoding="utf-8")
    return path


def test_a_pipeline_runs_in_order_and_what_it_does_not_need_is_skipped(daemon: Daemon) -> None:
    path = written(daemon, "dag", DAG)
    done = daemon.muster("run", "-y", "--follow", "--name", "dag", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "dag-report 1/worker-0 | trained on 100 lines\n"
    skipped = daemon.record("dag-rescue")
    assert (skipped.status, skipped.code) == ("skipped", "skipped.after")
    number = daemon.record("dag-train").number
    assert skipped.reason == f"job {number} (dag-train) succeeded"
    tree = daemon.muster("ps", "-a", "--tree", "-l", "run=nightly").stdout
    for line in ("dag-prep", "└ dag-train", "├ dag-report", "└ dag-rescue"):
        assert line in tree


def test_a_failure_skips_all_that_comes_after_and_they_say_why(daemon: Daemon) -> None:
    text = DAG.replace("wc -l < data.txt", "exit 3")
    done = daemon.muster("run", "-y", "--wait", "--name", "bad", written(daemon, "bad", text))
    assert done.returncode == 100
    failed = daemon.record("bad-train").number
    assert "bad-report) skipped after" in done.stderr
    assert daemon.record("bad-report").reason == f"job {failed} (bad-train) failed"
    assert list(daemon.client.logs("bad-rescue")) == ["1/worker-0 | the training failed"]


def test_what_can_never_start_is_refused_with_its_line_and_nothing_is_submitted(daemon: Daemon) -> None:
    text = DAG.replace("after: train\n", "after: [train, nowhere]\n")
    path = written(daemon, "unknown", text)
    done = daemon.muster("run", "-y", "--name", "unknown", path)
    assert done.returncode == 2
    line = 1 + path.read_text(encoding="utf-8").splitlines().index("    after: [train, nowhere]")
    assert f"{path}:{line}: jobs.report.after: you have no job 'nowhere'" in done.stderr
    assert list(daemon.client.jobs(name="unknown-*")) == []


@pytest.mark.slow
def test_a_job_that_waits_for_another_survives_its_daemon(make: Make) -> None:
    daemon = make()
    daemon.start()
    first = daemon.sh("until test -e go; do sleep 0.05; done", name="first")
    daemon.await_status("first", "running")
    daemon.sh("echo yes", name="second", after=["first"])
    assert daemon.record("second").code == "waiting.after"
    daemon.kill()
    daemon.start()
    (daemon.work("first") / "go").touch()
    assert daemon.client.handle("second").wait(60).status == "succeeded"
    assert daemon.record("second").after[0].number == first.number


def test_jobs_are_found_and_stopped_by_label(daemon: Daemon) -> None:
    for name, run in (("lab-a", "x"), ("lab-b", "x"), ("lab-c", "y")):
        daemon.submit("sleep", "600", name=name, labels={"run": run})
        daemon.await_status(name, "running")
    found = json.loads(daemon.muster("ps", "-l", "run=x", "--since", "1h", "-o", "json").stdout)
    assert sorted(job["name"] for job in found) == ["lab-a", "lab-b"]
    stopped = daemon.muster("stop", "-y", "-l", "run=x")
    assert stopped.stdout.count("stopping") == 2
    assert daemon.muster("wait", "lab-a", "lab-b").returncode == 103
    assert daemon.record("lab-c").status == "running"
    daemon.client.stop("lab-c")


@pytest.mark.slow
def test_a_job_is_repeated_with_changes_and_saved_for_later(daemon: Daemon) -> None:
    daemon.submit("sleep", "600", name="lab-c")
    daemon.submit("sleep", "0.01", name="lab-a", labels={"run": "x"}).wait(60)
    again = daemon.muster("rerun", "-y", "--wait", "lab-a", "-l", "run=z", "--", "0.02")
    assert again.returncode == 0, again.stderr
    assert (daemon.record("lab-a").command, daemon.record("lab-a").labels) == (
        ("sleep", "0.02"),
        {"run": "z"},
    )
    assert daemon.muster("template", "save", "lab-a", "nap").returncode == 0
    assert daemon.muster("run", "-t", "nap", "-y", "--wait").returncode == 0
    assert "lab-c" in daemon.muster("status").stdout
    assert daemon.muster("stop", "-y", "--all").stdout.startswith("job ")
    daemon.await_status("lab-c", "cancelled")


def test_the_shell_completes_the_names_of_jobs(daemon: Daemon) -> None:
    daemon.sh("true", name="completed-job").wait(60)
    typed = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster show comp", "COMP_CWORD": "2"}
    environ = {**environment(daemon.home), **typed}
    done = subprocess.run(MUSTER, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["completed-job"]
