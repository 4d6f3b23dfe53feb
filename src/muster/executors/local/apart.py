"""Stands before a program whose outermost process must not get the task's signals (`bwrap`).

That process waits for the one inside, and would die of a signal that is for it. So it runs in a process
group of its own, and the task's first process, which this one is, passes signals on to the others in
that group. Loaded by the shims of such tasks alone, by its path.
"""

import contextlib
import fcntl
import os
import signal
import termios
from typing import Any

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGCONT,
    signal.SIGWINCH,
)


def stand_before() -> None:
    """Return in a new process, which is to become the program; this one stays, and ends as it does."""
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        return
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    give_terminal(pid)
    os.closerange(3, 256)  # else whoever waits for the program's start would wait for this one
    for number in PASSED_ON:
        signal.signal(number, lambda which, _: pass_on(pid, which))
    while True:
        with contextlib.suppress(InterruptedError):
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            break
    os._exit(code if code >= 0 else 128 - code)


def give_terminal(group: int) -> None:
    """Make a process group the foreground of the task's terminal, if it has one."""
    with contextlib.suppress(OSError):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSPGRP, group.to_bytes(4, "little"))


def pass_on(group: int, number: int) -> None:
    """Send a signal to all of a group but its first process."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and int(name) != group:
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields: list[Any] = file.read().rpartition(b")")[2].split()
                if int(fields[2]) == group:
                    os.kill(int(name), number)
