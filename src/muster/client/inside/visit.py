"""One visit to a task: its connection, and how it ended."""

import socket
from dataclasses import dataclass
from typing import Any

from muster.client.connecting.connection import DaemonConnection, place
from muster.client.connecting.http import httpx
from muster.client.errors import ClientError
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.visits import UPGRADE


@dataclass(frozen=True, slots=True)
class VisitEnd:
    """How a visit ended."""

    code: int | None = None
    """Exit code of the command; 128 and the signal's number if one ended it, as shells say."""
    detached: str = ""
    """Why the visitor left what goes on; empty: it did not."""


class NoTerminalError(ClientError):
    """A task without a terminal to attach to."""


class VisitConnection:
    """An open visit; `which` and `query` as the API has them."""

    def __init__(self, connection: DaemonConnection, which: str | int, **query: Any) -> None:
        self._answer = connection.upgrade(place("jobs", which, "visits"), UPGRADE, query)
        self.socket = _socket_of(self._answer)

    def __enter__(self) -> "VisitConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()


def _socket_of(answer: httpx.Response) -> socket.socket:
    stream = answer.extensions.get("network_stream")
    found = stream.get_extra_info("socket") if stream is not None else None
    if not isinstance(found, socket.socket):
        answer.close()
        detail = "a way into a job needs a daemon at a socket; this client runs in its process"
        raise ClientError(0, "No Socket", detail, "start one with muster up")
    return found


class VisitOutcome:
    """What the node says of a visit, note by note."""

    def __init__(self) -> None:
        self.end: VisitEnd | None = None
        self.told: list[str] = []
        self._refused: dict[str, Any] | None = None

    def hear(self, note: StreamNote) -> bool:
        """Take a note; return whether the visit is over."""
        record = note.record
        match record.get("what"):
            case "exit":
                number = record.get("signal")
                code = int(record.get("code") or 0) if number is None else 128 + int(number)
                self.end = VisitEnd(code)
            case "detached":
                self.end = VisitEnd(detached=str(record.get("why", "")))
            case "refused":
                self._refused = record
            case "told":
                self.told.append(str(record.get("words", "")))
        return self.end is not None or self._refused is not None

    def result(self) -> VisitEnd:
        """Return how it ended; ClientError if it was refused or cut off."""
        if self._refused is not None:
            kind = NoTerminalError if self._refused.get("plain") else ClientError
            raise kind(409, "Refused", str(self._refused.get("why", "refused")))
        if self.end is None:
            why = self.told[-1] if self.told else "the connection to the task was cut off"
            raise ClientError(0, "Cut Off", why)
        return self.end
