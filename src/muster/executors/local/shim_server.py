"""Forks shims: `python -I -S shim_server.py ROOM`, its standard input a socket.

A task whose Python starts and reads `shim.py` costs 50 ms of CPU, one forked from here 10. A message
is the folder of a task, and comes with the pipe of its shim; the answer is the shim's pid and start, or
why there is none. The server ends when the other end of the socket is closed; its shims do not.

Like the shim, it is a separate program on the standard library alone.
"""

# ruff: noqa: PTH100, PTH120, PTH123
# As in `shim.py`.

import ctypes
import os
import signal
import socket
import sys
from importlib import import_module

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # left out by -I
shim = import_module("shim")

SHIM = str(shim.__file__)
LONGEST = 8192
"""Bytes of a folder's path: twice what Linux takes."""


def serve(door: socket.socket) -> None:
    """Fork a shim for each folder that is sent, until nobody is left to send one."""
    signal.signal(signal.SIGCHLD, reap)
    while True:
        folder, pipes, _, _ = socket.recv_fds(door, LONGEST, 1)
        if not folder:
            return
        # Held back while it is asked who the shim is: one that is not reaped keeps its pid.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
        answer = forked(folder, pipes[0])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        os.close(pipes[0])
        door.send(answer.encode())


def forked(folder: bytes, pipe: int) -> str:
    """Fork a shim; return its pid and when it started, or why it could not be forked."""
    try:
        pid = os.fork()
    except OSError as problem:
        return f"- {problem.errno}"
    if not pid:
        become_shim(folder, pipe)
    found = shim.ticks_of(pid)
    return f"{pid} {found[0] if found else 0}"


def become_shim(folder: bytes, pipe: int) -> None:
    """In the forked process: be what `shim.py FOLDER` is."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(pipe, 1)
        path = os.fsdecode(folder)
        retitle(sys.executable, "-I", "-S", SHIM, path)
        shim.main(path)
    finally:
        os._exit(0)


def reap(*_: object) -> None:
    """Let the system forget shims that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def retitle(*words: str) -> None:
    """Show another command line to `ps`, as far as this one's has room for it."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
    room = end - begin
    shown = b"\0".join(map(os.fsencode, words))[: max(0, room - 1)]
    if begin and room:
        ctypes.memmove(begin, shown.ljust(room, b"\0"), room)


if __name__ == "__main__":
    for deaf in shim.DEAF:
        signal.signal(deaf, signal.SIG_IGN)
    retitle(sys.executable, "-I", "-S", __file__)
    serve(socket.socket(fileno=0))
