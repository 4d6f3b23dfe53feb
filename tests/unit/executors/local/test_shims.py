"""Shims are forked by a server, which may be killed or stopped: tasks neither notice nor suffer."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster.executors.local import shims
from muster.executors.local.shims import PROGRAM, Shims
from tests.unit.executors.local.conftest import Bench, exists, until


def server_of(bench: Bench) -> int:
    """The server that has forked the shims of this executor."""
    return bench.executor._shims._pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def test_all_shims_come_from_one_server_and_show_their_tasks_folder(bench: Bench) -> None:
    tasks = [bench.shell("exec sleep 1000", index=index) for index in range(3)]
    for task in tasks:
        bench.started(task)
        shim = bench.entry(task, "claim")["pid"]
        assert parent_of(shim) == server_of(bench)
        shown = Path(f"/proc/{shim}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        assert shown[-1].decode() == str(bench.task_folder(task))
        assert shown[-2].endswith(b"/shim.py")
    assert b"shim_server.py" in Path(f"/proc/{server_of(bench)}/cmdline").read_bytes()


def test_a_server_that_was_killed_takes_no_task_along_and_is_replaced(bench: Bench) -> None:
    first = bench.shell("read line < $FIFO; exit 7", FIFO=str(fifo(bench)))
    bench.started(first)
    before = server_of(bench)
    os.kill(before, signal.SIGKILL)
    second = bench.shell("exit 0", index=1)
    assert bench.exited(second).code == 0
    assert server_of(bench) != before and not exists(before)
    fifo(bench).write_text("go\n")
    assert bench.exited(first).code == 7


def fifo(bench: Bench) -> Path:
    path = bench.folder / "fifo"
    if not path.exists():
        os.mkfifo(path)
    return path


def test_a_server_that_does_not_answer_is_replaced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shims, "ANSWER", 0.5)
    first = bench.shell("exit 0")
    bench.exited(first)
    before = server_of(bench)
    os.kill(before, signal.SIGSTOP)
    second = bench.shell("exit 3", index=1)
    assert bench.exited(second).code == 3
    until(lambda: not exists(before))


def test_the_server_ends_with_its_executor_and_tasks_go_on(bench: Bench) -> None:
    task = bench.shell("exec sleep 1000")
    bench.started(task)
    pid, server = int(bench.entry(task, "begun")["pid"]), server_of(bench)
    bench.executor.close()
    assert not exists(server) and exists(pid)
    bench.another().attach([task])
    assert bench.started(task).pid == pid


def test_the_server_ends_when_its_executor_was_killed() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        server = subprocess.Popen(
            [sys.executable, "-I", "-S", PROGRAM, "-" * 100], stdin=theirs.fileno()
        )
        theirs.close()
    assert server.wait(60) == 0


def test_a_shim_that_cannot_be_forked_is_told_with_the_systems_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(shims, "_started", lambda: (ours, 0))
    theirs.send(b"- 11")
    refused = Shims()
    with pytest.raises(BlockingIOError, match="temporarily unavailable"):
        refused.start(tmp_path)
    theirs.close()
    ours.close()
