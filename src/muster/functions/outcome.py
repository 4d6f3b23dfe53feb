"""What came of a call: the values that its tasks returned, or the exception to raise."""

import time
import warnings
from pathlib import Path
from typing import Any

from muster.functions.call import HUGE, CallError, ResultHeader, read_result, results_of
from muster.functions.errors import FunctionError, RemoteTraceback
from muster.wire.api.records import JobRecord

LATE = 10.0
"""s after a job's end until its result may be seen here: NFS shows what another machine wrote only
then."""
_LOOK = 0.1


def values_of(folder: Path, job: JobRecord) -> list[Any]:
    """Return what each task of a finished job returned, by rank; raise what one raised, or why there is
    nothing."""
    found = _awaited(folder, job)
    for path in found:
        header, value = _read(path, job)
        if not header.ok:
            raise _raised(header, value, job)
    if job.status != "succeeded":
        raise FunctionError(_death(job), job.number)
    if not found:
        raise FunctionError(
            f"job {job.number} ({job.name}) ended without a result in {folder}: the function called "
            "sys.exit(), or that folder is not shared with the node; send calls along with ship=True, "
            "or choose a shared folder with folder=...",
            job.number,
        )
    return [_read(path, job)[1] for path in found]


def _awaited(folder: Path, job: JobRecord) -> list[Path]:
    """List the results; those of a job that succeeded may come late."""
    limit = time.monotonic() + LATE
    while not (found := results_of(folder)) and job.status == "succeeded":
        if time.monotonic() > limit:
            break
        time.sleep(_LOOK)
    return found


def _read(path: Path, job: JobRecord) -> tuple[ResultHeader, Any]:
    size = path.stat().st_size
    if size > HUGE:
        told = f"the result of job {job.number} ({job.name}) is {size / 1e6:,.0f} MB, in {path}"
        warnings.warn(told, ResourceWarning, stacklevel=2)
    try:
        return read_result(path)
    except CallError as error:
        raise FunctionError(f"job {job.number} ({job.name}): {error}", job.number) from error


def _raised(header: ResultHeader, error: Any, job: JobRecord) -> BaseException:
    """Return the exception, with the task's traceback as its cause."""
    told = f"job {job.number} ({job.name}) raised {header.error}"
    raised = error if isinstance(error, BaseException) else FunctionError(told, job.number)
    raised.__cause__ = RemoteTraceback(header.traceback)
    return raised


def _death(job: JobRecord) -> str:
    """`job 12 (f) failed: worker-0 was killed by SIGKILL (muster logs 12)`."""
    why = (job.error or job.reason or "for an unknown reason").splitlines()[0]
    return f"job {job.number} ({job.name}) {job.status}: {why} (muster logs {job.number})"
