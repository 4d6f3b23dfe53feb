"""From the fork to the user's script: makes a forked process look like a fresh interpreter."""

import atexit
import contextlib
import ctypes
import gc
import io
import os
import signal
import sys
import threading
import types
from collections.abc import Container
from pathlib import Path
from typing import NoReturn

import torch

from muster.runtime.launch.fork_protocol import StartTask

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
"""Linux prctl(2): the signal on the parent's death; the process name."""


def die_with_parent() -> None:
    """Get killed when the fork server dies, where the system supports it."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: object) -> None:
    """Call prctl(2) on Linux; do nothing elsewhere."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def settle(order: StartTask, output: int | None) -> None:
    """Set up the task's session, signals, descriptors, folder and environment."""
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
        # torch has read the variable already: only the call counts in this process.
        torch.set_num_threads(order.threads)
        os.environ["OMP_NUM_THREADS"] = str(order.threads)
    # Forks would share the state of NumPy's global generator, if torch has loaded it.
    loaded = sys.modules.get("numpy.random")
    if loaded is not None:
        loaded.seed()


def run_script(script: str, args: tuple[str, ...]) -> int:
    """Run a script like `python script args`; return the exit code."""
    path = Path(script).resolve()
    sys.argv = [script, *args]
    sys.path.insert(0, str(path.parent))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=str(path), __builtins__=__builtins__)
    # Not runpy: the module must stay `__main__` for exit handlers and pickles.
    sys.modules["__main__"] = main
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), main.__dict__)
    except SystemExit as end:
        return _exit_code(end.code)
    except KeyboardInterrupt:
        raise  # left to the interpreter
    except BaseException as error:
        _tell(error, str(path))
        return 1
    return 0


def _exit_code(asked: object) -> int:
    """Return what a process ends with whose script has called `sys.exit(asked)`."""
    if asked is None or isinstance(asked, int):
        return (asked or 0) & 0xFF
    print(asked, file=sys.stderr)
    return 1


def leave(code: int, preloaded: Container[str]) -> NoReturn:
    """End the process as the interpreter would, without freeing its objects one by one.

    That would take 0.35 s and copy the pages that a fork shares with its parent: twenty times what it
    takes to start a task. Threads, exit handlers and files have their turn.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # Not the files of what was preloaded: that is frozen, and none of the script's.
    for each in (sys.stdout, sys.stderr, *gc.get_objects()):
        # By its type: asking a weak proxy itself would fail if what it stands for is gone.
        if issubclass(type(each), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with contextlib.suppress(OSError, ValueError):
                each.flush()
    if _has_libraries(preloaded):
        # Holds the lock of the interpreter: no thread that is left runs into what is being freed.
        ctypes.PyDLL(None).exit(code)
    os._exit(code)


def _has_libraries(preloaded: Container[str]) -> bool:
    """Whether exit handlers in C may have something to do: HDF5's, for example, writes its files."""
    own = (module for name, module in sys.modules.items() if name not in preloaded)
    return torch.cuda.is_initialized() or any(
        str(getattr(each, "__file__", "")).endswith(".so") for each in own
    )


def _tell(error: BaseException, script: str) -> None:
    """Print the traceback from the script on, without this file's frames."""
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
    # Python would buffer 8 KiB of output to a pipe or file.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
