"""Proof that both ends of a connection know a job's token, which itself never travels.

Each end draws a nonce. Whoever listens proves itself first, then whoever connected, each by HMAC-SHA256
with the token as key over both nonces, its own side and what the connection is for: a proof cannot be
replayed, returned to its sender, or used for another task or address. It holds for the moment of
connecting: what follows is protected only where the connection is TLS, whose certificate is then part
of the subject.
"""

import hashlib
import hmac
import secrets

NONCE = PROOF = 32
"""Bytes of each."""

LISTENER, CALLER = b"listener", b"caller"
"""The two sides."""


def new_nonce() -> bytes:
    return secrets.token_bytes(NONCE)


def proof_of(token: str, side: bytes, called: bytes, heard: bytes, subject: str) -> bytes:
    """Return a side's proof; `called`, `heard`: the caller's and the listener's nonce."""
    message = b"\0".join((called + heard, side, subject.encode(errors="surrogatepass")))
    return hmac.new(token.encode(), message, hashlib.sha256).digest()


def is_proof(given: bytes, token: str, side: bytes, called: bytes, heard: bytes, subject: str) -> bool:
    """Whether a proof is right, in constant time. Nobody can prove anything with an empty token."""
    right = proof_of(token, side, called, heard, subject)
    return hmac.compare_digest(given, right) and bool(token)
