"""A daemon, from Python."""

import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from muster.client.admin import AdminClient
from muster.client.connection import PATIENCE, DaemonConnection, place
from muster.client.errors import ClientError
from muster.client.handle import Handle, InsideHandle
from muster.client.job_record import own_script, read_file, script_record, with_variables
from muster.client.logs import log_lines
from muster.client.settings import TOKEN, URL, ClientSettings, read_settings
from muster.wire.records import ChangeRecord, Forecast, JobDetail, JobPage, JobRecord

T = TypeVar("T")
Env = Mapping[str, str | None]

INSIDE = "MUSTER_JOB"
"""Set in the environment of every task of a job."""


class Client(AdminClient):
    """Asks a daemon: that of `url`, of MUSTER_URL and MUSTER_API_TOKEN, or of the last `muster up`.

    `ca`: a file of certificates to trust. `patience`: s to go on trying where nobody answers.
    `transport`: another way there than a socket; see `client.in_process`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        ca: str | None = None,
        patience: float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if url is None and transport is not None:
            url = "http://in-process"
        self._url, self._token, self._ca = url, token, ca
        self._patience, self._transport = patience, transport
        self._open: DaemonConnection | None = None

    def submit(
        self, job: Any, *, key: str | None = None, env: Env | None = None, **fields: Any
    ) -> Handle:
        """Submit a job: a mapping as the job file has it, the path of such a file, or a training.

        `key`: submitted twice with the same one, it is one job. `env`: adds to the job's variables.
        A training is submitted as the script that this process runs; inside the job, where the same
        line is met again, the training is run.
        """
        if hasattr(job, "run") and not isinstance(job, Mapping):
            return self._submit_training(job, key, env, fields)
        record = dict(job) if isinstance(job, Mapping) else read_file(Path(job))
        return self._submit({**record, **fields}, key, env)

    def submit_script(
        self,
        script: str | Path,
        *arguments: str,
        devices: str | int = "1",
        key: str | None = None,
        env: Env | None = None,
        **fields: Any,
    ) -> Handle:
        """Submit a script, to be run by this Python in this folder."""
        path = Path(script)
        if not path.is_file():
            raise ClientError(0, "No Script", f"there is no file {str(script)!r}")
        return self._submit(script_record(path, arguments, {"devices": devices, **fields}), key, env)

    def forecast(self, job: Mapping[str, Any] | str | Path, *, env: Env | None = None) -> Forecast:
        """What would become of a job if it were submitted now."""
        record = job if isinstance(job, Mapping) else read_file(Path(job))
        answer = self.connection.ask("POST", "/v1/forecast", body=with_variables(record, env))
        return msgspec.json.decode(answer.content, type=Forecast)

    def jobs(
        self,
        *,
        statuses: tuple[str, ...] = (),
        user: str | None = None,
        pool: str | None = None,
        name: str | None = None,
        page: int = 100,
    ) -> Iterator[JobRecord]:
        """The jobs that the caller may see, newest first."""
        cursor: str | None = None
        while True:
            query = {"status": list(statuses), "user": user, "pool": pool, "name": name}
            answer = self.connection.ask(
                "GET", "/v1/jobs", query={**query, "cursor": cursor, "limit": page}
            )
            found = msgspec.json.decode(answer.content, type=JobPage)
            yield from found.jobs
            cursor = found.next
            if cursor is None:
                return

    def job(self, which: str | int) -> JobDetail:
        """All about one job, by its number or name."""
        answer = self.connection.ask("GET", place("jobs", which))
        return msgspec.json.decode(answer.content, type=JobDetail)

    def record(self, which: str | int) -> JobRecord:
        """A job as a list shows it."""
        return self.job(which).job

    def handle(self, which: str | int) -> Handle:
        """A handle of a job that was submitted before."""
        return Handle(self, self.record(which))

    def stop(self, which: str | int) -> JobRecord:
        """End a job: it is `stopping` until its tasks are gone."""
        answer = self.connection.ask("DELETE", place("jobs", which))
        return msgspec.json.decode(answer.content, type=JobRecord)

    def resize(
        self, which: str | int, least: int, most: int | None = None, servers: int | None = None
    ) -> JobRecord:
        """Ask for other numbers of workers: exactly `least`, or from there to `most`."""
        body = {"least": least, "most": least if most is None else most, "servers": servers}
        answer = self.connection.ask("POST", place("jobs", which, "resize"), body=body)
        return msgspec.json.decode(answer.content, type=JobRecord)

    def logs(self, which: str | int, task: str | None = None, follow: bool = False) -> Iterator[str]:
        """What a job's tasks printed, line by line; of all tasks, with whose line it is before each."""
        return log_lines(self.connection, str(which), task, follow)

    def events(
        self, which: str | int | None = None, *, after: int | None = None, follow: bool = False
    ) -> Iterator[ChangeRecord]:
        """What happened, oldest first; with `follow` also what will: of one job, to its end."""
        path = "/v1/events" if which is None else place("jobs", which, "events")
        if follow:
            for event in self.connection.follow(path, {"after": after, "follow": True}):
                yield msgspec.json.decode(event.data, type=ChangeRecord)
            return
        answer = self.connection.ask("GET", path, query={"after": after})
        yield from msgspec.json.decode(answer.content, type=list[ChangeRecord])

    def await_end(self, which: str, until: float | None) -> None:
        """Return when a job may be over; TimeoutError after `until`, a moment of `time.monotonic`."""
        try:
            for _ in self.connection.follow(
                place("jobs", which, "events"), {"follow": True}, until=until
            ):
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"job {which} is not over yet")
        except ClientError as error:
            if error.status != 429:
                raise
            time.sleep(1.0)  # as many streams are open as may be: look again in a moment
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {which} is not over yet") from None

    @property
    def connection(self) -> DaemonConnection:
        """The connection, made when it is first needed: a job's own script need not have a daemon."""
        if self._open is None:
            given = {URL: self._url, TOKEN: self._token}
            environ = {**os.environ, **{name: text for name, text in given.items() if text is not None}}
            found = read_settings(environ)
            settings = ClientSettings(found.url, found.token, self._ca or found.ca)
            self._open = DaemonConnection(settings, self._patience, self._transport)
        return self._open

    def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, record: Mapping[str, Any], key: str | None, env: Env | None) -> Handle:
        body = with_variables(record, env)
        answer = self.connection.ask("POST", "/v1/jobs", body=body, key=key or uuid.uuid4().hex)
        return Handle(self, msgspec.json.decode(answer.content, type=JobRecord))

    def _submit_training(
        self, training: Any, key: str | None, env: Env | None, fields: Mapping[str, Any]
    ) -> Handle:
        inside = os.environ.get(INSIDE)
        if inside:
            training.run()
            return InsideHandle(self, JobRecord(0, inside, "", "", "succeeded"))
        return self._submit(script_record(own_script(), tuple(sys.argv[1:]), fields), key, env)
