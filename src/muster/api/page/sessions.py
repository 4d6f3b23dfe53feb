"""Sessions of browsers, in place of the token that was typed in once.

A session has two halves. The cookie is one that scripts cannot read, but browsers send it to every port
of a machine, so another user's web server on loopback may see it. The key is what the page's scripts
keep, and storage of scripts is kept apart by port. Only both together are a login, so that neither a
stolen cookie nor another site's form (CSRF) is worth anything.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from muster.daemon.service.protocol import Caller

Holder = str | Caller
"""Whose session it is: a token, with which it ends, or the Unix user who asked for it."""

COOKIE = "muster-session"
"""The beginning of the cookie's name; its port follows, for daemons beside each other."""
KEY_HEADER = "Muster-Session"
IDLE, LONGEST = 12 * 3600.0, 7 * 86_400.0
"""s without a request after which a session ends, and after its login."""
MAX_SESSIONS = 1_000
"""Sessions to remember; the one that was not used for the longest time gives way."""
CODE_LIFE = 60.0
"""s for which the code of `muster open` is good, once."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A login of a browser."""

    holder: Holder
    key: bytes
    """Digest of the key that the page's scripts have."""
    opened: float
    used: float


class BrowserSessions:
    """The open sessions, by the digest of their cookies."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: OrderedDict[bytes, BrowserSession] = OrderedDict()
        self._codes: OrderedDict[bytes, tuple[Holder, float]] = OrderedDict()
        """By their digests: for whom, and until when."""

    def code(self, holder: Holder) -> str:
        """Make a code that opens one session, soon."""
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code)] = holder, self._clock() + CODE_LIFE
        if len(self._codes) > MAX_SESSIONS:
            self._codes.popitem(last=False)
        return code

    def redeem(self, code: str) -> Holder | None:
        """Return whose code it is, once."""
        holder, until = self._codes.pop(_digest(code), (None, 0.0))
        return holder if self._clock() <= until else None

    def open(self, holder: Holder) -> tuple[str, str]:
        """Open a session; return its cookie's value and its key."""
        cookie, key, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock()
        self._open[_digest(cookie)] = BrowserSession(holder, _digest(key), now, now)
        if len(self._open) > MAX_SESSIONS:
            self._open.popitem(last=False)
        return cookie, key

    def holder(self, headers: Mapping[bytes, bytes]) -> Holder | None:
        """Return whose session a request belongs to, and keep it from ending."""
        key = _digest(headers.get(KEY_HEADER.lower().encode(), b"").decode("latin-1"))
        for mark in _marks(headers):
            found = self._alive(mark)
            if found is not None and hmac.compare_digest(found.key, key):
                self._open[mark] = replace(found, used=self._clock())
                self._open.move_to_end(mark)
                return found.holder
        return None

    def close(self, headers: Mapping[bytes, bytes]) -> None:
        """End the sessions whose cookies a request has."""
        for mark in _marks(headers):
            self._open.pop(mark, None)

    def _alive(self, mark: bytes) -> BrowserSession | None:
        found = self._open.get(mark)
        if found is None:
            return None
        now = self._clock()
        if now - found.used > IDLE or now - found.opened > LONGEST:
            del self._open[mark]
            return None
        return found


def cookie_name(port: int) -> str:
    """Return the name of the cookie of the daemon at a port."""
    return f"{COOKIE}-{port}"


def _marks(headers: Mapping[bytes, bytes]) -> list[bytes]:
    """The digests of a request's session cookies: a browser sends those of all ports of a machine."""
    pairs = (each.strip().partition("=") for each in _cookies(headers).split(";"))
    return [_digest(value) for name, _, value in pairs if name.startswith(COOKIE)]


def _cookies(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"cookie", b"").decode("latin-1")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
