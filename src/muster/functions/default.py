"""`muster.submit`: a function as a job, on the daemon there is or on one of this process."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from muster.client.client import Client
from muster.client.connecting.settings import URL
from muster.client.errors import ClientError
from muster.functions.executor import FunctionExecutor
from muster.functions.future import FunctionFuture
from muster.functions.outcome import values_of
from muster.functions.travel import fetch_results

T = TypeVar("T")


def submit(
    fn: Callable[..., T],
    /,
    *args: Any,
    devices: str | int = 1,
    fields: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> FunctionFuture[T]:
    """Run a function as a job; return its future.

    `devices`: as in a job file: 1, "1..4", "V100:2". `fields`: other fields of a job file. Everything
    else is the function's.
    """
    executor = FunctionExecutor(default_client(), devices=devices, **(fields or {}))
    return executor.submit(fn, *args, **kwargs)


def result(which: str | int, client: Client | None = None) -> Any:
    """Return what the function of a job returned, or raise what it raised; waits for its end.

    For a job whose future is gone, such as after a restart of the notebook.
    """
    client = client or default_client()
    handle = client.handle(which)
    job = handle.wait()
    program = client.job(handle.number).program
    if program is not None and program.ship:
        with TemporaryDirectory() as folder:
            fetch_results(client, job, Path(folder))
            return values_of(Path(folder), job)[0]
    if program is None or not program.folder:
        raise ClientError(0, "No Result", f"job {job.number} ({job.name}) has no folder with a result")
    return values_of(Path(program.folder), job)[0]


def default_client() -> Client:
    """Return a client of the daemon of MUSTER_URL or of the last `muster up`; if there is none on this
    machine, of one inside this process."""
    return _client(os.getpid())


@lru_cache(maxsize=1)
def _client(pid: int) -> Client:
    """One for each process: a forked one shares neither connections nor threads."""
    client = Client(patience=0.5)
    try:
        client.status()
    except ClientError as error:
        if error.status or os.environ.get(URL):
            raise
    else:
        client.close()
        return Client()
    from muster.app.local import local

    found = local()
    devices = found.status().devices
    told = f"muster: no daemon answers; this process runs one with {devices} devices until it ends"
    print(f"{told} (muster up keeps one)", file=sys.stderr)
    return found
