"""The daemon's certificate: the given one, or one that it signs itself for clients to pin."""

import contextlib
import hashlib
import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterable
from pathlib import Path

from muster.api.door.listener import Tls
from muster.app.options import UpOptions
from muster.client.settings import is_loopback
from muster.files.errors import InputError

DAYS = 3650
"""Ten years: a pinned certificate is replaced by hand."""
WILDCARDS = ("0.0.0.0", "::", "")
_INSTALL = "install openssl, or give --tls-cert and --tls-key"


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
    openssl = shutil.which("openssl")
    if openssl is None:
        raise InputError.at("--host", f"no certificate can be made: {_INSTALL}")
    names = ["localhost", "127.0.0.1", "::1"]
    for host in hosts:
        names += names_of_machine(host) if host in WILDCARDS else [host]
    names = list(dict.fromkeys([*names, *names_of_machine("")]))
    assert tls.key is not None
    folder = tls.certificate.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".cert.{os.getpid()}"
    os.close(os.open(tls.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    command += [
        "-days",
        str(DAYS),
        "-subj",
        "/CN=muster",
        "-addext",
        f"subjectAltName={_alternatives(names)}",
    ]
    command += ["-keyout", str(tls.key), "-out", str(draft)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InputError.at("--host", f"openssl made no certificate: {last}; {_INSTALL}")
    draft.replace(tls.certificate)  # last: it is there only together with its key


def _alternatives(names: Iterable[str]) -> str:
    return ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names if name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
