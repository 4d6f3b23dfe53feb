"""Runs one task and outlives it: `python -I -S shim.py FOLDER`.

A separate program on the standard library alone. It reads the order from the task's folder, and records
there the process and how it ended, for any executor to read. Its standard output is a pipe to the
executor that started it; closing it means that there is something to read.
"""

# ruff: noqa: PTH103, PTH105, PTH108, PTH109, PTH110, PTH118, PTH120, PTH123
# Started with every task: loading pathlib would take half as long again.

import contextlib
import ctypes
import errno
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

ORDER, CLAIM, BEGUN, ENDED = "order.json", "claim.json", "begun.json", "ended.json"
"""What to run; which shim runs it; its process; how it ended. Each is written once, atomically."""

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""A shell's exit codes for a command that is missing or cannot be run."""

DEAF = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals to ignore: a shim outlives its task, and records its end even at shutdown."""

RECORD_ATTEMPTS = 60
"""Attempts to record an end, a second apart: a full disk may get room."""

PR_SET_CHILD_SUBREAPER = 36
"""Linux' prctl(2): orphans of the task become children of the shim."""

CHILDREN = f"/proc/self/task/{os.getpid()}/children"


class CannotRunError(Exception):
    """The task cannot be run: a shell's exit code, and why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def ticks_of(pid: int) -> tuple[int, str] | None:
    """Return a process's start in ticks since boot and its state letter; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may contain anything; fields 3 (state) and 22 (start) follow it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19]), fields[0].decode()


def boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def identity_of(pid: int) -> dict[str, Any]:
    """Return what identifies a process among all that ever have its pid."""
    found = ticks_of(pid)
    return {"pid": pid, "ticks": found[0] if found else 0, "boot": boot_id()}


def record(name: str, content: dict[str, Any]) -> None:
    """Write a file of the task's folder atomically."""
    draft = f"{name}.{os.getpid()}"
    write_private(draft, content)
    os.replace(draft, name)


def write_private(name: str, content: dict[str, Any]) -> None:
    """Write a file that only its owner can read."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        json.dump(content, file)


def claim(content: dict[str, Any], folder: str = ".") -> bool:
    """Claim the task; True for one process only, since a link is created once."""
    draft = os.path.join(folder, f"{CLAIM}.{os.getpid()}")
    write_private(draft, content)
    try:
        os.link(draft, os.path.join(folder, CLAIM))
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def main(folder: str) -> int:
    """Run the task of this folder, unless it is claimed."""
    with contextlib.suppress(OSError):
        os.setsid()
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, 256)  # descriptors inherited by accident
    try:
        os.chdir(folder)
        with open(ORDER, "rb") as file:
            order = json.load(file)
    except OSError:
        return 0  # the order was taken back
    if claim(identity_of(os.getpid())):
        run_task(order)
    return 0


def run_task(order: dict[str, Any]) -> None:
    adopt_orphans()
    try:
        pid = begin(order)
    except CannotRunError as problem:
        end({"code": problem.code, "error": str(problem), "begun": False})
        return
    except OSError as problem:
        end({"error": f"could not be started: {problem.strerror}", "begun": False})
        return
    hang_up()
    end(wait(pid))


def end(how: dict[str, Any]) -> None:
    entry = how | {"at": time.time()}
    for _ in range(RECORD_ATTEMPTS):
        try:
            record(ENDED, entry)
        except OSError:
            time.sleep(1.0)
        else:
            return


def hang_up() -> None:
    """Close the pipe: there is something to read."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def adopt_orphans() -> None:
    """Adopt orphans of the task, if the system can list children."""
    if os.path.exists(CHILDREN):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def begin(order: dict[str, Any]) -> int:
    """Start the task's process. Its program begins only once the process is on record."""
    output = open_log(order["output"])
    held, go = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go)  # else it would wait for ever if the shim dies
        become(order, output, held, tell)
    for descriptor in (output, held, tell):
        os.close(descriptor)
    try:
        os.read(told, 1)  # it now leads its own session
        record(BEGUN, identity_of(pid) | {"at": time.time()})
        os.write(go, b"!")
    except OSError:
        os.close(go)
        os.waitpid(pid, 0)
        raise
    os.close(go)
    problem = os.read(told, 65536)
    os.close(told)
    if problem:
        os.waitpid(pid, 0)
        code, _, words = problem.decode("utf-8", "replace").partition(" ")
        raise CannotRunError(int(code), words)
    return pid


