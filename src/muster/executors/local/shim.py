"""Runs one task and outlives it: `python -I -S shim.py FOLDER`, or forked by `shim_server.py`.

A separate program on the standard library alone. It reads the order from the task's folder, and records
there the process and how it ended, for any executor to read. Its standard output is a pipe to the
executor that started it; closing it means that there is something to read.
"""

# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH109, PTH110, PTH118, PTH120, PTH123
# Started with every task: loading pathlib would take half as long again.

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import sys
import time
from math import inf
from typing import Any, NoReturn

ORDER, CLAIM, BEGUN, ENDED = "order.json", "claim.json", "begun.json", "ended.json"
"""What to run; which shim runs it; its process; how it ended. Each is written once, atomically."""

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""A shell's exit codes for a command that is missing or cannot be run."""

DEAF = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals to ignore: a shim outlives its task, and records its end even at shutdown."""

ROOM = 4096
"""Bytes reserved for the record of the end before the task begins: it may fill the disk."""

RECORD_ATTEMPTS = 60
"""Attempts to record an end, a second apart: a full disk may get room."""

PR_SET_CHILD_SUBREAPER = 36
"""Linux' prctl(2): orphans of the task become children of the shim."""

PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
"""Linux' prctl(2): keep no capability over the next program."""

OOM_SCORE = "/proc/self/oom_score_adj"
"""Below 0, the kernel kills others first when memory runs out: meant for the daemon, not for tasks."""

UMASK = 0o022
"""Of tasks that do not run as the executor's user: what Unix users are used to."""

MEMBERS = "cgroup.procs"
"""The file of a cgroup with its processes; one that writes 0 there enters."""

OOM_COUNTS = ("memory.events", "memory.oom_control")
"""The files of a cgroup that count kills by the kernel, in version 2 and 1."""

EMPTY_ATTEMPTS, EMPTY_AGAIN = 500, 0.01
"""How often to look whether a cgroup is empty, and s in between: the dead take a moment to leave."""

LEASE_CHECK = 0.5
"""s between two checks of a lease."""

PR_SET_PDEATHSIG = 1
"""Linux' prctl(2): the signal to get when the parent dies."""


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


def uptime() -> float:
    """Return the s since boot: a clock that nobody sets, and that runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def moment() -> dict[str, Any]:
    """Return the time now, by the machine's clock and since its boot."""
    return {"at": time.time(), "up": uptime(), "boot": boot_id()}


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
    groups = order.get("groups", [])
    try:
        overwrite(end_draft(), b"")
        terminal = terminal_of(order)
        pid = begin(order, terminal)
    except CannotRunError as problem:
        remove_groups(groups)
        end({"code": problem.code, "error": str(problem), "begun": False})
        return
    except OSError as problem:
        remove_groups(groups)
        end({"error": f"could not be started: {problem.strerror}", "begun": False})
        return
    hang_up()
    lapsed = hold_lease(pid, order.get("lease", 0.0), order.get("heard", ""))
    how = wait(pid)
    if terminal is not None:
        how = {"code": 0} if terminal.idled else how
        terminal.finish(how)
    killed = remove_groups(groups)
    end(how | {"oom": killed and how.get("code") != 0, "error": "".join(lapsed)})


def end(how: dict[str, Any]) -> None:
    content = json.dumps(how | moment()).encode("ascii")
    for _ in range(RECORD_ATTEMPTS):
        try:
            overwrite(end_draft(), content)
            os.replace(end_draft(), ENDED)
        except OSError:
            time.sleep(1.0)
        else:
            return


def end_draft() -> str:
    """Return the file that becomes the record of the end."""
    return f"{ENDED}.{os.getpid()}"


