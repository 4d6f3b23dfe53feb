"""Makes sure of the daemon before anything is sent to it.

On a Unix socket the kernel says who listens; over HTTPS the certificate does; over plain HTTP, on this
machine alone, the daemon proves that it knows the token. It happens on each new connection, before the
first request.
"""

import hashlib
import os
import pwd
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import h11
import httpcore
import msgspec

from muster.client.connecting.http import httpx
from muster.client.connecting.settings import INSECURE, UNIX, ClientSettings, is_loopback
from muster.client.errors import ClientError
from muster.wire.agents.token_proof import PREFIX, digest, proof

PINNED = "sha256:"
ANSWER = 10.0
"""s for a daemon to prove itself."""
LONGEST = 65536
"""Bytes of a proof: whoever listens must not fill the memory."""
ROOT = 0
_CREDENTIALS = struct.Struct("3i")
"""pid, uid, gid."""

Trace = Callable[[str, Mapping[str, Any]], None]


class PinnedContext(ssl.SSLContext):
    """Trusts the one certificate with this fingerprint, whatever name or date it has."""

    fingerprint: str

    def wrap_socket(self, *args: Any, **how: Any) -> ssl.SSLSocket:
        """Connect, and compare before anything is sent."""
        wrapped = super().wrap_socket(*args, **how)
        found = hashlib.sha256(wrapped.getpeercert(binary_form=True) or b"").hexdigest()
        if not secrets.compare_digest(found, self.fingerprint):
            wrapped.close()
            raise ssl.SSLCertVerificationError(
                f"its certificate is {PINNED}{found}, not {PINNED}{self.fingerprint}"
            )
        return wrapped

    def wrap_bio(self, *_: Any, **__: Any) -> ssl.SSLObject:
        """Refuse: through a proxy's own TLS the certificate would not be compared."""
        raise ssl.SSLError("a pinned certificate needs a direct connection")


def context_of(ca: str | None) -> ssl.SSLContext | bool:
    """Return what to verify certificates by: the system's, those of a file, or a fingerprint."""
    if ca is None:
        return True
    if ca.startswith(PINNED):
        fingerprint = ca.removeprefix(PINNED).replace(":", "").lower()
        if len(fingerprint) != 64 or not set(fingerprint) <= set("0123456789abcdef"):
            raise ClientError(0, "Bad Fingerprint", f"{ca!r} is not {PINNED} and 64 hex digits")
        context = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.fingerprint = fingerprint
        return context
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        cause = error.strerror or "it holds no certificate"
        hint = (
            "copy the daemon's certificate there, or set MUSTER_CA=sha256:..., which `muster up` prints"
        )
        raise ClientError(0, "Bad Certificates", f"cannot read {ca}: {cause}", hint) from None


def check_address(settings: ClientSettings) -> None:
    """Refuse to send a token where others can read it on the way."""
    parts = urlsplit(settings.url)
    exposed = parts.scheme == "http" and not is_loopback(parts.hostname)
    if exposed and settings.token and not settings.insecure:
        hint = f"use https://, a tunnel to this machine, or {INSECURE}=1 to send it all the same"
        raise ClientError(0, "Insecure", f"{settings.url} would show the token to the network", hint)


def tracer(settings: ClientSettings) -> Trace | None:
    """Return what checks each new connection, as httpcore's extension `trace`; None: TLS does."""
    if settings.url.startswith(UNIX):
        return _unix_trace(settings.insecure)
    parts = urlsplit(settings.url)
    if parts.scheme != "http" or settings.token is None or settings.insecure:
        return None
    token, netloc, port = settings.token, parts.netloc, parts.port or 80
    return _on(
        "connection.connect_tcp.complete", lambda stream: _check_proof(stream, token, netloc, port)
    )


def _unix_trace(insecure: bool) -> Trace:
    check = _on("connection.connect_unix_socket.complete", _check_owner)

    def trace(name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_unix_socket.started":
            _probe(info["path"])
        if not insecure:
            check(name, info)

    return trace


def _probe(path: str) -> None:
    """Connect once and hang up: httpcore does not close a socket that cannot connect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError as error:
            raise httpx.ConnectError(str(error)) from None


def _on(event: str, check: Callable[[httpcore.NetworkStream], None]) -> Trace:
    def trace(name: str, info: Mapping[str, Any]) -> None:
        if name == event:
            stream: httpcore.NetworkStream = info["return_value"]
            try:
                check(stream)
            except BaseException:
                stream.close()
                raise

    return trace


def _check_owner(stream: httpcore.NetworkStream) -> None:
    """Refuse a socket at which another user listens."""
    found: socket.socket = stream.get_extra_info("socket")
    raw = found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid = _CREDENTIALS.unpack(raw)[1]
    if uid not in (ROOT, os.geteuid()):
        detail = f"user {_name(uid)} listens at {found.getpeername()}, neither you nor root"
        hint = f"see that MUSTER_URL is right; {INSECURE}=1 trusts that user"
        raise ClientError(0, "Another User", detail, hint)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _check_proof(stream: httpcore.NetworkStream, token: str, netloc: str, port: int) -> None:
    """Refuse a server that does not know the token."""
    known, nonce = digest(token), secrets.token_hex(16)
    path = f"/v1/proof?token={known[:PREFIX]}&nonce={nonce}"
    try:
        status, body = _asked(stream, path, netloc)
    except h11.ProtocolError:
        status, body = 0, b""
    if status == 429:
        raise httpx.ConnectError("the daemon is busy")
    if status != 200 or not secrets.compare_digest(_proof_in(body), proof(known, nonce, port).encode()):
        detail = f"what listens at http://{netloc} does not know this token, so it was not sent"
        hint = "the token was revoked, or another program than your daemon listens there"
        raise ClientError(401, "Unauthorized", detail, hint)


def _proof_in(body: bytes) -> bytes:
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("proof", "").encode()
    except msgspec.DecodeError:
        return b""


def _asked(stream: httpcore.NetworkStream, path: str, netloc: str) -> tuple[int, bytes]:
    """Send a request on a fresh connection, which stays open; return status and body of its answer."""
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST)
    request = h11.Request(method="GET", target=path, headers=[("Host", netloc)])
    stream.write(http.send(request) + http.send(h11.EndOfMessage()), ANSWER)
    status, body = 0, b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(stream.read(LONGEST, ANSWER))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > LONGEST:
                raise h11.RemoteProtocolError("the answer is too long")
        elif isinstance(event, h11.EndOfMessage):
            return status, body
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("it hung up")
