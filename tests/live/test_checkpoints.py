"""Jobs that name one checkpoint folder, one that resumes another, and strangers at the tasks' port."""

import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon

pytest.importorskip("torch")

SWEEP = str(Path(__file__).parent / "scripts" / "sweep.py")


def said(daemon: Daemon, number: int) -> str:
    return "\n".join(daemon.client.logs(number))


@pytest.mark.slow
def test_a_sweep_in_one_folder_does_not_mix_and_is_resumed_on_purpose(make: Make) -> None:
    daemon = make(devices=2)
    daemon.start()
    where = {"folder": str(daemon.work("sweep"))}

    def run(name: str, rate: str, epochs: str, **fields: str) -> int:
        return daemon.submit(sys.executable, SWEEP, rate, epochs, name=name, **where, **fields).number

    first, second = run("slow", "0.1", "2"), run("fast", "0.5", "2")
    for number in (first, second):
        record = daemon.client.handle(number).wait(LONG)
        assert record.status == "succeeded", said(daemon, number)
        assert "at step 8" in said(daemon, number)
        folder = daemon.data / "jobs" / f"{number}-{record.name}" / "checkpoint" / "checkpoints"
        saved = sorted(folder.glob("step-*.pt"))
        assert [path.name for path in saved] == ["step-000000000004.pt", "step-000000000008.pt"]
        assert {stat.S_IMODE(path.stat().st_mode) for path in saved} == {0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert f"checkpoints are written to {folder}" in said(daemon, number)
    assert said(daemon, first) != said(daemon, second)
    assert list(daemon.work("sweep").iterdir()) == []

    # Longer, from where the first one ended: by number, with the command line's own option.
    more = daemon.muster(
        "run", "-y", "--wait", "--name", "longer", "--resume-from", str(first),
        "--", sys.executable, SWEEP, "0.1", "3",
    )  # fmt: skip
    assert more.returncode == 0, more.stderr
    lines = "\n".join(daemon.client.logs("longer"))
    assert "resuming from step 8 of job slow" in lines
    assert "at step 12" in lines

    # A stranger who knows the port, and neither token nor protocol.
    telling = daemon.sh("echo $MUSTER_COORDINATOR", name="telling")
    telling.wait(LONG)
    port = int(said(daemon, telling.number).rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), LONG) as stranger:
        stranger.sendall(b'{"kind":"Hello","job":"' + b"x" * 60_000 + b'"}\n')
        with suppress(ConnectionResetError):  # it has not read all that we sent
            assert stranger.recv(1) == b""
    assert max(len(line) for line in daemon.log.read_text().splitlines()) < 1_000


@pytest.mark.slow
def test_a_last_checkpoint_that_cannot_be_written_fails_the_job(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    script = Path(__file__).with_name("scripts") / "full_disk.py"
    handle = daemon.submit(sys.executable, str(script), name="full", devices=2)
    record = handle.wait(LONG)
    assert (record.status, record.exit_code) == ("failed", 1)
    assert (daemon.work("full") / "model.pt").exists(), "what follows the loop was done"
    shown = daemon.muster("show", "full").stdout
    assert "ended with exit code 1" in shown
    assert "the last checkpoint is missing" in shown
    daemon.assert_nothing_left()