def overwrite(name: str, content: bytes) -> None:
    """Write a private file padded to `ROOM`: what replaces it needs no more of a disk that is full."""
    padded = content.ljust(ROOM)
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if os.write(descriptor, padded) < len(padded):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def hang_up() -> None:
    """Close the pipe: there is something to read."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def adopt_orphans() -> None:
    """Adopt orphans of the task, if the system can list children."""
    if os.path.exists(own_children()):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def terminal_of(order: dict[str, Any]) -> Any:
    """Open the terminal of an interactive task; None for others, which do not load its module."""
    if order.get("terminal") is None:
        return None
    return beside("terminal.py")["Terminal"](order.get("account"), order["terminal"])


def beside(name: str) -> dict[str, Any]:
    """Load a module of this folder that few tasks need."""
    import runpy

    return runpy.run_path(os.path.join(os.path.dirname(__file__), name))


def begin(order: dict[str, Any], terminal: Any) -> int:
    """Start the task's process. Its program begins only once the process is on record."""
    output = open_log(order["output"], order.get("account"))
    pack = open_pack(order.get("pack", ""))
    held, go = os.pipe()
    told, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go)  # else it would wait for ever if the shim dies
        become(order, output, pack, held, tell, terminal)
    if terminal is not None:
        terminal.hold(pid, os.dup(output))
    for descriptor in (output, pack, held, tell):
        if descriptor >= 0:
            os.close(descriptor)
    try:
        os.read(told, 1)  # it now leads its own session
        record(BEGUN, identity_of(pid) | moment())
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


def open_log(path: str, account: dict[str, Any] | None) -> int:
    """Open the task's log; attempts append to it."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        if account is not None:
            # Its user cannot reach it by name, but can by /dev/stdout.
            os.fchown(log, account["uid"], account["gid"])
        return log
    except OSError as problem:
        raise CannotRunError(NOT_RUNNABLE, f"cannot write its log: {problem.strerror}") from None


def open_pack(path: str) -> int:
    """Open the pack of a shipped folder, which the task's user may not reach; -1 if it ships none."""
    try:
        return os.open(path, os.O_RDONLY) if path else -1
    except OSError as problem:
        words = f"its packed folder is not here: {problem.strerror}; submit it again"
        raise CannotRunError(NOT_RUNNABLE, words) from None


