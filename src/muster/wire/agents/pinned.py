"""TLS to a daemon whose authority is known by its fingerprint, or by its certificate.

Certificates of one daemon's authority are used at no other address, so a valid one marked for servers
proves the daemon; its names are not compared, for a daemon may be reached by names it does not know.
"""

import hashlib
import socket
import ssl
from typing import Any, cast


class WrongDaemonError(OSError):
    """Whoever listens does not have the authority that was expected."""


def trusting(authority: str) -> ssl.SSLContext:
    """Return a client's context that trusts servers of this authority (PEM, one or more) alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=authority)
    return context


def fetch_authority(host: str, port: int, fingerprint: str, timeout: float = 10.0) -> str:
    """Return the certificate (PEM) of the authority with this fingerprint, as the server presents it.

    This alone proves nothing about the server: connect again with `trusting` before you send anything.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), timeout) as plain,
        context.wrap_socket(plain) as sock,
    ):
        chain = _chain(sock)
    for certificate in chain:
        if hashlib.sha256(certificate).hexdigest() == fingerprint:
            return ssl.DER_cert_to_PEM_cert(certificate)
    raise WrongDaemonError(
        f"{host}:{port} is not the daemon of this token: its authority has another fingerprint"
    )


def _chain(sock: ssl.SSLSocket) -> list[bytes]:
    """Return the certificates that the server sent, unverified (DER)."""
    if hasattr(sock, "get_unverified_chain"):  # Python 3.13
        return list(sock.get_unverified_chain())
    inner = cast(Any, sock)._sslobj  # the same method, before it was made public
    return [
        ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_unverified_chain() or ()
    ]
