"""How jobs are stopped: asked first, then told, then killed, with everything they have started."""

import sys
from pathlib import Path

from tests.live.conftest import LEND
from tests.live.daemons import Daemon, until

STUBBORN = """
trap 'echo told >> said' TERM
sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 1; done' &
echo $$ > parent
while :; do sleep 0.1; done
"""

FLED = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("fled", "w").write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("fled") or not open("fled").read():
    time.sleep(0.01)
"""

SAVES = """
trap 'echo saved at $(cat at 2>/dev/null) >> said' USR1
trap 'echo told >> said; exit 0' TERM
echo up >> said
while :; do sleep 0.1; done
"""


def pid_in(path: Path) -> int:
    """The number that a process has left there."""
    return int(until(lambda: path.exists() and path.read_text(encoding="ascii").strip(), str(path)))


def test_who_does_not_listen_is_killed_with_its_children(daemon: Daemon) -> None:
    daemon.sh(STUBBORN, name="stubborn", grace="1s")
    work = daemon.work("stubborn")
    pids = [pid_in(work / "parent"), pid_in(work / "child")]
    assert daemon.muster("stop", "-y", "stubborn").returncode == 0
    assert daemon.client.handle("stubborn").wait(60).status == "cancelled"
    assert (work / "said").read_text(encoding="utf-8") == "told\n"
    (task,) = daemon.detail("stubborn").tasks
    assert task.signal == 9
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_what_a_task_leaves_behind_ends_with_it(daemon: Daemon) -> None:
    handle = daemon.submit(sys.executable, "-S", "-c", FLED, name="flees")
    assert handle.wait(60).status == "succeeded"
    pid = pid_in(daemon.work("flees") / "fled")
    until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended")


def test_a_preempted_job_is_asked_to_save_before_it_is_told_to_stop(daemon: Daemon) -> None:
    """It borrows all devices; a job of the pool that they belong to comes."""
    fields = {"pool": LEND, "checkpoint_signal": "SIGUSR1", "checkpoint_grace": "1s", "grace": "30s"}
    daemon.sh(SAVES, name="borrows", devices=daemon.devices, **fields)
    work = daemon.work("borrows")
    until(lambda: (work / "said").exists() and read(work).count("up") == daemon.devices)
    daemon.await_status("borrows", "running")
    owner = daemon.sh("exit 0", name="owns")
    assert owner.wait(60).status == "succeeded"
    until(lambda: daemon.record("borrows").preemptions == 1)
    said = read(work)
    assert said.count("told") == said.count("saved at") == daemon.devices
    assert max(i for i, word in enumerate(said) if word == "saved at") < said.index("told")
    until(lambda: read(work).count("up") == 2 * daemon.devices, "it runs again")
    record = daemon.await_status("borrows", "running")
    assert (record.failures, record.losses, record.preemptions) == (0, 0, 1)


def read(work: Path) -> list[str]:
    """What was said, line by line."""
    return [line.strip() for line in (work / "said").read_text(encoding="utf-8").splitlines()]


def test_a_waiting_job_is_cancelled_without_having_run(daemon: Daemon) -> None:
    daemon.sh("exec sleep 600", name="holds", devices=daemon.devices)
    daemon.await_status("holds", "running")
    waits = daemon.sh("touch ran", name="waits")
    assert waits.record().status == "waiting"
    until(lambda: waits.record().reason, "it is told why it waits")
    waits.stop()
    assert waits.wait(60).status == "cancelled"
    daemon.client.stop("holds")
    daemon.client.handle("holds").wait(60)
    assert not (daemon.work("waits") / "ran").exists()


def test_a_task_that_fails_is_started_again_while_its_budget_lasts(daemon: Daemon) -> None:
    line = "echo start >> starts; test $(wc -l < starts) -ge 3 || exit 5"
    patient = daemon.sh(line, name="patient", failures=2)
    assert patient.wait(60).status == "succeeded"
    assert patient.record().failures == 2
    hasty = daemon.sh(line, name="hasty", failures=1)
    assert hasty.wait(60).status == "failed"
    starts = (daemon.work("hasty") / "starts").read_text(encoding="utf-8")
    assert (hasty.record().failures, starts.count("start")) == (2, 2)
