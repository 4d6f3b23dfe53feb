"""Programs that die: they restart as a whole, ever later, and say why."""

from pathlib import Path

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
