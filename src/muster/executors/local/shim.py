"""Runs one task and outlasts it: `python -I -S shim.py <the task's folder>`.

A program of its own, with the standard library alone: it takes the order from the task's folder, and
leaves there who runs and how it ended, for whichever executor comes to look. Its standard output is the
executor that started it: that it hangs up says that there is something to read.
"""

# ruff: noqa: PTH103, PTH105, PTH108, PTH109, PTH110, PTH118, PTH120, PTH123
# One of these starts with every task: to load pathlib would take half as long again.

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
"""What to run; which shim does; as which process; how that ended. Each is written once, as a whole."""

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""A shell's exit codes for a command that is not there, and for one that cannot be run."""

DEAF = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""A shim ends with its task, not before: when a machine is shut down it still records the end."""

RECORD_ATTEMPTS = 60
"""How often it is tried to record an end, a second apart: a full disk is made room on, or is not."""

PR_SET_CHILD_SUBREAPER = 36
"""Linux' prctl(2): processes that a task leaves behind become children of the shim."""

CHILDREN = f"/proc/self/task/{os.getpid()}/children"
"""The processes that the shim is a parent of."""


class CannotRunError(Exception):
    """The task cannot be run: a shell's exit code for it, and why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def ticks_of(pid: int) -> tuple[int, str] | None:
    """When a process began, in ticks since the boot, and its state letter; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may hold anything; fields 3 (state) and 22 (start) come after it.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19]), fields[0].decode()


def boot_id() -> str:
    """Which boot of the machine this is."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def identity_of(pid: int) -> dict[str, Any]:
    """What tells a process from any other that has had its number, or will."""
    found = ticks_of(pid)
    return {"pid": pid, "ticks": found[0] if found else 0, "boot": boot_id()}


def record(name: str, content: dict[str, Any]) -> None:
    """Write a file of the task's folder: it is there as a whole or not at all."""
    draft = f"{name}.{os.getpid()}"
    write_private(draft, content)
    os.replace(draft, name)


def write_private(name: str, content: dict[str, Any]) -> None:
    """Write a file for the owner's eyes."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        json.dump(content, file)


def claim(content: dict[str, Any], folder: str = ".") -> bool:
    """Be the one that decides about this task: a link is made once, however many try."""
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
    """Run the task of this folder, unless somebody has."""
    with contextlib.suppress(OSError):
        os.setsid()
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, 256)  # what the executor's process had open and did not mean for this one
    try:
        os.chdir(folder)
        with open(ORDER, "rb") as file:
            order = json.load(file)
    except OSError:
        return 0  # the order was taken back
    if claim(identity_of(os.getpid())):
        outlast(order)
    return 0


def outlast(order: dict[str, Any]) -> None:
    """From the order to its end; both are on record."""
    adopt_orphans()
    try:
        pid = begin(order)
    except CannotRunError as problem:
        end({"code": problem.code, "error": str(problem), "begun": False})
        return
    except OSError as problem:
        end({"error": f"it could not be started: {problem.strerror}", "begun": False})
        return
    hang_up()
    end(wait(pid))


def end(how: dict[str, Any]) -> None:
    """Record the end."""
    entry = how | {"at": time.time()}
    for _ in range(RECORD_ATTEMPTS):
        try:
            record(ENDED, entry)
        except OSError:
            time.sleep(1.0)
        else:
            return


def hang_up() -> None:
    """Tell the executor that there is something to read."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def adopt_orphans() -> None:
    """Become the parent of what the task leaves behind, where the system can say what that is."""
    if os.path.exists(CHILDREN):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def begin(order: dict[str, Any]) -> int:
    """Start the task's process: on record before its program begins, or the program never does."""
    output = open_log(order["output"])
    held, go = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go)  # else a shim that dies would leave it waiting
        become(order, output, held, tell)
    for descriptor in (output, held, tell):
        os.close(descriptor)
    try:
        os.read(told, 1)  # by now it leads a session of its own
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
    """The task's output; attempts follow each other."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as problem:
        raise CannotRunError(NOT_RUNNABLE, f"its log cannot be written: {problem.strerror}") from None


def become(order: dict[str, Any], output: int, held: int, tell: int) -> NoReturn:
    """In the task's own process: take on everything that it is to have, and nothing else."""
    try:
        os.setsid()
        for number in {*DEAF, signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.write(tell, b"!")
        if os.read(held, 1):
            settle(order["folder"], output)
            execute(order["argv"], order["environ"])
    except (CannotRunError, OSError) as problem:
        words = f"{getattr(problem, 'code', NOT_RUNNABLE)} {problem}"
        os.write(tell, words.encode("utf-8", "backslashreplace")[:4096])  # more is not written at once
    finally:
        os._exit(NOT_FOUND)


def settle(folder: str, output: int) -> None:
    """Streams and folder."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    try:
        os.makedirs(folder, exist_ok=True)
        os.chdir(folder)
    except OSError as problem:
        raise CannotRunError(
            NOT_RUNNABLE, f"its folder cannot be used: {folder}: {problem.strerror}"
        ) from None


def execute(argv: list[str], environ: dict[str, str]) -> NoReturn:
    """Become the command."""
    try:
        words = [as_bytes(word) for word in argv]
        os.execvpe(words[0], words, {as_bytes(k): as_bytes(v) for k, v in environ.items()})
    except (OSError, ValueError, IndexError) as problem:
        raise explained(argv, environ, problem) from None


def as_bytes(text: str) -> bytes:
    """As it was before it was made a text, whatever the locale of either side."""
    return text.encode("utf-8", "surrogateescape")


def explained(argv: list[str], environ: dict[str, str], problem: Exception) -> CannotRunError:
    """Why a command cannot be run, and what to do."""
    command = argv[0] if argv else ""
    number = getattr(problem, "errno", None)
    if number in (errno.ENOENT, errno.ENOTDIR):
        if os.path.exists(command) and "/" in command:
            words = f"the interpreter that {command} names in its first line is not there"
        elif "/" in command:
            words = f"no such command: {command}; paths count from its folder, {os.getcwd()}"
        else:
            where = environ.get("PATH", os.defpath)
            words = f"no such command: {command}; it is nowhere in PATH={where}"
        return CannotRunError(NOT_FOUND, words)
    if number == errno.EACCES:
        words = f"no permission to run {command}; chmod +x it, or name its interpreter before it"
    elif number == errno.ENOEXEC:
        words = f"{command} is not a program; begin it with a line such as #!/bin/sh"
    elif number == errno.E2BIG:
        words = f"the arguments and the environment of {command} are too long"
    elif not argv:
        words = "the command is empty"
    else:
        words = f"{command} cannot be run: {problem}"
    return CannotRunError(NOT_RUNNABLE, words)


def wait(pid: int) -> dict[str, Any]:
    """How the task ended, once whatever it left behind is gone, too."""
    while (dead := next_dead()).si_pid != pid:
        os.waitpid(dead.si_pid, 0)  # an orphan of the task's
    # Not taken note of yet, it keeps its number: nobody else can be hit.
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    sweep()
    if dead.si_code == os.CLD_EXITED:
        return {"code": dead.si_status}
    return {"signal": dead.si_status}


def next_dead() -> os.waitid_result:
    """A child that has ended; it is still to be waited for."""
    while True:
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if dead is not None:
            return dead


def sweep() -> None:
    """End all children, and theirs as they become ours."""
    while True:
        for child in children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def children() -> list[int]:
    """The processes that this one is a parent of, where the system says."""
    try:
        with open(CHILDREN, encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
