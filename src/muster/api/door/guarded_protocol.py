"""HTTP with limits that hold before a request is complete, let alone its token known."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from muster.api.door.limits import Limits
from muster.api.door.peer import PEER, Peer
from muster.api.door.taken import TAKE_OVER, TakenConnection
from muster.api.problem import MEDIA_TYPE, problem, problem_response

_SAID = {
    HTTPStatus.REQUEST_URI_TOO_LONG: "the URL is too long",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "the headers are too large",
}


class _TooLargeError(Exception):
    """Ends the parser's work on a request."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with bounds on a request's head and on the time that it may take.

    One timer runs whenever the peer is expected to send or to read: for the head from its first byte
    (from the connection's beginning for the first one), for the body from the end of the head, for
    answers that the peer does not read. Between requests uvicorn's own timer runs.

    Deadlines come and go with every request, so a timer is left to run when its deadline is over, and
    looks at the next one when it fires: starting one for each would cost more than the gate.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        peer: Peer,
        limits: Limits,
        left: Callable[[Peer], None],
    ) -> None:
        super().__init__(config, state, app_state={})
        self._peer, self._limits, self._left = peer, limits, left
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_head, self._head, self._fields = True, 0, 0
        self._heads = 0
        """Heads that were complete so far."""
        self._refusal: HTTPStatus | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer.hang_up = transport.abort
        self._expect(self._limits.head_time)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._left(self._peer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        inside, heads = self._in_head, self._heads
        if inside and self._deadline is None:
            self._expect(self._limits.head_time)
        super().data_received(data)
        # httptools keeps an unfinished field itself: only the bytes that came tell its size. Those of a
        # chunk in which a head ended may be a body's.
        unfinished = inside and self._in_head and heads == self._heads
        if unfinished and not self.transport.is_closing():
            self._head += len(data)
            if self._head > self._limits.head + self._limits.url:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._fields = 0
        self.scope[PEER] = self._peer  # type: ignore[literal-required]
        self.scope[TAKE_OVER] = self._give_away  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.url:
            self._refusal = HTTPStatus.REQUEST_URI_TOO_LONG
            raise _TooLargeError

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._fields += len(name) + len(value)
        if self._fields > self._limits.head:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise _TooLargeError

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        self._expect(self._limits.body_time)
        super().on_headers_complete()
        if self.parser.should_upgrade():  # the parser reads no further request
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._relax()
        self._in_head = True
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect(self._limits.read_time)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._in_head:
            self._relax()
        else:  # the rest of the body
            self._expect(self._limits.body_time)

    def _give_away(self) -> TakenConnection:
        """Hand the connection to who will speak another protocol on it."""
        self._stop_timer()
        self.flow.resume_reading()
        return TakenConnection(self.transport, self.loop, lambda: self.connection_lost(None))

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, or was too large to."""
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    def _refuse(self, status: HTTPStatus) -> None:
        body = bytes(problem_response(problem(status.value, _SAID[status])).body)
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        fields = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        self.transport.write(f"{line}{fields}\r\n".encode() + body)
        self.transport.close()

    def _expect(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._start_timer(self._deadline)

    def _relax(self) -> None:
        self._deadline = None

    def _start_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._look)

    def _stop_timer(self) -> None:
        self._relax()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Hang up if the deadline has come; else look again then."""
        self._timer = None
        if self._deadline is None:
            return
        if self._deadline <= self.loop.time():
            self.transport.abort()
        else:
            self._start_timer(self._deadline)
