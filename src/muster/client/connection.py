"""Requests to a daemon: tried again where that is safe, and streams that go on after a break."""

import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from muster.client.errors import no_daemon, problem_of, raise_for
from muster.client.settings import ClientSettings
from muster.client.sse import Event, events

PATIENCE = 3.0
"""s to go on trying where nobody answers: a daemon that is started again is back sooner."""

STREAM_PATIENCE = 30.0
"""The same for a stream that was open before: whoever watches would rather wait than begin anew."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 1.0
CONNECT = 5.0
ANSWER = 30.0
"""s to wait for an answer: a full disk or a long cycle may keep the daemon."""

SILENCE = 45.0
"""s after which a stream without a word is dead: three heartbeats."""

LOOK = 2.0
"""s of silence after which a stream with a time limit is opened anew: so late a limit is noticed."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)
Query = Mapping[str, str | int | bool | list[str] | None]


def place(*steps: str | int) -> str:
    """The path of something, whatever it is called."""
    return "/".join(["/v1", *(quote(str(step), safe="") for step in steps)])


class DaemonConnection:
    """A connection to one daemon."""

    def __init__(
        self,
        settings: ClientSettings,
        patience: float = PATIENCE,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = settings.url.rstrip("/")
        self._patience = patience
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {settings.token}"} if settings.token else {},
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            transport=transport,
            verify=ssl.create_default_context(cafile=settings.ca) if settings.ca else True,
            # A proxy is for what lies beyond it, never for this machine.
            trust_env=urlsplit(self.url).hostname not in _LOOPBACK,
        )

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        key: str | None = None,
    ) -> httpx.Response:
        """An answer, or ClientError. Where the connection breaks it is tried again if that is safe:
        all but POST, POST with a key, and what never left. So it is where the daemon says later."""
        headers = {"Idempotency-Key": key} if key else {}
        again = method != "POST" or key is not None
        pauses, busy = _Pauses(self._patience), _Pauses(ANSWER)
        while True:
            try:
                answer = self._http.request(
                    method, path, params=_given(query), json=body, headers=headers
                )
            except _BROKEN as error:
                if not (again or isinstance(error, httpx.ConnectError)) or not pauses.rest():
                    raise no_daemon(self.url, error) from error
                continue
            except httpx.TransportError as error:
                raise no_daemon(self.url, error) from error
            if answer.status_code != 429 or not busy.rest(_told(answer)):
                raise_for(answer)
                return answer

    def follow(
        self, path: str, query: Query, mark: str | None = None, until: float | None = None
    ) -> Iterator[Event]:
        """The events of a stream until it ends; where it breaks, it goes on after the last one read.

        `until`: a moment of `time.monotonic` after which TimeoutError is raised.
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
                _refuse_late(until)
                if not pauses.rest():
                    raise no_daemon(self.url, error) from error
            else:  # the daemon ended it, and will be back
                _refuse_late(until)
                pauses.rest()

    def _streamed(
        self, path: str, query: Query, mark: str | None, until: float | None
    ) -> Iterator[Event | None]:
        """None when it is open, then its events."""
        headers = {"Accept": "text/event-stream"}
        if mark is not None:
            headers["Last-Event-ID"] = mark
        # Whatever is read begins the wait anew: with a limit it is a short one.
        silence = SILENCE if until is None else max(0.001, min(LOOK, until - time.monotonic()))
        timeout = httpx.Timeout(ANSWER, connect=CONNECT, read=silence)
        params = _given(query)
        with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as answer:
            if not answer.is_success:
                answer.read()
                raise_for(answer)
            yield None
            for event in events(_in_time(answer.iter_bytes(), until)):
                if event.name == "problem":
                    raise problem_of(event.data)
                yield event

    def close(self) -> None:
        """Hang up."""
        self._http.close()


def _in_time(chunks: Iterator[bytes], until: float | None) -> Iterator[bytes]:
    """Heartbeats, too, are looked at: a stream of nothing else must not outlast the limit."""
    for chunk in chunks:
        _refuse_late(until)
        yield chunk


class _Pauses:
    """Longer and longer pauses, until the patience is spent."""

    def __init__(self, patience: float) -> None:
        self._until = time.monotonic() + patience
        self._pause = FIRST_PAUSE

    def rest(self, told: float = 0.0) -> bool:
        """Wait a while, at least as told; False at once if there is no patience left for that."""
        pause = max(told, self._pause)
        if time.monotonic() + pause > self._until:
            return False
        time.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return True


def _given(query: Query | None) -> dict[str, Any]:
    """The parameters that are set."""
    return {name: value for name, value in (query or {}).items() if value is not None}


def _told(answer: httpx.Response) -> float:
    """s to wait, as the answer says."""
    told = answer.headers.get("Retry-After", "")
    return float(told) if told.isdigit() else FIRST_PAUSE


def _refuse_late(until: float | None) -> None:
    if until is not None and time.monotonic() >= until:
        raise TimeoutError("the time that was given is over")
