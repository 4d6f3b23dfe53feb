"""A daemon, from Python."""

import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from muster.client.calls.foresight_calls import ForesightCalls
from muster.client.calls.history_calls import HistoryCalls
from muster.client.calls.job_query import JobSelection, job_query
from muster.client.calls.story_calls import StoryCalls
from muster.client.calls.sweep_calls import SweepCalls
from muster.client.calls.whatif_calls import WhatIfCalls
from muster.client.connecting.connection import PATIENCE, DaemonConnection, place
from muster.client.connecting.http import httpx
from muster.client.connecting.settings import TOKEN, URL, read_settings
from muster.client.errors import ClientError
from muster.client.handles.handle import Handle, InsideHandle, parents_numbered
from muster.client.handles.job_watcher import JobWatcher
from muster.client.handles.logs import log_lines
from muster.client.inside.ways_in import WaysIn
from muster.client.sending.job_record import own_script, read_file, script_record, with_variables
from muster.client.sending.origin import is_this_machine, of_this_python, refuse_unrunnable, with_origin
from muster.client.sending.pipeline import completed, read_pipeline
from muster.client.sending.ship import as_shipped, shipping
from muster.wire.api.map_records import ClusterMap
from muster.wire.api.records import (
    ActRecord,
    ChangeRecord,
    Forecast,
    IdentityRecord,
    InvitationRecord,
    JobDetail,
    JobPage,
    JobRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    RotationRecord,
    StatusRecord,
    TokenRecord,
)
from muster.wire.api.session_records import CodeRecord
from muster.wire.api.use_records import (
    LimitRecord,
    SecretRecord,
    SubscriptionRecord,
    TrialRecord,
    UsageReport,
)

if TYPE_CHECKING:
    from muster.client.sending.pack import Pack

Env = Mapping[str, str | None]

INSIDE = "MUSTER_JOB"
"""Set in the environment of every task of a job."""


