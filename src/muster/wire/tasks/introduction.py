"""How a task and its coordinator prove that they know the job's token: see `job_proof.py`."""

import time

from muster.wire.seldom import shortened
from muster.wire.tasks.channel import LINE_LIMIT, Channel
from muster.wire.tasks.codec import BadMessageError
from muster.wire.tasks.job_proof import CALLER, LISTENER, NONCE, PROOF, is_proof, new_nonce, proof_of
from muster.wire.tasks.messages import VERSION, Challenge, Opening, Proof, Refused

INTRODUCTION_LIMIT = 1024
"""Bytes of a line before the proof: with the longest names an `Opening` takes some 700."""

INTRODUCTION_TIMEOUT = 10.0
"""Seconds from the connection to the proof: two short messages each way."""

_OTHER = f"it does not speak version {VERSION} of Muster's protocol"


class UntrustedError(OSError):
    """Whoever listens is not the job's coordinator, or speaks another version."""


def subject_of(opening: Opening, binding: str = "") -> str:
    """Return what the proofs of a task's connection are about.

    With the binding of a TLS connection, a proof is worth nothing on any other: who sits in between
    has another certificate.
    """
    task = f"task {opening.user}/{opening.job}/{opening.task} {opening.version}"
    return f"{task} {binding}" if binding else task


def challenge_to(opening: Opening, token: str, binding: str = "") -> Challenge:
    """Return the listener's proof and nonce."""
    called, heard = _bytes(opening.nonce, NONCE), new_nonce()
    proof = proof_of(token, LISTENER, called, heard, subject_of(opening, binding))
    return Challenge(heard.hex(), proof.hex())


def is_answer(
    answer: Proof, opening: Opening, challenge: Challenge, token: str, binding: str = ""
) -> bool:
    """Whether the caller has proved itself."""
    called, heard = _bytes(opening.nonce, NONCE), _bytes(challenge.nonce, NONCE)
    given = _bytes(answer.proof, PROOF)
    return is_proof(given, token, CALLER, called, heard, subject_of(opening, binding))


def introduce(channel: Channel, user: str, job: str, task: str, token: str, binding: str = "") -> None:
    """Prove that both ends know a job's token, the listener first, else `UntrustedError`."""
    until = time.monotonic() + INTRODUCTION_TIMEOUT
    channel.limit = INTRODUCTION_LIMIT
    called = new_nonce()
    opening = Opening(job, task, called.hex(), user)
    channel.send(opening)
    try:
        answer = channel.receive(until)
    except BadMessageError as problem:
        raise UntrustedError(_OTHER) from problem
    if answer is None:
        raise ConnectionError("the connection ended before its proof")
    if isinstance(answer, Refused):
        raise UntrustedError(shortened(answer.why))
    if not isinstance(answer, Challenge):
        raise UntrustedError(_OTHER)
    heard, subject = _bytes(answer.nonce, NONCE), subject_of(opening, binding)
    if not is_proof(_bytes(answer.proof, PROOF), token, LISTENER, called, heard, subject):
        raise UntrustedError("it does not know this job's token")
    channel.send(Proof(proof_of(token, CALLER, called, heard, subject).hex()))
    channel.limit = LINE_LIMIT


def _bytes(text: str, count: int) -> bytes:
    """Read hex digits; zeros for anything else, which proves nothing."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    return data if len(data) == count else bytes(count)
