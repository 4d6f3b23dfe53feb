"""`python -m muster.functions.task`: runs the call of its working folder, as a task of a job."""

import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

from muster.functions.call import (
    HUGE,
    CallError,
    CallHeader,
    ResultHeader,
    python_version,
    read_call,
    refuse_other_python,
    write_result,
)

FAILED = 1
"""Exit code of a call that raised."""


def main() -> int:
    """Run the call and write its result; return the exit code."""
    folder, task = Path.cwd(), os.environ.get("MUSTER_TASK", "worker-0")
    try:
        header, data = read_call(folder)
        function, args, kwargs = _loaded(header, data)
    except Exception as error:
        return _fail(folder, task, error, told=isinstance(error, CallError))
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        return _fail(folder, task, error)
    return _succeed(folder, task, value)


def _loaded(header: CallHeader, data: bytes) -> Any:
    """Return the function and its arguments, where the caller's modules and files are found."""
    refuse_other_python(header)
    sys.path[:0] = [entry for entry in header.path if entry not in sys.path]
    if Path(header.folder).is_dir():
        os.chdir(header.folder)
    return pickle.loads(data)


def _succeed(folder: Path, task: str, value: Any) -> int:
    import cloudpickle

    try:
        data = cloudpickle.dumps(value)
    except Exception as error:
        problem = CallError(f"its result, a {type(value).__name__}, cannot be pickled: {error}")
        return _fail(folder, task, problem, told=True)
    write_result(folder, task, ResultHeader(True, python_version(), len(data)), data)
    if len(data) > HUGE:
        print(f"result: {len(data) / 1e6:,.0f} MB in {folder}", file=sys.stderr)
    return 0


def _fail(folder: Path, task: str, error: Exception, *, told: bool = False) -> int:
    """Write the exception for who waits for it, and print it for who reads the log."""
    # Without the line of this module that made the call.
    trace = error.__traceback__.tb_next if error.__traceback__ and not told else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    print(f"muster: {error}" if told else text, file=sys.stderr)
    said = "".join(traceback.format_exception_only(error)).strip()
    data = _pickled(error)
    write_result(folder, task, ResultHeader(False, python_version(), len(data), said, text), data)
    return FAILED


def _pickled(error: Exception) -> bytes:
    """Return the exception as a pickle that can be read again; empty if there is none."""
    try:
        import cloudpickle

        data: bytes = cloudpickle.dumps(error)
        pickle.loads(data)  # many exceptions with arguments of their own fail only here
    except Exception:
        return b""
    return data


if __name__ == "__main__":
    sys.exit(main())
