"""What the daemon listens at: TCP for all programs, and a Unix socket for this machine's own."""

import contextlib
import resource
import socket
import ssl
from dataclasses import replace
from pathlib import Path

from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits
from muster.api.door.listener import Tls, bound, url_of
from muster.api.door.unix_socket import bound_unix
from muster.app.certificate import context_of_server, fingerprint, names_of_machine, tls_of
from muster.app.options import UpOptions
from muster.app.socket_place import PRIVATE, SHARED, private_socket, shared_socket
from muster.client.connecting.settings import CA, UNIX, URL, ClientSettings, is_loopback
from muster.files.errors import InputError

DESCRIPTORS = 8192
"""Open files to ask the kernel for; a quarter each is for connections over TCP and the Unix socket."""


class Door:
    """The sockets, the names and the certificate under which the daemon is reached."""

    def __init__(self, options: UpOptions) -> None:
        self._tls: Tls | None = tls_of(options)
        self.context: ssl.SSLContext | None = context_of_server(self._tls)
        self._tcp = bound(options.host, options.port)
        try:
            self.path, self._unix = _unix_socket(options)
        except BaseException:
            self._tcp.close()
            raise
        self._open = not is_loopback(options.host)
        self._names = names_of_machine(options.host) if self._open else []
        self.hosts = Hosts([options.host, *self._names, *options.allow_hosts])
        self.url = url_of(self._tcp, secure=self._tls is not None)

    def __enter__(self) -> "Door":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.sockets:
            each.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return self._tcp, self._unix

    def settings(self, token: str | None) -> ClientSettings:
        """Return the settings of the user's own clients."""
        ca = str(self._tls.certificate) if self._tls else None
        return ClientSettings(f"{UNIX}{self.path}", token, ca, self._public_url())

    def elsewhere(self) -> str | None:
        """Return what users of other machines set, None if they cannot connect."""
        if not self._open:
            return None
        pinned = f" {CA}=sha256:{fingerprint(self._tls.certificate)}" if self._tls else ""
        return f"{URL}={self._public_url()}{pinned}"

    def _public_url(self) -> str:
        """The URL with a name that other machines can resolve, where it listens on all addresses."""
        scheme, _, _ = self.url.partition("://")
        name, port = next(iter(self._names), ""), self._tcp.getsockname()[1]
        if not name:
            return self.url
        return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}"


def limits_of_process() -> Limits:
    """Raise the limit of open files, and bound connections so that files and tasks keep their share."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < DESCRIPTORS:
        soft = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    quarter = DESCRIPTORS // 4 if soft == resource.RLIM_INFINITY else soft // 4
    limits = Limits()
    most = min(limits.connections, quarter)
    return replace(limits, connections=most, per_peer=min(limits.per_peer, max(1, most // 2)))


def _unix_socket(options: UpOptions) -> tuple[Path, socket.socket]:
    if options.socket is not None:
        path, mode = shared_socket(options.socket), SHARED
    else:
        path, mode = private_socket(options.data), PRIVATE
    try:
        return path, bound_unix(path, mode)
    except OSError as error:
        raise InputError(f"up: cannot listen at {path}: {error.strerror}; try --socket PATH") from None
