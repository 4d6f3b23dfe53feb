"""From the fork to the user's script: what makes a forked process look like a fresh interpreter."""

import contextlib
import ctypes
import os
import signal
import sys
import types
from pathlib import Path

import torch

from muster.runtime.launch.fork_protocol import StartTask

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
"""Linux' prctl(2): the signal that a process gets when its parent ends; its name for `ps`."""


def die_with_parent() -> None:
    """Be killed when the fork server is, however that comes about; where the system can."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: object) -> None:
    """Linux' own settings of a process; elsewhere nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def settle(order: StartTask, output: int | None) -> None:
    """Take on the task's session, signals, descriptors, folder and environment."""
    os.setsid()
    _prctl(PR_SET_NAME, order.task.encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _settle_streams(order, output)
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environ)
    if order.threads:
        # The variable was read when torch was loaded: for this process the call alone counts.
        torch.set_num_threads(order.threads)
        os.environ["OMP_NUM_THREADS"] = str(order.threads)
    _shuffle_numpy()


def run_script(script: str, args: tuple[str, ...]) -> int:
    """Run it as `python script args` would; the exit code, unless it raises `SystemExit`."""
    path = Path(script).resolve()
    sys.argv = [script, *args]
    sys.path.insert(0, str(path.parent))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=__builtins__)
    # By hand, not by runpy: the module stays `__main__` to the end, for exit handlers and pickles.
    sys.modules["__main__"] = main
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), main.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise  # the interpreter itself knows best what they mean
    except BaseException as error:
        _tell(error, str(path))
        return 1
    return 0


def _tell(error: BaseException, script: str) -> None:
    """The traceback as the interpreter would show it: it begins in the script, not in this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _settle_streams(order: StartTask, output: int | None) -> None:
    if output is None and order.log:
        output = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Into a pipe or a file, Python would keep lines back until 8 KiB are full.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _shuffle_numpy() -> None:
    """Where torch has loaded NumPy: its global generator, too, is another one in each process."""
    loaded = sys.modules.get("numpy.random")
    if loaded is not None:
        loaded.seed()
