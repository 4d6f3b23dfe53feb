"""Messages between the tasks of a batch job: JSON by line over TCP, for who knows the job's token."""

import hashlib
import hmac
import json
import secrets
import socket
import threading
import time
from typing import Any

Message = dict[str, Any]

PATIENCE = 60.0
"""s for the first task to listen: gangs start together, but machines differ."""
_AGAIN = 0.1
_LONGEST_LINE = 1 << 20
_CALLER, _CALLED = "caller", "called"
"""Whose proof it is."""


class TaskPeer:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._read = connection.makefile("rb")
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Send a message; OSError if the other end is gone."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._socket.sendall(line)

    def receive(self) -> Message | None:
        """Return the next message, None after the last."""
        try:
            line = self._read.readline(_LONGEST_LINE)
            found = json.loads(line) if line else None
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def close(self) -> None:
        """Hang up; a reader in another thread ends."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return
        finally:
            self._socket.close()


def greeted(connection: socket.socket, token: str) -> TaskPeer | None:
    """Return the peer at a connection that came in, if it knows the token; prove that we do, too."""
    peer, nonce = TaskPeer(connection), secrets.token_hex(16)
    try:
        peer.send(nonce=nonce)
        answer = peer.receive() or {}
        if not _proves(answer, _CALLER, nonce, token):
            peer.close()
            return None
        peer.send(proof=_proof(_CALLED, str(answer.get("nonce")), token))
    except OSError:
        peer.close()
        return None
    return peer


def dialled(host: str, port: int, token: str, patience: float = PATIENCE) -> TaskPeer:
    """Connect to the first task; OSError if it does not listen in time, or does not know the token."""
    limit = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=10.0)
            break
        except OSError:
            if time.monotonic() > limit:
                raise
            time.sleep(_AGAIN)
    peer, nonce = TaskPeer(connection), secrets.token_hex(16)
    asked = (peer.receive() or {}).get("nonce")
    peer.send(proof=_proof(_CALLER, str(asked), token), nonce=nonce)
    if not _proves(peer.receive() or {}, _CALLED, nonce, token):
        peer.close()
        raise ConnectionRefusedError(f"{host}:{port} does not know the job's token")
    connection.settimeout(None)
    return peer


def _proves(answer: Message, who: str, nonce: str, token: str) -> bool:
    return hmac.compare_digest(str(answer.get("proof")), _proof(who, nonce, token))


def _proof(who: str, nonce: str, token: str) -> str:
    """Return what only somebody with the token can say; of one side, it is no use to the other."""
    return hmac.new(token.encode(), f"{who} {nonce}".encode(), hashlib.sha256).hexdigest()
