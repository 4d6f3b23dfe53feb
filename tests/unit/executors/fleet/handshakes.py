"""Real TLS connections of agents to a daemon's port, on loopback."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.executors.fleet.authority import new_request
from muster.executors.fleet.identities import Identities
from muster.executors.fleet.join_error import JoinError
from muster.wire.agents.join_token import JoinToken
from muster.wire.agents.pinned import fetch_authority, trusting


@dataclass(frozen=True)
class Credentials:
    """What an agent has after it joined."""

    key: str
    certificate: str
    authority: str


@contextmanager
def listening(context: ssl.SSLContext, identities: Identities) -> Iterator[int]:
    """Answer each connection with the node's name, "" without a certificate, or why it is refused."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as sock:
                    sock.sendall(_answer(identities, sock.getpeercert(binary_form=True)).encode())
            except OSError:
                plain.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield port
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _answer(identities: Identities, certificate: bytes | None) -> str:
    if certificate is None:
        return "nobody"
    try:
        return identities.admitted(certificate)
    except JoinError as problem:
        return f"refused: {problem}"


def ask(port: int, authority: str, held: Credentials | None, folder: Path) -> str:
    """Connect as an agent does; return the daemon's answer. Raises what TLS raises."""
    context = trusting(authority)
    if held is not None:
        pem = folder / "agent.pem"
        pem.write_text(held.certificate + held.key)
        context.load_cert_chain(pem)
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain) as sock,
    ):
        return sock.recv(4096).decode()


def joined(identities: Identities, token: JoinToken, node: str) -> Credentials:
    """Join as a node with a new key."""
    key, request = new_request(node)
    found = identities.join(token.secret, node, request, "10.0.0.7")
    return Credentials(key, found.certificate, found.authority)


def fetched(port: int, token: JoinToken) -> str:
    """Fetch the authority that a token names."""
    return fetch_authority("127.0.0.1", port, token.fingerprint)
