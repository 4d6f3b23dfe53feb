"""The daemon's certificate: the given one, or one that it signs itself for clients to pin."""

import contextlib
import hashlib
import os
import socket
import ssl
import time
from collections.abc import Iterable
from pathlib import Path

from muster.api.door.listener import Tls
from muster.app.options import UpOptions
from muster.client.connecting.settings import is_loopback
from muster.files.errors import InputError

DAYS = 3650
"""Ten years: a pinned certificate is replaced by hand."""
WILDCARDS = ("0.0.0.0", "::", "")


def tls_of(options: UpOptions) -> Tls | None:
    """Return the certificate to listen with; off loopback there is one, unless `--no-tls` is given."""
    if options.tls_cert is not None:
        return Tls(options.tls_cert.absolute(), options.tls_key and options.tls_key.absolute())
    if not options.tls or is_loopback(options.host):
        return None
    folder = options.data / "tls"
    found = Tls(folder / "cert.pem", folder / "key.pem")
    if not found.certificate.exists():
        _sign(found, [options.host, *options.allow_hosts])
    return found


def context_of_server(tls: Tls | None) -> ssl.SSLContext | None:
    """Load a certificate; one clear line if it cannot be used."""
    try:
        return tls.context() if tls else None
    except OSError as error:
        files = f"{tls.certificate} and {tls.key}" if tls else ""
        cause = error.strerror or "not a certificate and its key"
        raise InputError.at("--tls-cert", f"cannot use {files}: {cause}") from None


def fingerprint(certificate: Path) -> str:
    """Return the SHA-256 fingerprint of a certificate, in hex."""
    pem = certificate.read_text(encoding="ascii")
    begin = pem.index("-----BEGIN CERTIFICATE-----")
    end = pem.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[begin:end])).hexdigest()


def names_of_machine(host: str) -> list[str]:
    """Return the names and addresses under which others reach this machine."""
    names = [host] if host not in WILDCARDS else []
    own = [socket.gethostname(), socket.getfqdn()]
    with contextlib.suppress(OSError):
        own += [str(each[4][0]).partition("%")[0] for each in socket.getaddrinfo(own[0], None)]
    return list(dict.fromkeys([*names, *own]))


def _sign(tls: Tls, hosts: Iterable[str]) -> None:
    """Make a key and a certificate for all names of this machine, readable by its user alone."""
    # Slow to load, and done once.
    from muster.executors.fleet.authority import self_signed

    names = ["localhost", "127.0.0.1", "::1"]
    for host in hosts:
        names += names_of_machine(host) if host in WILDCARDS else [host]
    names = [each for each in dict.fromkeys([*names, *names_of_machine("")]) if each]
    assert tls.key is not None
    folder = tls.certificate.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key = self_signed(names, time.time(), DAYS)
    with os.fdopen(os.open(tls.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(key)
    draft = folder / f".cert.{os.getpid()}"
    draft.write_text(certificate, encoding="ascii")
    draft.replace(tls.certificate)  # last: it is there only together with its key