def open_log(path: str) -> int:
    """Open the task's log; attempts append to it."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise CannotRunError(NOT_RUNNABLE, f"cannot write its log: {problem.strerror}") from None


def become(order: dict[str, Any], output: int, held: int, tell: int) -> NoReturn:
    """In the task's process: set it up and become its program."""
    try:
        os.setsid()
        for number in {*DEAF, signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.write(tell, b"!")
        if os.read(held, 1):
            settle(order["folder"], output, own=order.get("own_folder", True))
            execute(order["argv"], order["environ"])
    except (CannotRunError, OSError) as problem:
        words = f"{getattr(problem, 'code', NOT_RUNNABLE)} {problem}"
        os.write(tell, words.encode("utf-8", "backslashreplace")[:4096])  # more would not be atomic
    finally:
        os._exit(NOT_FOUND)


def settle(folder: str, output: int, *, own: bool) -> None:
    """Redirect the streams, and enter the folder; only the job's own is created."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    try:
        if own:
            os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
    except FileNotFoundError:
        words = f"its folder {folder} does not exist; create it, or submit with another folder"
        raise CannotRunError(NOT_RUNNABLE, words) from None
    except OSError as problem:
        raise CannotRunError(
            NOT_RUNNABLE, f"cannot use its folder {folder}: {problem.strerror}"
        ) from None


def execute(argv: list[str], environ: dict[str, str]) -> NoReturn:
    try:
        words = [as_bytes(word) for word in argv]
        os.execvpe(words[0], words, {as_bytes(k): as_bytes(v) for k, v in environ.items()})
    except (OSError, ValueError, IndexError) as problem:
        raise explained(argv, environ, problem) from None


def as_bytes(text: str) -> bytes:
    """Encode text back to its original bytes, whatever the locale."""
    return text.encode("utf-8", "surrogateescape")


def explained(argv: list[str], environ: dict[str, str], problem: Exception) -> CannotRunError:
    """Explain why a command cannot be run, and what to do."""
    command = argv[0] if argv else ""
    number = getattr(problem, "errno", None)
    if number in (errno.ENOENT, errno.ENOTDIR):
        if os.path.exists(command) and "/" in command:
            words = f"the interpreter in the first line of {command} does not exist"
        elif "/" in command:
            words = f"no such command: {command}; paths are relative to {os.getcwd()}"
        else:
            where = environ.get("PATH", os.defpath)
            words = f"no such command: {command}; not found in PATH={where}"
        return CannotRunError(NOT_FOUND, words)
    if number == errno.EACCES:
        words = f"no permission to run {command}; chmod +x it, or run it with its interpreter"
    elif number == errno.ENOEXEC:
        words = f"{command} is not a program; add a first line such as #!/bin/sh"
    elif number == errno.E2BIG:
        words = f"the arguments and the environment of {command} are too long"
    elif not argv:
        words = "the command is empty"
    else:
        words = f"{command} cannot be run: {problem}"
    return CannotRunError(NOT_RUNNABLE, words)


def wait(pid: int) -> dict[str, Any]:
    """Wait for the task, end its orphans, and return how it ended."""
    while (dead := next_dead()).si_pid != pid:
        os.waitpid(dead.si_pid, 0)  # an orphan
    # Not waited for yet, it keeps its pid: no other process can be hit.
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    sweep()
    if dead.si_code == os.CLD_EXITED:
        return {"code": dead.si_status}
    return {"signal": dead.si_status}


def next_dead() -> os.waitid_result:
    """Return a child that has ended, without waiting for it."""
    while True:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if dead is not None:
            return dead


def sweep() -> None:
    """Kill all children, and theirs as they become ours."""
    while True:
        for child in children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def children() -> list[int]:
    """Return the children of this process, if the system lists them."""
    try:
        with open(CHILDREN, encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
