"""What a client asks about sweeps."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.client.connecting.connection import DaemonConnection, place
from muster.client.handles.sweep_handle import SweepHandle
from muster.client.sending.job_record import read_file, script_record
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import SweepDetail, SweepRecord

Values = str | Sequence[Any]
"""Of a parameter: a list, "1..4", or a range to draw from, "1e-5..1e-1:log"."""


class SweepCalls:
    """The part of a client that is about sweeps."""

    @property
    def connection(self) -> DaemonConnection:
        """The connection to the daemon."""
        raise NotImplementedError

    def prepared(
        self, record: Mapping[str, Any], env: Mapping[str, str | None] | None
    ) -> dict[str, Any]:
        """Return a job as the daemon takes it, once what it ships is there."""
        raise NotImplementedError

    def sweep(
        self,
        job: Mapping[str, Any] | str | Path,
        *arguments: str,
        over: Mapping[str, Values] | None = None,
        samples: int | None = None,
        seed: int | None = None,
        at_most: int | None = None,
        array: str | None = None,
        asha: Mapping[str, Any] | str | None = None,
        key: str | None = None,
        env: Mapping[str, str | None] | None = None,
        **fields: Any,
    ) -> SweepHandle:
        """Submit a sweep: a job for each value of its parameters, in one request.

        `job`: a mapping like a job file, the path of one, or a script with its arguments, in which
        `{lr}` stands for a member's value. `over`: parameters and their values; `samples`: members to
        draw, instead of every combination. `at_most`: members with tasks at once. `asha`: stop those
        that do worse, by the metric named.
        """
        given: dict[str, Any] = {"over": over, "samples": samples, "seed": seed, "at_most": at_most}
        given |= {"array": array, "asha": asha}
        new = {name: value for name, value in given.items() if value is not None}
        record = {**_record(job, arguments), **fields}
        record["sweep"] = {**record.get("sweep", {}), **new}
        body = self.prepared(record, env)
        key = key or uuid.uuid4().hex
        found = self.connection.call(SweepRecord, "POST", "/v1/sweeps", body=body, key=key)
        return SweepHandle(self, found)

    def sweeps(self, *, cursor: int | None = None, page: int = 100) -> list[SweepRecord]:
        """List sweeps, newest first; `cursor`: the number of the last one of the page before."""
        query: dict[str, Any] = {"cursor": cursor, "limit": page}
        return self.connection.call(list[SweepRecord], "GET", "/v1/sweeps", query=query)

    def sweep_detail(self, which: str | int) -> SweepDetail:
        """Return a sweep with its members: by number, by name, or another user's as `user/name`."""
        return self.connection.call(SweepDetail, "GET", place("sweeps", which))

    def sweep_handle(self, which: str | int) -> SweepHandle:
        """Return a handle of a sweep that was submitted before."""
        return SweepHandle(self, self.sweep_detail(which).sweep)

    def stop_sweep(self, which: str | int, *, force: bool = False) -> SweepRecord:
        """Stop all members of a sweep; no further one enters the queue."""
        query = {"force": True} if force else None
        return self.connection.call(SweepRecord, "DELETE", place("sweeps", which), query=query)

    def resize_sweep(self, which: str | int, at_most: int | None) -> SweepRecord:
        """Change how many members may have tasks at once; None: any number."""
        path = place("sweeps", which, "resize")
        return self.connection.call(SweepRecord, "POST", path, body={"at_most": at_most})

    def continue_sweep(
        self, which: str | int, members: Sequence[str | int], arguments: Sequence[str] = ()
    ) -> list[JobRecord]:
        """Submit jobs that go on from members' checkpoints, with more arguments of their command."""
        body = {"members": [str(each) for each in members], "arguments": list(arguments)}
        path = place("sweeps", which, "continue")
        return self.connection.call(list[JobRecord], "POST", path, body=body)


def _record(job: Mapping[str, Any] | str | Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(job, Mapping):
        return dict(job)
    path = Path(job)
    return script_record(path, arguments, {}) if path.suffix == ".py" else read_file(path)
