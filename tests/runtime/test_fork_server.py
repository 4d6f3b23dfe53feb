"""A forked task looks like a fresh interpreter, and its end is told as it was."""

import json
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.runtime.launch.fork_protocol import ChildExited, StartTask
from muster.runtime.launch.tasks import Tasks

LONG = 60.0

Run = Callable[..., tuple[int, list[str]]]


@pytest.fixture(scope="module")
def tasks() -> Iterator[Tasks]:
    with Tasks() as fork_server:
        yield fork_server


@pytest.fixture
def run(tasks: Tasks, tmp_path: Path) -> Run:
    """Runs a script to its end; its exit code and what it printed."""
    ends: queue.Queue[ChildExited] = queue.Queue()
    tasks.attach(ends.put)

    def do(text: str, *args: str, **order: Any) -> tuple[int, list[str]]:
        script, log = tmp_path / "script.py", tmp_path / "task.log"
        script.write_text(text)
        log.unlink(missing_ok=True)
        environ = {"MUSTER_TASK": "worker-7"}
        tasks.start(
            StartTask("worker-7", str(script), args, environ, str(tmp_path), log=str(log), **order)
        )
        code = ends.get(timeout=LONG).code
        return code, log.read_text().splitlines()

    return do


FACTS = """
import json, os, signal, sys, torch
print(json.dumps({
    "dynamo": "torch._dynamo" in sys.modules,
    "cuda": torch.cuda.is_initialized(),
    "torch_threads": torch.get_num_threads(),
    "argv": sys.argv[1:],
    "path": sys.path[0],
    "name": __name__,
    "folder": os.getcwd(),
    "environ": dict(os.environ),
    "leads": os.getsid(0) == os.getpid() == os.getpgid(0),
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "child": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "input": sys.stdin.read(),
    "sockets": [path for n in range(64) if os.path.lexists(path := f"/proc/self/fd/{n}")
        and "socket" in os.readlink(path)],
}))
"""


def test_a_task_begins_as_if_alone(run: Run, tmp_path: Path) -> None:
    code, lines = run(FACTS, "--lr", "0.1", threads=2)
    facts = json.loads(lines[0])
    assert code == 0
    assert facts.pop("environ") == {"MUSTER_TASK": "worker-7", "OMP_NUM_THREADS": "2"}
    assert facts == {
        "dynamo": True,
        "cuda": False,
        "torch_threads": 2,
        "argv": ["--lr", "0.1"],
        "path": str(tmp_path),
        "name": "__main__",
        "folder": str(tmp_path),
        "leads": True,
        "interrupt": True,
        "child": True,
        "input": "",
        "sockets": [],
    }


def test_the_fork_server_forks_with_one_thread_alone(tasks: Tasks) -> None:
    assert tasks.wait_loaded(LONG).threads == 1


@pytest.mark.parametrize(
    ("script", "code", "last"),
    [
        ("print('done')", 0, "done"),
        ("import sys; sys.exit(3)", 3, None),
        ("import sys; sys.exit('no data')", 1, "no data"),
        ("raise ValueError('a mean')", 1, "ValueError: a mean"),
        ("def f(:", 1, "SyntaxError: invalid syntax"),
        ("import os; os._exit(9)", 9, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, None),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("import atexit; atexit.register(print, 'last words')", 0, "last words"),
        ("import threading as t; t.Timer(0.05, print, ['later']).start()", 0, "later"),
        ("import sys; sys.exit(True)", 1, None),
        ("import sys; sys.exit(257)", 1, None),
        ("import atexit, sys; atexit.register(print, 'last words'); sys.exit(4)", 4, "last words"),
        ("import sys; sys.excepthook = lambda *_: print('mine'); 1 / 0", 1, "mine"),
        ("import weakref\nclass A: pass\nkept = weakref.proxy(A())\nprint('done')", 0, "done"),
        ("class A: pass\nimport pickle; print(type(pickle.loads(pickle.dumps(A()))) is A)", 0, "True"),
    ],
)
def test_ends_as_the_interpreter_would(run: Run, script: str, code: int, last: str | None) -> None:
    got, lines = run(script)
    assert got == code
    assert (lines[-1] if lines else None) == last


def test_a_trace_begins_in_the_script(run: Run) -> None:
    _, lines = run("def f():\n    raise ValueError('a mean')\nf()\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('script.py", line 3, in <module>')
    assert not any("muster" in line for line in lines)


def test_files_that_nobody_closed_are_written(run: Run, tmp_path: Path) -> None:
    assert run("a = [open('one', 'w'), open('two', 'wb')]; a[0].write('x'); a[1].write(b'y')")[0] == 0
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["x", "y"]


def test_exit_handlers_in_c_run_for_libraries_of_the_script(run: Run) -> None:
    """Those of the preloaded ones have nothing to write."""
    script = """
import ctypes, os
handler = ctypes.CFUNCTYPE(None)(lambda: os.write(1, b"handled"))
ctypes.CDLL(None).__cxa_atexit(handler, None, None)
"""
    assert run(script)[1] == []
    assert run(f"import sqlite3\n{script}")[1] == ["handled"]


def test_tasks_do_not_share_their_dice(run: Run) -> None:
    roll = "import random, numpy; print(random.random(), numpy.random.rand())"
    assert run(roll)[1] != run(roll)[1]


def test_many_starts_and_ends(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os; os._exit(int(os.environ['N']))")
    ends: queue.Queue[ChildExited] = queue.Queue()
    tasks.attach(ends.put)
    for number in range(40):
        environ = {"N": str(number), "FILL": "x" * 20_000}
        tasks.start(StartTask(f"worker-{number}", str(script), (), environ, str(tmp_path)))
    codes = {event.task: event.code for event in (ends.get(timeout=LONG) for _ in range(40))}
    assert codes == {f"worker-{number}": number for number in range(40)}
    assert tasks.living == set()


def test_output_comes_line_by_line(tasks: Tasks, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; print('one'); print('two', file=sys.stderr); print('bar\\rbaz', end='')"
    )
    lines: queue.Queue[tuple[str, str]] = queue.Queue()
    tasks.attach(lambda _: None, lambda task, line: lines.put((task, line)))
    tasks.start(StartTask("worker-1", str(script), (), {}, str(tmp_path)))
    got = [lines.get(timeout=LONG) for _ in range(4)]
    assert got == [("worker-1", line) for line in ("one", "two", "bar", "baz")]


LAUNCHER = """
import sys, threading
from muster.runtime.launch.fork_protocol import StartTask
from muster.runtime.launch.tasks import Tasks
script, port, bound = sys.argv[1:]
Tasks(bound=bound == "bound").start(StartTask("worker-0", script, (port,), {}, "."))
threading.Event().wait()
"""
TASK = """
import socket, sys
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
line.sendall(b"here")
line.sendall(line.recv(1))
"""


@pytest.mark.parametrize("bound", [True, False])
def test_when_the_launcher_is_killed(tmp_path: Path, bound: bool) -> None:
    """Bound tasks die with it; others train on."""
    (tmp_path / "task.py").write_text(TASK)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LONG)
        args = [str(tmp_path / "task.py"), str(server.getsockname()[1]), "bound" if bound else "free"]
        with subprocess.Popen([sys.executable, "-c", LAUNCHER, *args]) as launcher:
            line, _ = server.accept()
            line.settimeout(LONG)
            assert line.recv(4) == b"here"
            launcher.kill()
        with line:
            if not bound:
                line.sendall(b"!")
            assert line.recv(1) == (b"" if bound else b"!")
