"""The agent's folder, for its user only: who it is, whom it has obeyed, and its tasks."""

import contextlib
import fcntl
import os
import ssl
import time
from pathlib import Path

from muster.agent.options import AgentError
from muster.executors.private_folder import make_private
from muster.wire.agents.pinned import trusting

RENEW_AFTER = 2 / 3
"""Of a certificate's life: the rest is time for a daemon that is away."""


class AgentFolder:
    """Files that outlive the agent, each written atomically."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_private(path)
        except OSError as problem:
            raise AgentError(f"cannot use {path}: {problem.strerror}; give another --folder") from None
        self.identity, self.authority = path / "identity.pem", path / "ca.pem"
        """The agent's certificate and key (one file, replaced at once); whom it trusts."""
        self.heard = path / "heard"
        """When the daemon was last heard, in s since boot: shims read it, for leases."""
        self._lock: int | None = None

    def lock(self) -> None:
        """Be the only agent of this folder; `AgentError` if there is another."""
        self._lock = os.open(self.path / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip() or "?"
            raise AgentError(
                f"an agent already runs in {self.path} (pid {pid}); stop it, "
                "or give this one another --node or --folder"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    @property
    def joined(self) -> bool:
        """Whether it has an identity."""
        return self.identity.exists() and self.authority.exists()

    def context(self) -> ssl.SSLContext:
        """Return TLS with the agent's certificate, to servers of its daemon's authority alone."""
        try:
            context = trusting(self.authority.read_text(encoding="ascii"))
            context.load_cert_chain(self.identity)
        except (OSError, ValueError) as problem:
            raise AgentError(
                f"cannot use the certificate in {self.path}: {problem}; join again with a new token"
            ) from None
        return context

    def keep_identity(self, certificate: str, authority: str, key: str) -> None:
        """Replace the identity (PEM all of it)."""
        self._put(self.authority.name, authority)
        self._put(self.identity.name, certificate + key)

    def renewal(self) -> float:
        """Return the s until the certificate should be renewed; 0 if that is due."""
        decode = getattr(ssl, "_ssl")._test_decode_cert  # noqa: B009
        fields = decode(str(self.identity))
        begin, end = (ssl.cert_time_to_seconds(fields[name]) for name in ("notBefore", "notAfter"))
        return max(0.0, begin + RENEW_AFTER * (end - begin) - time.time())

    @property
    def epoch(self) -> int:
        """The highest epoch of a daemon that was obeyed."""
        text = self._get("epoch")
        return int(text) if text.isdecimal() else 0

    @epoch.setter
    def epoch(self, value: int) -> None:
        self._put("epoch", str(value))

    @property
    def daemons(self) -> tuple[str, ...]:
        """The addresses at which the daemon was found when the agent joined."""
        return tuple(self._get("daemons").split())

    @daemons.setter
    def daemons(self, addresses: tuple[str, ...]) -> None:
        self._put("daemons", "\n".join(addresses))

    def _get(self, name: str) -> str:
        with contextlib.suppress(OSError, ValueError):
            return (self.path / name).read_text(encoding="ascii").strip()
        return ""

    def _put(self, name: str, text: str) -> None:
        draft = self.path / f".{name}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / name)
