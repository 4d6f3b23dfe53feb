"""Who wants to know what of which jobs, and how they are told."""

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from muster.daemon.service.protocol import RefusedError
from muster.model.happening import USUAL, Happening

PATIENCE = 1800.0
"""s after which a job has waited too long, unless its subscription says otherwise."""
MOST = 50
"""Subscriptions of one user."""
_ASK = (
    "use a webhook elsewhere, or ask an administrator to subscribe it: muster notify add NAME "
    "--everybody --webhook URL"
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one user wants to be told, and where."""

    name: str
    """Unique among the user's."""
    user: str
    on: tuple[str, ...] = USUAL
    webhook: str = ""
    command: str = ""
    """Run with `sh -c` by the daemon, as its own user: an administrator's alone."""
    everybody: bool = False
    """Of all users' jobs, not only of the user's own."""
    pool: str = ""
    """Only of jobs in this pool; empty: any."""
    patience: float = PATIENCE
    """s after which a job has waited too long."""
    trusted: bool = False
    """Made by an administrator: its webhook may be on the daemon's own machine."""

    @property
    def key(self) -> str:
        """Unique among all."""
        return f"{self.user}/{self.name}"

    def wants(self, happening: str, user: str, pool: str) -> bool:
        """Whether this is of interest, of a job of that user in that pool."""
        mine = self.everybody or user == self.user
        return mine and happening in self.on and self.pool in ("", pool)


def refuse_bad(subscription: Subscription, admin: bool) -> None:
    """Refuse a subscription that could never be served, or is not this user's to make."""
    if bool(subscription.webhook) == bool(subscription.command):
        raise RefusedError("give a webhook or a command, one of them")
    if not admin and (subscription.command or subscription.everybody):
        what = "commands, which the daemon runs," if subscription.command else "all users' jobs"
        raise RefusedError(f"{what} are for administrators; use a webhook for your own jobs")
    if not subscription.on:
        raise RefusedError(f"name what to tell: {', '.join(Happening)}")
    if subscription.webhook:
        refuse_bad_url(subscription.webhook, admin)


def refuse_bad_url(url: str, admin: bool) -> None:
    """Refuse what is no webhook, and users' webhooks that would reach the daemon's own machine."""
    host = _host_of(url)
    if not admin and reaches_daemon(host):
        raise RefusedError(f"{host} is the daemon's own machine; {_ASK}")


def refuse_bad_job_url(url: str, admin: bool) -> None:
    """Refuse what cannot be a job's own webhook: none may reach the daemon's machine, since a job does
    not keep whether an administrator submitted it."""
    host = _host_of(url)
    if reaches_daemon(host):
        instead = f"subscribe it instead: muster notify add NAME --webhook {url}" if admin else _ASK
        raise RefusedError(
            f"{host} is the daemon's own machine, which a job's own webhook may not reach; {instead}"
        )


def _host_of(url: str) -> str:
    """Return the host of a webhook; refuse what is none."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        raise RefusedError(f"{url!r} is no webhook; write for example https://hooks.example.org/x")
    return host


def reaches_daemon(host: str) -> bool:
    """Whether a host is the machine itself or a link-local address, where clouds keep secrets."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified


def read_subscriptions(stored: str | None) -> dict[str, Subscription]:
    """Return subscriptions by key, from what `written` returned."""
    found = [Subscription(**{**each, "on": tuple(each["on"])}) for each in json.loads(stored or "[]")]
    return {each.key: each for each in found}


def written(subscriptions: Iterable[Subscription]) -> str:
    """Return subscriptions as text."""
    return json.dumps([asdict(each) for each in subscriptions])