def become(
    order: dict[str, Any], output: int, pack: int, held: int, tell: int, terminal: Any
) -> NoReturn:
    """In the task's process: set it up and become its program."""
    try:
        os.setsid()
        for number in {*DEAF, signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.write(tell, b"!")
        if os.read(held, 1):
            apart = beside("apart.py") if order.get("apart") else None
            enter(order.get("groups", []))
            limit_harm()
            if order.get("account") is not None:
                drop_to(**order["account"])
            if order.get("lease"):
                # Without its shim nobody would end it in time.
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            umask = os.umask(0o077)
            make_private(order.get("private", ""))
            if pack >= 0:
                unpack(pack, order["unpack"])
            settle(order["folder"], output, own=order.get("own_folder", True))
            if terminal is not None:
                terminal.take()
            os.umask(umask if order.get("umask") is None else order["umask"])
            if apart is not None:
                apart["stand_before"]()
            execute([*order.get("wrap", []), *order["argv"]], order["environ"])
    except (CannotRunError, OSError) as problem:
        words = f"{getattr(problem, 'code', NOT_RUNNABLE)} {problem}"
        os.write(tell, words.encode("utf-8", "backslashreplace")[:4096])  # more would not be atomic
    finally:
        os._exit(NOT_FOUND)


def enter(groups: list[str]) -> None:
    """Enter the task's cgroups."""
    for group in groups:
        try:
            with open(os.path.join(group, MEMBERS), "w", encoding="ascii") as file:
                file.write("0")
        except OSError as problem:
            raise CannotRunError(
                NOT_RUNNABLE, f"cannot enter its cgroup {group}: {problem.strerror}"
            ) from None


def limit_harm() -> None:
    """Leave no dumps of memory, which holds secrets, and be no harder to kill than other programs."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError), open(OOM_SCORE, "r+", encoding="ascii") as file:
        if int(file.read()) < 0:
            file.write("0")


def drop_to(uid: int, gid: int, groups: list[int]) -> None:
    """Become the job's user for good."""
    try:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as problem:
        raise CannotRunError(NOT_RUNNABLE, f"cannot become user {uid}: {problem.strerror}") from None
    # Kept capabilities (securebits) would let it return.
    ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        kept = [line for line in file if line.startswith(("CapEff", "CapPrm"))]
    if any(int(line.split()[1], 16) for line in kept):
        raise CannotRunError(NOT_RUNNABLE, f"cannot become user {uid}: capabilities are kept")


def make_private(folder: str) -> None:
    """Make the job's own folder before anybody makes folders in it."""
    with contextlib.suppress(OSError):  # not every job uses it
        os.makedirs(folder, exist_ok=True)


def unpack(pack: int, into: str) -> None:
    """Make the shipped folder, as the task's user and with a module that other tasks do not load."""
    try:
        beside("unpack.py")["unpack"](pack, into)
    except Exception as problem:  # of the disk, of a damaged or forged pack
        words = f"its shipped folder could not be unpacked: {problem}"
        raise CannotRunError(NOT_RUNNABLE, words) from None


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
    signal.setitimer(signal.ITIMER_REAL, 0)  # no lease to watch any more
    # Not waited for yet, it keeps its pid: no other process can be hit.
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    sweep()
    if dead.si_code == os.CLD_EXITED:
        return {"code": dead.si_status}
    return {"signal": dead.si_status}


def hold_lease(pid: int, lease: float, heard: str) -> list[str]:
    """Kill the task once its daemon has been silent for `lease` s; return where that will be noted."""
    lapsed: list[str] = []

    def check(*_: object) -> None:
        silence = uptime() - last_heard(heard)
        if silence > lease:
            lapsed[:] = [f"killed at the end of its lease: no word from the daemon for {lease:g} s"]
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    if lease and heard:  # below a daemon on this machine there is no silence
        signal.signal(signal.SIGALRM, check)
        signal.setitimer(signal.ITIMER_REAL, LEASE_CHECK, LEASE_CHECK)
    return lapsed


def last_heard(path: str) -> float:
    """Return when the daemon was last heard, in s since boot; -inf if that is unknown.

    Not 0: on a machine that booted a minute ago that would be a minute ago."""
    try:
        with open(path, encoding="ascii") as file:
            return float(file.read())
    except (OSError, ValueError):
        return -inf


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


def own_children() -> str:
    """Return the file that lists the children of this process."""
    return f"/proc/self/task/{os.getpid()}/children"


def children() -> list[int]:
    """Return the children of this process, if the system lists them."""
    try:
        with open(own_children(), encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def remove_groups(groups: list[str], attempts: int = EMPTY_ATTEMPTS) -> bool:
    """Kill what is left in cgroups and remove them; return whether the kernel has killed for memory."""
    killed = any(oom_kills(group) for group in groups)
    for attempt in range(attempts):
        groups = [group for group in groups if not remove_group(group)]
        if not groups or attempt + 1 == attempts:
            break
        time.sleep(EMPTY_AGAIN)
    return killed


def remove_group(group: str) -> bool:
    """Kill the processes of a cgroup and remove it, if they are gone."""
    for inside in below(group):
        remove_group(inside)
    for pid in members(group):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    try:
        os.rmdir(group)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(group))  # after the last task
    return True


def below(group: str) -> list[str]:
    """Return the cgroups that a task has made in its own."""
    try:
        return [entry.path for entry in os.scandir(group) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def members(group: str) -> list[int]:
    """Return the processes of a cgroup; 0 are those of other containers."""
    try:
        with open(os.path.join(group, MEMBERS), encoding="ascii") as file:
            return [pid for pid in map(int, file.read().split()) if pid]
    except OSError:
        return []


def oom_kills(group: str) -> int:
    """Return how many processes of a cgroup the kernel has killed for want of memory."""
    for name in OOM_COUNTS:
        try:
            with open(os.path.join(group, name), encoding="ascii") as file:
                counts = dict(line.split() for line in file)
        except (OSError, ValueError):
            continue
        return int(counts.get("oom_kill", 0))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