class Client(WaysIn, SweepCalls, HistoryCalls, ForesightCalls, WhatIfCalls, StoryCalls):
    """Talks to a daemon: that of `url`, else of MUSTER_URL and MUSTER_API_TOKEN, else of the last
    `muster up`.

    `ca`: a file of certificates to trust. `patience`: s to retry while no daemon answers.
    `transport`: another way to the daemon than a socket; see `client.in_process`.
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
        self._packs: dict[Path, Pack] = {}
        """Folders that its jobs ship, as they were when they were first packed."""
        self.watcher = JobWatcher(self)
        """Follows jobs to their ends; it does nothing until it is asked to."""

    def __repr__(self) -> str:
        """Where it leads; without its token."""
        known = self._url or (self._open.url if self._open is not None else None)
        return f"<muster client of {known or 'the last muster up'}>"

    def submit(
        self, job: Any, *, key: str | None = None, env: Env | None = None, **fields: Any
    ) -> Handle:
        """Submit a job: a mapping like a job file, the path of a job file, or a training.

        It runs in this folder and finds programs as this process does, unless it has a `folder` or an
        `env` of its own; `folder=None` is a new folder.
        `key`: submitting again with the same key returns the same job. `env`: more variables of its
        environment. A training is submitted as the script that this process runs; inside the job, the
        same line runs the training.
        """
        if hasattr(job, "run") and not isinstance(job, Mapping):
            return self._submit_training(job, key, env, fields)
        record = dict(job) if isinstance(job, Mapping) else read_file(Path(job))
        return self._submit({**record, **fields}, key, env)

    def submit_all(
        self,
        jobs: Mapping[str, Any] | str | Path,
        *,
        key: str | None = None,
        env: Env | None = None,
    ) -> list[Handle]:
        """Submit jobs that come after each other, all or none: a mapping or a file with `jobs`, by
        name. Their handles come parents first."""
        packs: dict[str, Pack] = {}

        def complete(record: dict[str, Any]) -> dict[str, Any]:
            body, pack = self._complete(record, env)
            if pack is not None:
                packs[pack.digest] = pack
            return body

        body = completed(read_pipeline(jobs), complete)
        self._upload(packs.values())
        call = self.connection.call
        made = call(list[JobRecord], "POST", "/v1/pipelines", body=body, key=key or uuid.uuid4().hex)
        return [Handle(self, record) for record in made]

    def submit_script(
        self,
        script: str | Path,
        *arguments: str,
        devices: str | int = "1",
        key: str | None = None,
        env: Env | None = None,
        **fields: Any,
    ) -> Handle:
        """Submit a script, to run in this directory with this Python."""
        path = Path(script)
        if not path.is_file():
            raise ClientError(0, "No Script", f"no file {str(script)!r}")
        return self._submit(script_record(path, arguments, {"devices": devices, **fields}), key, env)

    def forecast(self, job: Mapping[str, Any] | str | Path, *, env: Env | None = None) -> Forecast:
        """Predict when and where a job would run if it were submitted now."""
        record = job if isinstance(job, Mapping) else read_file(Path(job))
        body, _ = self._complete(record, env)
        return self.connection.call(Forecast, "POST", "/v1/forecast", body=body)

    def jobs(
        self,
        *,
        statuses: tuple[str, ...] = (),
        user: str | None = None,
        pool: str | None = None,
        name: str | None = None,
        page: int = 100,
        labels: Sequence[str] = (),
        since: float | None = None,
        before: float | None = None,
    ) -> Iterator[JobRecord]:
        """Yield the jobs that the caller may see, newest first, reading page after page.

        `name`: a name, or a pattern with * and ?. `labels`: `key=value`, or a key. `since`, `before`:
        when they were submitted, in s since 1970.
        """
        query = job_query(statuses, user, pool, name, labels, since, before) | {"limit": page}
        cursor: str | None = None
        while True:
            found = self.connection.call(JobPage, "GET", "/v1/jobs", query={**query, "cursor": cursor})
            yield from found.jobs
            cursor = found.next
            if cursor is None:
                return

    def active_jobs(
        self,
        *,
        statuses: tuple[str, ...] = (),
        user: str | None = None,
        pool: str | None = None,
        name: str | None = None,
        page: int = 100,
        cursor: str | None = None,
        labels: Sequence[str] = (),
        since: float | None = None,
        before: float | None = None,
    ) -> JobPage:
        """Return a page of jobs: those with tasks, then waiting, then ended ones; the first page (no
        `cursor`) with the counts of all by status. `cursor`: the `next` of the page before. The rest
        is as in `jobs`."""
        query = job_query(statuses, user, pool, name, labels, since, before) | {"limit": page}
        query |= {"cursor": cursor, "order": "active"}
        return self.connection.call(JobPage, "GET", "/v1/jobs", query=query)

    def job(self, which: str | int) -> JobDetail:
        """Return a job in detail: by number, by name, or another user's as `user/name`."""
        return self.connection.call(JobDetail, "GET", place("jobs", which))

    def request(self, which: str | int) -> dict[str, Any]:
        """Return the job file that would submit a job again, for `submit`."""
        return self.connection.call(dict[str, Any], "GET", place("jobs", which, "request"))

    def record(self, which: str | int) -> JobRecord:
        """Return a job as lists show it."""
        return self.job(which).job

    def handle(self, which: str | int) -> Handle:
        """Return a handle of a job that was submitted before."""
        return Handle(self, self.record(which))

    def stop(self, which: str | int, *, force: bool = False) -> JobRecord:
        """Stop a job. It is `stopping` until its tasks have ended. Idempotent.

        `force`: kill its tasks at once.
        """
        query = {"force": True} if force else {}
        return self.connection.call(JobRecord, "DELETE", place("jobs", which), query=query)

    def stop_all(self, selected: JobSelection | None = None, *, force: bool = False) -> list[JobRecord]:
        """Stop the live jobs that are selected, together; None: all that the caller may stop."""
        query = (selected or JobSelection()).query()
        query |= {"all": selected is None or None, "force": force or None}
        return self.connection.call(list[JobRecord], "DELETE", "/v1/jobs", query=query)

    def hold(self, which: str | int) -> JobRecord:
        """Hold a job: it is not started until it is released; one that runs is stopped and waits."""
        return self.connection.call(JobRecord, "POST", place("jobs", which, "hold"))

    def release(self, which: str | int) -> JobRecord:
        """Release a held job."""
        return self.connection.call(JobRecord, "POST", place("jobs", which, "release"))

    def requeue(self, which: str | int) -> JobRecord:
        """Stop a running job and queue it again."""
        return self.connection.call(JobRecord, "POST", place("jobs", which, "requeue"))

    def set_priority(self, which: str | int, priority: int) -> JobRecord:
        """Change a job's priority; higher runs sooner."""
        body = {"priority": priority}
        return self.connection.call(JobRecord, "PUT", place("jobs", which, "priority"), body=body)

    def set_until(self, which: str | int, until: str) -> JobRecord:
        """Change when the loss ends a job's training, as in a job file; empty: it no longer does."""
        body = {"until": until}
        return self.connection.call(JobRecord, "PUT", place("jobs", which, "until"), body=body)

    def resize(
        self, which: str | int, least: int, most: int | None = None, servers: int | None = None
    ) -> JobRecord:
        """Change how many workers a job asks for: exactly `least`, or from `least` to `most`."""
        body = {"least": least, "most": least if most is None else most, "servers": servers}
        return self.connection.call(JobRecord, "POST", place("jobs", which, "resize"), body=body)

    def logs(self, which: str | int, task: str | None = None, follow: bool = False) -> Iterator[str]:
        """Yield the output of a job's tasks by line; of all tasks, prefixed with the task's log."""
        return log_lines(self.connection, str(which), task, follow)

    def events(
        self, which: str | int | None = None, *, after: int | None = None, follow: bool = False
    ) -> Iterator[ChangeRecord]:
        """Yield events, oldest first; with `follow` also those to come, for one job until it ends."""
        path = "/v1/events" if which is None else place("jobs", which, "events")
        if follow:
            for event in self.connection.follow(path, {"after": after, "follow": True}):
                yield msgspec.json.decode(event.data, type=ChangeRecord)
            return
        yield from self.connection.call(list[ChangeRecord], "GET", path, query={"after": after})

    def await_end(self, which: str, until: float | None) -> None:
        """Return when a job may have ended; TimeoutError after `until`, a time of `time.monotonic`."""
        path = place("jobs", which, "events")
        try:
            for _ in self.connection.follow(path, {"follow": True}, until=until):
                if until is not None and time.monotonic() >= until:
                    raise TimeoutError(f"job {which} has not finished yet")
        except ClientError as error:
            if error.status != 429:
                raise
            time.sleep(1.0)  # all streams of this token are in use: check again in a moment
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {which} has not finished yet") from None

    def nodes(self) -> list[NodeRecord]:
        return self.connection.call(list[NodeRecord], "GET", "/v1/nodes")

    def map(self) -> ClusterMap:
        """Return which job each device works for, or is withheld for."""
        return self.connection.call(ClusterMap, "GET", "/v1/map")

    def node(self, name: str) -> NodeRecord:
        """Return a node with its tasks."""
        return self.connection.call(NodeRecord, "GET", place("nodes", name))

    def drain(self, node: str, *, within: float | None = None) -> NodeRecord:
        """Place no new tasks on a node; `within`: seconds until it must be empty."""
        path = place("nodes", node, "drain")
        return self.connection.call(NodeRecord, "POST", path, body={"within": within})

    def resume(self, node: str) -> NodeRecord:
        """Use a drained node again."""
        return self.connection.call(NodeRecord, "POST", place("nodes", node, "resume"))

    def pools(self) -> list[PoolRecord]:
        return self.connection.call(list[PoolRecord], "GET", "/v1/pools")

    def set_pool(
        self,
        name: str,
        *,
        parent: str | None = None,
        quotas: Mapping[str, Mapping[str, Any]] | None = None,
        shared: bool | None = None,
        allow: Sequence[str] | None = None,
        max_priority: int | None = None,
        devices_per_user: int | None = None,
        lifted: Sequence[str] = (),
        policy: str | None = None,
        budget: float | None = None,
        aim: str | None = None,
    ) -> PoolRecord:
        """Create or change a pool; what is not given stays unchanged.

        `quotas`: `reservation`, `share` and `limit` by device type. `allow`: users, and Unix groups as
        `@group`, who may submit; empty: all. `lifted`: "max_priority", "devices_per_user", "policy",
        "budget" or "aim", where that no longer applies. `policy`: who decides about its jobs, such as
        "fifo"; `aim`: what that policy aims at, such as "makespan". `budget`: device-hours a month.
        """
        given: dict[str, Any] = {"parent": parent, "quotas": quotas, "shared": shared}
        given |= {"allow": None if allow is None else list(allow), "max_priority": max_priority}
        given |= {"devices_per_user": devices_per_user, "lifted": list(lifted) or None}
        given |= {"policy": policy, "budget": budget, "aim": aim}
        body = {field: value for field, value in given.items() if value is not None}
        return self.connection.call(PoolRecord, "PUT", place("pools", name), body=body)

    def remove_pool(self, name: str) -> None:
        """Remove a pool without jobs."""
        self.connection.ask("DELETE", place("pools", name))

    def limits(self) -> list[LimitRecord]:
        """List the limits of users: all for an administrator, otherwise the caller's."""
        return self.connection.call(list[LimitRecord], "GET", "/v1/limits")

    def set_limits(
        self,
        user: str = "*",
        *,
        jobs: int | None = None,
        size: int | None = None,
        submissions: int | None = None,
        device_hours: float | None = None,
    ) -> LimitRecord:
        """Change the limits of a user, or of everybody without their own."""
        given = {"jobs": jobs, "size": size, "submissions": submissions, "device_hours": device_hours}
        body = {field: value for field, value in given.items() if value is not None}
        return self.connection.call(LimitRecord, "PUT", place("limits", user), body=body)

    def reset_limits(self, user: str = "*") -> LimitRecord:
        """Give a user everybody's limits again; of everybody, the defaults."""
        return self.connection.call(LimitRecord, "DELETE", place("limits", user))

    def audit(
        self, *, user: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[ActRecord]:
        """Return the last entries of the audit log, oldest first. `since`: s since 1970."""
        query: dict[str, Any] = {"user": user, "since": since, "limit": limit}
        return self.connection.call(list[ActRecord], "GET", "/v1/audit", query=query)

    def usage(
        self, *, since: float = 0.0, until: float | None = None, by: Sequence[str] = ("user",)
    ) -> UsageReport:
        """Return what jobs have held between two moments, in s since 1970, in whole hours.

        `by`: "user", "pool", "application", "type", "job" or "label:KEY".
        """
        query: dict[str, Any] = {"since": since, "until": until, "by": ",".join(by)}
        return self.connection.call(UsageReport, "GET", "/v1/usage", query=query)

    def subscriptions(self) -> list[SubscriptionRecord]:
        """List who is told what of jobs: the caller's, for an administrator everybody's."""
        return self.connection.call(list[SubscriptionRecord], "GET", "/v1/notifications")

    def subscribe(
        self,
        name: str,
        *,
        webhook: str = "",
        command: str = "",
        on: Sequence[str] = ("succeeded", "failed"),
        patience: float = 1800.0,
        pool: str = "",
        everybody: bool = False,
    ) -> SubscriptionRecord:
        """Have a webhook told, or as an administrator a command run, when something happens to jobs.

        `on`: "started", "succeeded", "failed", "stopped", "preempted" or "waiting" (for longer than
        `patience`, in s).
        """
        body = {"webhook": webhook, "command": command, "on": list(on), "patience": patience}
        body |= {"pool": pool, "everybody": everybody}
        path = place("notifications", name)
        return self.connection.call(SubscriptionRecord, "PUT", path, body=body)

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription."""
        self.connection.ask("DELETE", place("notifications", name))

    def try_subscription(self, name: str) -> TrialRecord:
        """Tell a subscriber of something that did not happen; return how it went."""
        return self.connection.call(TrialRecord, "POST", place("notifications", name, "test"))

    def notify_secret(self) -> str:
        """Return the key that the caller's notices are signed with."""
        return self.connection.call(SecretRecord, "GET", "/v1/notification-key").secret

    def session_code(self) -> str:
        """Make a code that logs a browser in as this caller, once, within a minute."""
        return self.connection.call(CodeRecord, "POST", "/v1/session/code").code

    def policy(self) -> PolicyRecord:
        """Return the active policy and the names of all."""
        return self.connection.call(PolicyRecord, "GET", "/v1/policy")

    def set_policy(self, name: str) -> PolicyRecord:
        """Change the policy, from the next cycle on."""
        return self.connection.call(PolicyRecord, "PUT", "/v1/policy", body={"name": name})

    def tokens(self) -> list[TokenRecord]:
        """List tokens without their secrets: all for an administrator, otherwise the caller's."""
        return self.connection.call(list[TokenRecord], "GET", "/v1/tokens")

    def create_token(self, name: str, user: str | None = None, role: str = "user") -> TokenRecord:
        """Create a token, of the user of its name if none is given; only this answer has its secret."""
        body = {"name": name, "role": role} | ({"user": user} if user else {})
        return self.connection.call(TokenRecord, "POST", "/v1/tokens", body=body)

    def revoke_token(self, name: str) -> None:
        """Revoke a token at once."""
        self.connection.ask("DELETE", place("tokens", name))

    def rotate_token(self, name: str) -> TokenRecord:
        """Give a token another secret; only this answer has it."""
        return self.connection.call(TokenRecord, "POST", place("tokens", name, "rotate"))

    def invitations(self) -> list[InvitationRecord]:
        """List join tokens of agents, for an administrator; without secrets."""
        return self.connection.call(list[InvitationRecord], "GET", "/v1/agent-tokens")

    def invite(
        self, node: str | None = None, *, uses: int = 1, seconds: float = 3600.0
    ) -> InvitationRecord:
        """Create a token with which agents join; only this answer has its text."""
        body = {"node": node, "uses": uses, "seconds": seconds}
        return self.connection.call(InvitationRecord, "POST", "/v1/agent-tokens", body=body)

    def remove_node(self, node: str) -> None:
        """Drop a lost node, which will not come back."""
        self.connection.ask("DELETE", place("nodes", node))

    def revoke_node(self, node: str) -> IdentityRecord:
        """Refuse a node's agent from now on; its tasks are lost."""
        return self.connection.call(IdentityRecord, "POST", place("nodes", node, "revoke"))

    def rotate(self, what: str, *, at_once: bool = False) -> RotationRecord:
        """Replace the secret behind jobs' tokens ("jobs"), or the certificate authority
        ("authority")."""
        body = {"at_once": at_once}
        return self.connection.call(RotationRecord, "POST", place("rotate", what), body=body)

    def status(self) -> StatusRecord:
        return self.connection.call(StatusRecord, "GET", "/v1/status")

    def metrics(self) -> str:
        """Return the daemon's metrics in Prometheus' text format."""
        return self.connection.ask("GET", "/metrics").text

    def snapshot(self) -> bytes:
        """Return what the scheduler decides on now, as a JSON file for `muster play`."""
        return self.connection.ask("GET", "/v1/snapshot").content

    @property
    def connection(self) -> DaemonConnection:
        """The connection, opened on first use: a script inside a job may have no daemon."""
        if self._open is None:
            given = {URL: self._url, TOKEN: self._token}
            environ = {**os.environ, **{name: text for name, text in given.items() if text is not None}}
            found = read_settings(environ)
            settings = replace(found, ca=self._ca or found.ca)
            self._open = DaemonConnection(settings, self._patience, self._transport)
        return self._open

    @property
    def same_machine(self) -> bool:
        """Whether the daemon is known to run on this machine: in this process, or as the last
        `muster up` of this user. A loopback address alone may lead elsewhere, through a tunnel."""
        if self._transport is not None:
            return True
        kept = not (self._url or os.environ.get(URL))
        return is_this_machine(self.connection.url, kept=kept)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the daemon's address is another machine's."""
        return self._transport is None and not is_this_machine(self.connection.url, kept=True)

    def close(self) -> None:
        for pack in self._packs.values():
            pack.file.close()
        self._packs.clear()
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, record: Mapping[str, Any], key: str | None, env: Env | None) -> Handle:
        body, key = self.prepared(record, env), key or uuid.uuid4().hex
        return Handle(self, self.connection.call(JobRecord, "POST", "/v1/jobs", body=body, key=key))

    def prepared(self, record: Mapping[str, Any], env: Env | None) -> dict[str, Any]:
        """Return a job as the daemon takes it, once what it ships is there."""
        body, pack = self._complete(record, env)
        self._upload([pack] if pack is not None else [])
        return body

    def _upload(self, packs: "Iterable[Pack]") -> None:
        for pack in packs:
            from muster.client.sending.pack_upload import upload  # seldom needed

            upload(self.connection, pack)

    def asked_about(self, job: Mapping[str, Any] | str | Path) -> dict[str, Any]:
        """Return a job as it would be submitted."""
        record = job if isinstance(job, Mapping) else read_file(Path(job))
        return self._complete(record, None)[0]

    def _complete(
        self, record: Mapping[str, Any], env: Env | None
    ) -> tuple[dict[str, Any], "Pack | None"]:
        """Return the job with its variables and where it is submitted, and the folder that it ships;
        ClientError if it cannot run."""
        complete = with_origin(
            with_variables(parents_numbered(record), env), of_this_python(os.environ)
        )
        if self.same_machine:
            refuse_unrunnable(complete)
        folder = shipping(complete)
        if folder is None:
            return complete, None
        if folder not in self._packs:  # submitted is what was forecast
            from muster.client.sending.pack import pack_folder  # slow to import, and seldom needed

            self._packs[folder] = pack_folder(folder)
        pack = self._packs[folder]
        return as_shipped(complete, folder, pack.digest), pack

    def _submit_training(
        self, training: Any, key: str | None, env: Env | None, fields: Mapping[str, Any]
    ) -> Handle:
        inside = os.environ.get(INSIDE)
        if inside:
            training.run()
            return InsideHandle(self, JobRecord(0, inside, "", "", "succeeded"))
        return self._submit(script_record(own_script(), tuple(sys.argv[1:]), fields), key, env)
