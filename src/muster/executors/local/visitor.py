"""A visit to a task: `python -I -S visitor.py FOLDER VISIT`, its standard input the connection.

A separate program on the standard library alone, as the shim is; it becomes the task's user before it
does anything that the visitor asks for. What it runs enters the task's cgroups, and ends with the task.
"""

# ruff: noqa: E402, PTH100, PTH118, PTH120, PTH123

import contextlib
import fcntl
import json
import os
import pty
import signal
import socket
import stat
import sys
import termios
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    sys.path += [HERE, str(Path(HERE).parents[2])]  # left out by -I; `muster` itself, and what is here

from muster.wire.visits.browsing import LARGEST, copy_part, listing
from muster.wire.visits.copying import CopyError, Tell, means_folder, pack, unpack
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump, part
from muster.wire.visits.visits import ERRORS, INPUT, OUTPUT, refuse, set_size

shim: Any = import_module("shim" if __name__ == "__main__" else "muster.executors.local.shim")

SHELL = (
    'if [ -x "$SHELL" ]; then exec "$SHELL"; fi; '
    "if command -v bash >/dev/null; then exec bash; fi; exec sh"
)
"""What runs where no command is given: the user's shell, or the best there is, in a container too."""
LOOK = 0.5
"""s between two checks of whether the task is still there."""
GRACE = 2.0
"""s for a command to end when its visitor or its task is gone."""
TERMINAL = "terminal.sock"
"""In the task's folder, as `terminal.py` has it."""
CONNECT = 5.0
"""s to connect to a port of this machine."""


class NoVisitError(Exception):
    """The visit is impossible; the message says why. `status`: as HTTP has it."""

    def __init__(self, why: str, status: int = 409) -> None:
        super().__init__(why)
        self.status = status


def main(folder: str, visit: dict[str, Any]) -> None:
    """Serve one visit."""
    connection = socket.socket(fileno=0)
    try:
        os.chdir(folder)
        with open(shim.ORDER, "rb") as file:
            order = json.load(file)
        VISITS[visit["kind"]](connection, order, visit)
    except FileNotFoundError:
        refuse(connection, "the files of this task are no longer there", status=404)
    except NoVisitError as problem:
        refuse(connection, str(problem), status=problem.status)
    except (CopyError, shim.CannotRunError) as problem:
        refuse(connection, str(problem))
    except OSError as problem:
        refuse(connection, f"{problem.strerror}: {problem.filename or ''}".rstrip(": "))
    if connection.fileno() >= 0:
        part(connection)


def drop(order: dict[str, Any]) -> None:
    """Become the task's user."""
    if order.get("account") is not None:
        shim.drop_to(**order["account"])


def living_task() -> dict[str, Any]:
    """Return the identity of the task's process; `NoVisitError` if it is not running."""
    with contextlib.suppress(OSError, ValueError), open(shim.BEGUN, "rb") as file:
        begun: dict[str, Any] = json.load(file)
        if is_alive(begun):
            return begun
    raise NoVisitError("the task is not running; see its log with muster logs")


def is_alive(process: dict[str, Any]) -> bool:
    """Whether a process is there and is the one that was recorded."""
    found = shim.ticks_of(process["pid"])
    same = found is not None and found[0] == process["ticks"] and found[1] not in "ZX"
    return same and process["boot"] == shim.boot_id()


# --- a command beside the task ---


