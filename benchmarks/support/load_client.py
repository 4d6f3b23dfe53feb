"""Requests over HTTP as fast as a daemon answers: raw connections kept open, in a process apart."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from support.spawned import receive, stop

PATIENCE = 60.0
"""s for one answer: a longer one is broken, not slow."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a daemon listens, and the token to show."""

    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one kind: connections that each ask again when answered."""

    requests: tuple[bytes, ...]
    """In this order; from the first again where they do not last."""
    connections: int
    count: int | None = None
    """How many in all; None: as long as it takes others to be done, or the time to be over."""
    seconds: float | None = None
    pause: float = 0.0
    """s between an answer and the next request of its connection."""
    rate: float | None = None
    """Requests per s of all connections; each is timed from when it was due. None: as fast as they are
    answered."""
    follows: bool = False
    """Whether each answer is a stream, read until it is enough; its events are counted."""


@dataclass(slots=True)
class Timings:
    """What came of a stream."""

    seconds: list[float] = field(default_factory=list)
    """Of every request that was answered well."""
    refused: int = 0
    events: int = 0
    """Of streams."""
    lasted: float = 0.0
    """s from the first request to the last answer."""

    @property
    def rate(self) -> float:
        """Answers per s."""
        return len(self.seconds) / self.lasted if self.lasted else 0.0

    def quantile(self, part: float) -> float:
        """The time within which this part of the requests was answered."""
        return quantile(self.seconds, part)


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that is at or above this part of them; NaN of none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Caller:
    """One connection to a daemon."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection((address.host, address.port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request made by `request`; the answer's status and body."""
        self._socket.sendall(request)
        head, self._rest = self._until_blank_line()
        lines = head.split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line[:15].lower() == b"content-length:")
        while len(self._rest) < length:
            self._rest += self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(lines[0].split(b" ", 2)[1]), body

    def stream(self, request: bytes) -> Iterator[bytes]:
        """Send a request made by `request`; the pieces of its answer, and an empty one every second
        without any."""
        self._socket.sendall(request)
        self._socket.settimeout(1.0)
        while True:
            try:
                yield self._more()
            except TimeoutError:
                yield b""

    def _until_blank_line(self) -> tuple[bytes, bytes]:
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        return data[:end], data[end + 4 :]

    def _more(self) -> bytes:
        piece = self._socket.recv(1 << 18)
        if not piece:
            raise ConnectionError("the daemon hung up")
        return piece


def request(address: Address, method: str, path: str, body: object = None) -> bytes:
    """A request as it goes over the wire."""
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
        f"Authorization: Bearer {address.token}\r\n"
    )
    if data:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return f"{head}\r\n".encode() + data


def ask(address: Address, method: str, path: str, body: object = None) -> Any:
    """One request on a connection of its own, for an idle one is hung up; its answer out of JSON."""
    with Caller(address) as caller:
        status, found = caller.send(request(address, method, path, body))
    if status >= 300:
        raise RuntimeError(f"{method} {path}: {status} {found.decode()}")
    return json.loads(found) if found else None


def drive(address: Address, streams: Sequence[Stream]) -> list[Timings]:
    """Run streams side by side, each in a process of its own, until the first of them is done."""
    context = get_context("spawn")
    begun = []
    try:
        for stream in streams:
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, address, stream), daemon=True)
            process.start()
            begun.append((process, here))
        for _, pipe in begun:
            receive(pipe, PATIENCE)  # it is connected
        for _, pipe in begun:
            pipe.send("go")
        first = receive(begun[0][1], 20 * PATIENCE)
        for _, pipe in begun[1:]:
            pipe.send("enough")
        return [first, *(receive(pipe, PATIENCE) for _, pipe in begun[1:])]
    finally:
        for process, _ in begun:
            stop(process)


def _serve(pipe: Connection, address: Address, stream: Stream) -> None:
    """What a process does for a stream."""
    callers = [Caller(address) for _ in range(stream.connections)]
    pipe.send("ready")
    pipe.recv()
    enough = threading.Event()
    if stream.count is None and stream.seconds is None:
        threading.Thread(target=_await_enough, args=(pipe, enough), daemon=True).start()
    pipe.send(run(callers, stream, enough.is_set))


def _await_enough(pipe: Connection, enough: threading.Event) -> None:
    pipe.recv()
    enough.set()


def run(callers: Sequence[Caller], stream: Stream, enough: Callable[[], bool]) -> Timings:
    """Ask over all connections until the stream is over."""
    found = [Timings() for _ in callers]
    turns = _turns(stream, enough)
    lock = threading.Lock()
    begun = time.perf_counter()
    threads = [
        threading.Thread(target=_follow, args=(caller, stream.requests[place], enough, mine))
        if stream.follows
        else threading.Thread(target=_ask_on, args=(caller, turns, lock, stream.pause, mine))
        for place, (caller, mine) in enumerate(zip(callers, found, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lasted = time.perf_counter() - begun
    every = [seconds for each in found for seconds in each.seconds]
    refused, events = sum(each.refused for each in found), sum(each.events for each in found)
    return Timings(every, refused, events, lasted)


def _turns(stream: Stream, enough: Callable[[], bool]) -> Iterator[tuple[bytes, float | None]]:
    """The requests of a stream, one for each turn, until it is over; and when each is due."""
    begun = time.perf_counter()
    until = begun + stream.seconds if stream.seconds is not None else None
    turn = 0
    while not enough() and (until is None or time.perf_counter() < until):
        if turn == stream.count:
            return
        due = begun + turn / stream.rate if stream.rate is not None else None
        if due is not None:
            time.sleep(max(0.0, due - time.perf_counter()))
        yield stream.requests[turn % len(stream.requests)], due
        turn += 1


def _ask_on(
    caller: Caller,
    turns: Iterator[tuple[bytes, float | None]],
    lock: threading.Lock,
    pause: float,
    found: Timings,
) -> None:
    while True:
        with lock:  # a generator goes for one thread at a time
            turn = next(turns, None)
        if turn is None:
            return
        asked, due = turn
        begun = time.perf_counter() if due is None else due
        status, _ = caller.send(asked)
        if status < 300:
            found.seconds.append(time.perf_counter() - begun)
        else:
            found.refused += 1
        if pause:
            time.sleep(pause)


def _follow(caller: Caller, asked: bytes, enough: Callable[[], bool], found: Timings) -> None:
    for piece in caller.stream(asked):
        found.events += piece.count(b"\ndata: ")
        if enough():
            return
