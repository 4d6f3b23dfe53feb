"""Requests to a daemon, retried where that is safe, and streams that resume after a break."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import msgspec

from muster.client.connecting.http import httpx
from muster.client.connecting.settings import UNIX, ClientSettings, is_loopback
from muster.client.connecting.sse import Event, events
from muster.client.connecting.trust import check_address, context_of, tracer
from muster.client.errors import no_daemon, problem_of, raise_for

T = TypeVar("T")

PATIENCE = 3.0
"""s to retry while no daemon answers: one that restarts is back sooner."""

STREAM_PATIENCE = 30.0
"""The same for a stream that was open before: its reader would rather wait than start over."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
CONNECT = 5.0
ANSWER = 30.0
"""s to wait for an answer: a full disk or a long cycle may delay it."""

SILENCE = 45.0
"""s without a byte after which a stream is dead: three heartbeats."""

LOOK = 2.0
"""s of silence after which a stream with a deadline is reopened: how late it may notice it."""

SWITCHING = 101
"""The status of an answer after which the connection speaks another protocol."""

_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
Query = Mapping[str, str | int | bool | list[str] | None]


def place(*steps: str | int) -> str:
    """Return the path of a resource, with its parts quoted; `ann/train` is `ann:train` in it."""
    return "/".join(["/v1", *(quote(str(step).replace("/", ":"), safe="") for step in steps)])


class DaemonConnection:
    def __init__(
        self,
        settings: ClientSettings,
        patience: float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = settings.url.rstrip("/")
        self._patience = patience
        if transport is None:
            check_address(settings)
        path = unquote(self.url.removeprefix(UNIX)) if self.url.startswith(UNIX) else None
        if path is not None and transport is None:
            transport = httpx.HTTPTransport(uds=path, verify=False)
        trace = tracer(settings)
        self._extensions = {"trace": trace} if trace else {}
        self._http = httpx.Client(
            base_url="http://muster" if path is not None else self.url,
            headers={"Authorization": f"Bearer {settings.token}"} if settings.token else {},
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            transport=transport,
            # Without TLS nothing is verified; loading the system's certificates takes 20 ms.
            verify=context_of(settings.ca) if self.url.startswith("https") else False,
            # No proxy for this machine.
            trust_env=path is None and not is_loopback(urlsplit(self.url).hostname),
        )

    def call(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str | None = None,
    ) -> T:
        """Send a request, and return the record it is answered with."""
        answer = self.ask(method, path, query=query, body=body, key=key)
        return msgspec.json.decode(answer.content, type=kind)

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str | None = None,
    ) -> httpx.Response:
        """Send a request; raises ClientError if it fails. A broken connection is retried if that is
        safe (everything but POST, POST with a key, and what was never sent), and so is a 429."""
        headers = {"Idempotency-Key": key} if key else {}
        idempotent = method != "POST" or key is not None
        pauses, busy = _Pauses(self._patience), _Pauses(ANSWER)
        while True:
            try:
                answer = self._http.request(
                    method,
                    path,
                    params=_given(query),
                    json=body,
                    headers=headers,
                    extensions=self._extensions,
                )
            except _BROKEN as error:
                if not (idempotent or isinstance(error, httpx.ConnectError)) or not pauses.rest():
                    raise no_daemon(self.url, error) from error
                continue
            except httpx.TransportError as error:
                raise no_daemon(self.url, error) from error
            if answer.status_code != 429 or not busy.rest(_retry_after(answer)):
                raise_for(answer)
                return answer

    def upgrade(self, path: str, protocol: str, query: Query) -> httpx.Response:
        """Send a request that changes the protocol of its connection; the answer has that as its
        `network_stream`, and is closed by the caller."""
        headers = {"Connection": "Upgrade", "Upgrade": protocol}
        request = self._http.build_request(
            "GET", path, params=_given(query), headers=headers, extensions=self._extensions
        )
        try:
            answer = self._http.send(request, stream=True)
            if answer.status_code != SWITCHING:
                answer.read()
                answer.close()
                raise_for(answer)
        except httpx.TransportError as error:
            raise no_daemon(self.url, error) from error
        return answer

    def follow(
        self, path: str, query: Query, mark: str | None = None, until: float | None = None
    ) -> Iterator[Event]:
        """Yield the events of a stream until it ends; after a break, resume after the last one read.

        `until`: a time of `time.monotonic` after which TimeoutError is raised.
        """
        pauses = _Pauses(self._patience)
        while True:
            try:
                for event in self._streamed(path, query, mark, until):
                    if event is None:
                        pauses = _Pauses(STREAM_PATIENCE)
                        continue
                    if event.name == "end":
                        return
                    mark = event.mark or mark
                    yield event
            except httpx.TransportError as error:
                _check_deadline(until)
                if not pauses.rest():
                    raise no_daemon(self.url, error) from error
            else:  # the daemon is restarting
                _check_deadline(until)
                pauses.rest()

    def _streamed(
        self, path: str, query: Query, mark: str | None, until: float | None
    ) -> Iterator[Event | None]:
        """Yield None once the stream is open, then its events."""
        headers = {"Accept": "text/event-stream"}
        if mark is not None:
            headers["Last-Event-ID"] = mark
        # Every byte restarts the read timeout, so with a deadline it is short.
        silence = SILENCE if until is None else max(0.001, min(LOOK, until - time.monotonic()))
        timeout = httpx.Timeout(ANSWER, connect=CONNECT, read=silence)
        params, more = _given(query), self._extensions
        with self._http.stream(
            "GET", path, params=params, headers=headers, timeout=timeout, extensions=more
        ) as answer:
            if not answer.is_success:
                answer.read()
                raise_for(answer)
            yield None
            for event in events(_in_time(answer.iter_bytes(), until)):
                if event.name == "problem":
                    raise problem_of(event.data)
                yield event

    def close(self) -> None:
        self._http.close()


def _in_time(chunks: Iterator[bytes], until: float | None) -> Iterator[bytes]:
    """Check the deadline at heartbeats, too: a stream of nothing else must not outlast it."""
    for chunk in chunks:
        _check_deadline(until)
        yield chunk


class _Pauses:
    """Longer and longer pauses, until the patience is used up."""

    def __init__(self, patience: float) -> None:
        self._until = time.monotonic() + patience
        self._pause = FIRST_PAUSE

    def rest(self, least: float = 0.0) -> bool:
        """Sleep, at least that long; return False at once if it would exceed the patience."""
        pause = max(least, self._pause)
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True


def _given(query: Query | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _retry_after(answer: httpx.Response) -> float:
    seconds = answer.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdigit() else FIRST_PAUSE


def _check_deadline(until: float | None) -> None:
    if until is not None and time.monotonic() >= until:
        raise TimeoutError("the deadline has passed")
