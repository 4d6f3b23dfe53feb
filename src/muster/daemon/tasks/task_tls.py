"""The certificate of the port to which tasks report, off loopback."""

import ipaddress
import ssl
import time

from muster.wire.agents.tls_stream import binding_of
from muster.wire.tasks.task_server import TaskTls

DAYS = 3650
"""Nobody checks it: tasks know the certificate by the proof of their job's token, made over it."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, for certain."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_task_tls() -> TaskTls:
    """Return a new certificate; its key is never stored, so a daemon makes one whenever it starts."""
    # Slow to load, and of no use on loopback.
    from muster.executors.fleet.authority import self_signed, serving

    certificate, key = self_signed(["localhost"], time.time(), DAYS)
    return TaskTls(serving(certificate, key), binding_of(ssl.PEM_cert_to_DER_cert(certificate)))
