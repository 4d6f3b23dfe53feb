"""Joins a daemon: checks who it is by the token's fingerprint, then asks for a certificate."""

import contextlib
import hashlib
import socket
import ssl
from pathlib import Path

from muster.agent.options import AgentError
from muster.agent.trust.identity import AgentFolder
from muster.agent.trust.key_request import make_request
from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import DAEMON_LINE, Admitted, AgentRefused, Join
from muster.wire.agents.join_token import BadJoinTokenError, JoinToken, split_address
from muster.wire.agents.pinned import WrongDaemonError, fetch_authority, trusting
from muster.wire.seldom import shortened
from muster.wire.tasks.codec import BadMessageError

TIMEOUT = 10.0
"""s for each step of joining."""


def read_token(text: str) -> JoinToken:
    """Read a join token, or the file that has it."""
    with contextlib.suppress(OSError, ValueError):
        if not text.startswith("mja") and Path(text).is_file():
            text = Path(text).read_text(encoding="ascii")
    try:
        return JoinToken.parse(text)
    except BadJoinTokenError as problem:
        raise AgentError(f"--join: {problem}") from None


def has_joined(folder: AgentFolder, token: JoinToken) -> bool:
    """Whether the folder has an identity of the token's daemon."""
    if not folder.joined:
        return False
    with contextlib.suppress(OSError, ValueError):
        authorities = folder.authority.read_text(encoding="ascii")
        return token.fingerprint in _fingerprints(authorities)
    return False


def join(folder: AgentFolder, token: JoinToken, node: str) -> None:
    """Get an identity from the first of the token's addresses that answers."""
    key, request = make_request(node)
    problems: list[str] = []
    for address in token.addresses:
        try:
            admitted = _ask(address, token, Join(token.secret, node, request))
        except (OSError, BadMessageError) as problem:
            problems.append(_words(address, problem))
            continue
        folder.keep_identity(admitted.certificate, admitted.authority, key)
        folder.daemons = token.addresses
        return
    raise AgentError(f"cannot join: {'; '.join(problems)}")


def _ask(address: str, token: JoinToken, message: Join) -> Admitted:
    host, port = split_address(address)
    authority = fetch_authority(host, port, token.fingerprint, TIMEOUT)
    # Only now, over a connection that is proved to be the daemon's, the secret is sent.
    with (
        socket.create_connection((host, port), TIMEOUT) as plain,
        trusting(authority).wrap_socket(plain) as sock,
        sock.makefile("rb") as lines,
    ):
        sock.sendall(FROM_AGENT.encode(message))
        line = lines.readline(DAEMON_LINE)
    if not line.endswith(b"\n"):
        raise ConnectionError("the daemon has closed the connection")
    answer = TO_AGENT.decode(line)
    if isinstance(answer, AgentRefused):
        raise AgentError(f"the daemon refuses this agent: {shortened(answer.why)}")
    if not isinstance(answer, Admitted):
        raise BadMessageError(f"answered with {type(answer).__name__}")
    return answer


def _fingerprints(pem: str) -> set[str]:
    end = "-----END CERTIFICATE-----"
    parts = [part + end for part in pem.split(end) if "BEGIN CERTIFICATE" in part]
    return {hashlib.sha256(ssl.PEM_cert_to_DER_cert(part.strip())).hexdigest() for part in parts}


def _words(address: str, problem: Exception) -> str:
    if isinstance(problem, WrongDaemonError):
        return str(problem)
    if isinstance(problem, ssl.SSLError):
        return f"{address}: not a daemon: TLS failed ({problem.reason or problem})"
    return f"{address}: {getattr(problem, 'strerror', None) or problem}"
