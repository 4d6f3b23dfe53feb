"""Programs that die: they restart as a whole, ever later, and say why."""

import signal
from pathlib import Path

from muster.wire.api.records import JobRecord
from tests.live.daemons import Daemon, until

RANKS = """
import os, pathlib, signal, socket, sys, time
rank, port, marks = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"]), pathlib.Path(sys.argv[1])
(marks / f"{rank}-{port}").touch()
first = len(list(marks.glob(f"{rank}-*"))) == 1
if rank == 0:
    with socket.create_server(("127.0.0.1", port)) as server:
        peer, _ = server.accept()
        if not peer.recv(1):
            raise ConnectionResetError("connection reset by peer")
        sys.exit()
while True:
    try:
        peer = socket.create_connection(("127.0.0.1", port))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
if first:
    os.kill(os.getpid(), signal.SIGKILL)
peer.send(b"x")
"""


def test_a_gang_of_fixed_size_survives_the_death_of_a_rank(daemon: Daemon, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    daemon.submit("python3", "-c", RANKS, str(marks), name="ranks", devices="2")
    job = daemon.await_status("ranks", "succeeded", "failed")
    assert (job.status, job.losses, job.failures) == ("succeeded", 1, 0)
    ports = {mark.name.partition("-")[2] for mark in marks.iterdir()}
    assert len(ports) == 2, "the second attempt meets at a port of its own"
    told = [change.text for change in daemon.detail("ranks").changes if change.kind == "RunBroken"]
    assert told == ["worker-1 ended with signal 9 (SIGKILL); restarts in 1 s"]


def test_a_program_that_kills_itself_waits_ever_longer_and_fails(daemon: Daemon) -> None:
    daemon.sh("kill -9 $$", name="loop", losses=2)
    job = until(lambda: r if (r := daemon.record("loop")).status == "restarting" else None)
    assert job.code == "running.restarting"
    assert "after a loss: worker-0 ended with signal 9 (SIGKILL)" in job.reason
    job = daemon.await_status("loop", "failed")
    assert job.losses == 3
    assert job.error == "gave up after 3 losses in a row: worker-0 ended with signal 9 (SIGKILL)"


def test_why_a_job_failed_is_the_last_line_of_its_traceback(daemon: Daemon) -> None:
    daemon.submit("python3", "-c", "raise ValueError('no such file')", name="wrong")
    job = daemon.await_status("wrong", "failed")
    assert job.error is not None
    first = "worker-0 ended with exit code 1: ValueError: no such file"
    assert job.error.splitlines()[0] == first
    assert first in daemon.muster("ps", "-a").stdout


TRAP = "trap 'echo warned >> said' USR1; trap '' TERM; touch up; while :; do sleep 0.05; done"


def test_a_run_is_warned_before_its_time_limit_and_ended_at_it(daemon: Daemon) -> None:
    daemon.sh(TRAP, name="slow", time="2s", warn="SIGUSR1@1s", grace="100ms")
    job = daemon.await_status("slow", "failed")
    assert job.error == "time limit of 2s reached"
    assert (daemon.work("slow") / "said").read_text(encoding="ascii").splitlines()[0] == "warned"


def test_a_job_is_held_released_requeued_and_killed(daemon: Daemon) -> None:
    def starts() -> int:
        return len(list(daemon.work("life").glob("*.up")))

    def held() -> JobRecord | None:
        found = daemon.record("life")
        return found if found.code == "waiting.held" else None

    daemon.sh("touch $$.up; trap '' TERM; while :; do sleep 0.05; done", name="life", grace="100ms")
    until(lambda: starts() == 1)
    assert "life" in daemon.muster("hold", "life").stdout
    job = until(held)
    assert (job.devices, job.losses) == (0, 0)
    daemon.client.release("life")
    until(lambda: starts() == 2)
    daemon.await_status("life", "running")
    daemon.client.requeue("life")
    until(lambda: starts() == 3)
    assert daemon.client.set_priority("life", 7).priority == 7
    daemon.await_status("life", "running")
    daemon.client.stop("life", force=True)
    daemon.await_status("life", "cancelled")
    tasks = daemon.detail("life").tasks
    assert tasks[-1].signal == signal.SIGKILL
    assert daemon.record("life").losses == 0


def test_the_log_tells_what_was_decided_ordered_and_seen(daemon: Daemon) -> None:
    daemon.sh("exit 3", name="told")
    daemon.await_status("told", "failed")
    log = daemon.log.read_text(encoding="utf-8")
    lines = [line for line in log.splitlines() if "name=told" in line or "/1/worker-0" in line]
    for kind in ("Submitted", "StartBegun", "Decided", "start task", "task started", "TaskEnded"):
        assert any(kind in line for line in lines), kind
    (end,) = [line for line in lines if " Ended " in line]
    assert "failed: worker-0 ended with exit code 3" in end