class CommandVisit:
    """Runs a command for a visitor: on a terminal, or with pipes."""

    def __init__(self, connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
        self.task = living_task()
        self.order, self.on_terminal = order, False
        self.command = list(visit["command"]) or ["/bin/sh", "-c", SHELL]
        self.pump = Pump(connection, self.hear)
        self.master, self.input, self.pid = -1, -1, 0
        self.ended = False
        self.pump.later(LOOK, self.look)
        self.pump.run()
        self.end()

    def hear(self, note: StreamNote) -> None:
        record = note.record
        match record.get("what"):
            case "begin" if not self.pid:
                self.begin(record)
            case "size" if self.master >= 0:
                set_size(self.master, record.get("rows"), record.get("columns"))
            case "signal" if self.pid:
                with contextlib.suppress(OSError):
                    os.killpg(self.pid, int(record["number"]))

    def begin(self, record: dict[str, Any]) -> None:
        """Start the command, and connect its streams."""
        environ = dict(self.order["environ"])
        if record.get("term"):
            self.on_terminal = True
            environ["TERM"] = str(record["term"])
        ends = terminal_ends(record, self.order) if self.on_terminal else pipe_ends()
        ours, theirs = ends
        self.pid = os.fork()
        if not self.pid:
            wrap = self.order.get("visit_on_terminal" if self.on_terminal else "visit", [])
            become(self.order, [*wrap, *self.command], environ, theirs, terminal=self.on_terminal)
        for each in set(theirs):
            os.close(each)
        drop(self.order)
        for each in ours:
            os.set_blocking(each, False)
        self.pump.drain(INPUT, ours[0], ended=self.close_input)
        self.pump.feed(OUTPUT, ours[1])
        if self.on_terminal:
            self.master = ours[0]
        else:
            self.pump.feed(ERRORS, ours[2])
        self.input = ours[0]
        wake, woken = os.pipe()
        for each in (wake, woken):
            os.set_blocking(each, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.pump.watch(wake, lambda: self.reap(wake))
        self.reap(wake)

    def close_input(self) -> None:
        """The visitor has no more to say: a pipe shows that, a terminal does not."""
        if not self.on_terminal:
            os.close(self.input)

    def reap(self, wake: int) -> None:
        """Look whether the command has ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            self.ended = True
            code = os.waitstatus_to_exitcode(status)
            how = {"code": code} if code >= 0 else {"signal": -code}
            # What it printed comes first.
            self.pump.when_quiet(lambda: self.finish(how))

    def finish(self, how: dict[str, int]) -> None:
        self.pump.frames.note(what="exit", **how)
        self.pump.stop()

    def look(self) -> None:
        """End the command with the task, also where no cgroup does."""
        if is_alive(self.task):
            self.pump.later(LOOK, self.look)
            return
        self.pump.frames.note(what="told", words="the task has ended")
        if not self.pid:
            self.pump.stop()
            return
        hang_up(self.pid)
        self.pump.later(GRACE, lambda: kill(self.pid))

    def end(self) -> None:
        """End a command whose visitor is gone."""
        if not self.pid or self.ended:
            return
        hang_up(self.pid)
        if not waited(self.pid, GRACE):
            kill(self.pid)


def terminal_ends(
    record: dict[str, Any], order: dict[str, Any]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Open a terminal for the task's user; return our end and the command's, as each stream."""
    master, slave = pty.openpty()
    set_size(master, record.get("rows", 24), record.get("columns", 80))
    if order.get("account") is not None:
        os.fchown(slave, order["account"]["uid"], order["account"]["gid"])
    return (master, master), (slave, slave, slave)


def pipe_ends() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Open pipes; return our ends and the command's, as each stream."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    read_errors, write_errors = os.pipe()
    return (write_in, read_out, read_errors), (read_in, write_out, write_errors)


def become(
    order: dict[str, Any],
    argv: list[str],
    environ: dict[str, str],
    streams: tuple[int, ...],
    *,
    terminal: bool,
) -> NoReturn:
    """In the forked process: become the command."""
    try:
        os.setsid()
        for number in {*shim.DEAF, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD}:
            signal.signal(number, signal.SIG_DFL)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.closerange(3, 256)
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        shim.enter(order.get("groups", []))
        shim.limit_harm()
        drop(order)
        os.umask(shim.UMASK if order.get("umask") is None else order["umask"])
        os.chdir(order["folder"])
        shim.execute(argv, environ)
    except (shim.CannotRunError, OSError) as problem:
        os.write(2, f"muster: {problem}\n".encode("utf-8", "backslashreplace"))
        os._exit(getattr(problem, "code", shim.NOT_RUNNABLE))
    finally:
        os._exit(shim.NOT_FOUND)


def hang_up(pid: int) -> None:
    """Tell a command's processes that its terminal is gone."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGHUP)
        os.killpg(pid, signal.SIGCONT)


def kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def waited(pid: int, seconds: float) -> bool:
    """Wait for a child for some time; return whether it has ended."""
    deadline = shim.uptime() + seconds
    while shim.uptime() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        threading.Event().wait(0.02)
    return False


# --- its files ---


def place_of(order: dict[str, Any], path: str) -> Path:
    """Return a path of the job; `NoVisitError` if it leads out of the job's folders."""
    where = os.path.realpath(os.path.join(order["folder"], path))
    if not is_inside(order, where):
        raise NoVisitError(f"{path} is outside of the job's folder {order['folder']}", 403)
    return Path(where)


def is_inside(order: dict[str, Any], path: str) -> bool:
    """Whether a path, its links followed, stays in the job's folders."""
    checkpoint = order["environ"].get("MUSTER_CHECKPOINT", "")
    homes = [order["folder"], order.get("private", ""), "" if "://" in checkpoint else checkpoint]
    roots = [os.path.realpath(each) for each in homes if each]
    where = os.path.realpath(path)
    return any(where == root or where.startswith(root.rstrip("/") + "/") for root in roots)


def opened(order: dict[str, Any], path: str) -> int:
    """Open a file or folder of the job for reading; what was opened counts, not what its name was."""
    where = place_of(order, path)
    try:
        found = os.open(where, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise NoVisitError(f"no file {path} in the job's folder {order['folder']}", 404) from None
    except OSError as problem:
        raise NoVisitError(f"{path}: {problem.strerror}", 403) from None
    place_of(order, os.path.realpath(f"/proc/self/fd/{found}"))
    return found


def list_folder(connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
    """Tell what lies in a folder of the job."""
    drop(order)
    folder = opened(order, visit["path"] or ".")
    if not stat.S_ISDIR(os.fstat(folder).st_mode):
        raise NoVisitError(f"{visit['path']} is a file", 422)
    found = listing(Path(f"/proc/self/fd/{folder}"), lambda path: is_inside(order, path))
    send_out(connection, lambda out: out.write(found), what="folder")


def read_file(connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
    """Send the bytes of one file of the job."""
    drop(order)
    descriptor = opened(order, visit["path"])
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise NoVisitError(f"{visit['path']} is not a file", 422)
    if status.st_size > LARGEST:
        most = f"{LARGEST >> 20} MiB"
        raise NoVisitError(f"{visit['path']} is larger than {most}; copy it with muster cp", 422)
    size = status.st_size
    with open(descriptor, "rb") as source:
        send_out(connection, lambda out: copy_part(source, out, size), what="file", size=size)


def send_out(connection: socket.socket, write: Callable[[IO[bytes]], object], **head: Any) -> None:
    """Send a note on what comes, and then what `write` writes."""
    read, sink = os.pipe()

    def work(_: Tell) -> None:
        with open(sink, "wb") as out:
            write(out)

    copy = CopyVisit(connection, work)
    copy.pump.frames.note(**head)
    copy.pump.feed(OUTPUT, read)
    copy.run()


def fetch(connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
    """Send a file or folder of the job."""
    drop(order)
    source = place_of(order, visit["path"])
    if not source.exists():
        raise NoVisitError(f"no file {visit['path']} in the job's folder {order['folder']}", 404)
    read, write = os.pipe()

    def work(tell: Tell) -> None:
        with open(write, "wb") as out:
            pack(source, out, tell)

    copy = CopyVisit(connection, work)
    copy.pump.feed(OUTPUT, read)
    copy.run()


def store(connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
    """Take a file or folder into the job's."""
    drop(order)
    target = place_of(order, visit["path"] or ".")
    os.umask(shim.UMASK if order.get("umask") is None else order["umask"])
    read, write = os.pipe()
    os.set_blocking(write, False)

    def work(tell: Tell) -> None:
        with open(read, "rb") as source:
            unpack(source, target, tell, into=means_folder(visit["path"]))

    copy = CopyVisit(connection, work)
    copy.pump.drain(INPUT, write, ended=lambda: os.close(write))
    copy.run()


class CopyVisit:
    """Copies in a thread of its own, while bytes move."""

    def __init__(self, connection: socket.socket, work: Callable[[Tell], None]) -> None:
        self.pump = Pump(connection, lambda note: None)
        self._work = work
        self._ready, self._done = os.pipe()
        self._missed: list[str] = []

    def run(self) -> None:
        threading.Thread(target=self._copy, daemon=True).start()
        self.pump.watch(self._ready, self._finish)
        self.pump.run()

    def _copy(self) -> None:
        try:
            self._work(self._missed.append)
        except Exception as problem:  # of the disk, of a stream that was cut off
            self._missed.append(str(problem) or type(problem).__name__)
        os.close(self._done)

    def _finish(self) -> None:
        self.pump.leave(self._ready)

        def end() -> None:
            for each in self._missed:
                self.pump.frames.note(what="told", words=each[:2000])
            self.pump.frames.note(what="exit", code=1 if self._missed else 0)
            self.pump.stop()

        self.pump.when_quiet(end)


# --- its ports ---


class ForwardVisit:
    """Connects to ports of this machine, each connection a stream."""

    def __init__(self, connection: socket.socket, order: dict[str, Any], visit: dict[str, Any]) -> None:
        self.task = living_task()
        self.hosts = ("127.0.0.1", "::1", order["environ"].get("MUSTER_HOST", "127.0.0.1"))
        self.pump = Pump(connection, self.hear)
        drop(order)
        self.pump.later(LOOK, self.look)
        self.pump.run()

    def look(self) -> None:
        if is_alive(self.task):
            self.pump.later(LOOK, self.look)
        else:
            self.pump.frames.note(what="told", words="the task has ended")
            self.pump.stop()

    def hear(self, note: StreamNote) -> None:
        record = note.record
        if record.get("what") == "open":
            stream, port = int(record["stream"]), int(record["port"])
            try:
                found = connected(self.hosts, port)
            except OSError as problem:
                why = f"port {port}: {problem.strerror or problem}"
                self.pump.frames.note(what="failed", stream=stream, why=why)
            else:
                self.pump.join(stream, found)


def connected(hosts: tuple[str, ...], port: int) -> socket.socket:
    """Connect to a port of this machine at the first address where somebody listens."""
    problem: OSError | None = None
    for host in hosts:
        try:
            return socket.create_connection((host, port), CONNECT)
        except OSError as error:
            problem = problem or error
    raise problem or OSError(f"nobody listens at port {port}")


# --- its terminal ---


def attach(connection: socket.socket, order: dict[str, Any], _: dict[str, Any]) -> None:
    """Hand the connection to whoever holds the task's terminal."""
    if order.get("terminal") is None:
        refuse(connection, "the task has no terminal", plain=True)
        return
    with socket.socket(socket.AF_UNIX) as holder:
        try:
            # By its name alone, from its folder: a path may be too long for a socket.
            holder.connect(TERMINAL)
        except OSError:
            raise NoVisitError("the task is not running; see its log with muster logs") from None
        socket.send_fds(holder, [b"!"], [connection.fileno()])
    connection.close()  # it is the holder's now, to part from as well


VISITS: dict[str, Callable[[socket.socket, dict[str, Any], dict[str, Any]], object]] = {
    "exec": CommandVisit,
    "attach": attach,
    "forward": ForwardVisit,
    "fetch": fetch,
    "store": store,
    "list": list_folder,
    "read": read_file,
}

if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
