"""How a daemon proves that it knows a token, before the token is sent to it.

A client sends a nonce and the beginning of the token's digest; a daemon answers with

    HMAC-SHA256(digest, "muster token proof" | nonce | port)

which only who has the digest can make. The port is the one that the client connected to: a stranger on
another port cannot pass a daemon's answer off as its own.
"""

import hashlib
import hmac

PREFIX = 16
"""Hex digits of the digest that find it: 24 of its 32 bytes stay secret."""


def digest(secret: str) -> str:
    """Hash a token: with 256 random bits no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def proof(token_digest: str, nonce: str, port: int) -> str:
    """Return the proof that a daemon gives to the client that connected to this port."""
    message = f"muster token proof|{nonce}|{port}".encode()
    return hmac.new(bytes.fromhex(token_digest), message, hashlib.sha256).hexdigest()
