"""TLS over a connected socket, for one thread that receives and any that send.

`ssl.SSLSocket` must not be used by two threads at once. Here the lock is held only while bytes are
encrypted or decrypted in memory, never while a thread waits for the network.
"""

import hashlib
import socket
import ssl
import threading

_CHUNK = 64 * 1024


class TlsStream:
    """The calling end of a TLS connection; what `Channel` needs of a socket."""

    def __init__(self, sock: socket.socket) -> None:
        """Shake hands, within the socket's timeout. Whoever answers is unknown: compare `binding`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._crypting, self._sending = threading.Lock(), threading.Lock()
        self._shake_hands()
        self.binding = binding_of(self._tls.getpeercert(binary_form=True) or b"")
        """Differs for each certificate: both ends see the same one, or somebody is between them."""

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
            else:
                self._flush()
                return

    def recv(self, size: int) -> bytes:
        """Return decrypted bytes; none when the connection has ended."""
        while True:
            with self._crypting:
                try:
                    return self._tls.read(size)
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            self._feed()

    def sendall(self, data: bytes) -> None:
        """Encrypt and send."""
        with self._sending:
            for begin in range(0, len(data), _CHUNK):
                with self._crypting:
                    self._tls.write(data[begin : begin + _CHUNK])
                self._flush()

    def settimeout(self, seconds: float | None) -> None:
        self._socket.settimeout(seconds)

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def close(self) -> None:
        self._socket.close()

    def _feed(self) -> None:
        data = self._socket.recv(_CHUNK)
        with self._crypting:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _flush(self) -> None:
        """Send what is encrypted; called by one thread at a time."""
        with self._crypting:
            data = self._outgoing.read()
        if data:
            self._socket.sendall(data)


def binding_of(certificate: bytes) -> str:
    """Return what ties a proof to the TLS connection it is made on (RFC 5929, tls-server-end-point)."""
    return f"tls-server-end-point:{hashlib.sha256(certificate).hexdigest()}"
