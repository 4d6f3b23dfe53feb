"""The cycle in a process of its own, under a real daemon: it comes, is replaced, and goes with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

DAEMON = """
import asyncio
from muster.daemon.loop.cycle_thread import CycleThread
from tests.builders import cluster, job, view

thread = CycleThread("muster", planners=2, slow=-1.0)

async def decide(now):
    return await thread.decide(view(cluster(1), [job("a", 2)]), now)

for now in (0.0, 1.0):
    asyncio.run(decide(now))
thread.decider.child.is_ready(60.0)
asyncio.run(decide(2.0))
print(thread.decider.child.process.pid, flush=True)
import time
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM])
def test_no_decider_outlives_its_daemon(blow: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        os.kill(daemon.pid, blow)
        daemon.wait()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the decider has ended")


WAITING = 1_500
"""Jobs of which a cycle takes longer than 50 ms on any machine."""


def decider_of(daemon: Daemon) -> int | None:
    """The process that decides for a daemon."""
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").parent.parent
    for task in children.iterdir():
        for pid in (task / "children").read_text(encoding="ascii").split():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"muster.daemon.decider" in words:
                return int(pid)
    return None


@pytest.mark.slow
def test_jobs_start_and_end_whoever_decides(make: Make) -> None:
    daemon = make(devices=2)
    daemon.start()
    daemon.client.set_limits("*", jobs=10 * WAITING, size=10**9, submissions=10 * WAITING)
    first = daemon.sh("until [ -e go ]; do sleep 0.05; done", name="first", devices=2)
    daemon.await_status("first", "running")
    for i in range(WAITING):
        daemon.client.submit({"command": ["true"], "name": f"j{i}", "devices": 2})
    pid = until(lambda: decider_of(daemon), "cycles are slow, and decided apart")
    os.kill(pid, signal.SIGKILL)
    (daemon.work("first") / "go").touch()
    assert first.wait(60).status == "succeeded"
    daemon.await_status("j0", "succeeded")
    other = until(lambda: found if (found := decider_of(daemon)) not in (None, pid) else None)
    daemon.await_status("j3", "succeeded")
    daemon.client.stop_all()
    daemon.kill()
    until(lambda: not Path(f"/proc/{other}").exists(), "the decider has ended")
    daemon.start()
