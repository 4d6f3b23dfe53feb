"""Without the token nobody is let in, whatever it says."""

from hypothesis import given
from hypothesis import strategies as st

from muster.wire.tasks.introduction import challenge_to, is_answer, subject_of
from muster.wire.tasks.job_proof import CALLER, LISTENER, is_proof, proof_of
from muster.wire.tasks.messages import Challenge, Opening, Proof

tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
nonces = st.binary(min_size=32, max_size=32)
names = st.text(st.characters(), max_size=20)
"""Lone surrogates as well: JSON brings them."""
openings = st.builds(Opening, names, names, st.one_of(nonces.map(bytes.hex), names), names)


@given(openings, tokens, st.one_of(nonces.map(bytes.hex), st.text(max_size=70)))
def test_a_guess_is_no_proof(opening: Opening, token: str, guess: str) -> None:
    challenge = challenge_to(opening, token)
    assert not is_answer(Proof(guess), opening, challenge, token)
    # Nor is what the coordinator has sent, given back.
    assert not is_answer(Proof(challenge.proof), opening, challenge, token)


@given(openings, nonces, tokens, tokens)
def test_only_the_same_token_proves_the_same_connection(
    opening: Opening, heard: bytes, right: str, other: str
) -> None:
    called = bytes(32)
    opening = Opening(opening.job, opening.task, called.hex(), opening.user)
    mine = proof_of(other, CALLER, called, heard, subject_of(opening))
    let_in = is_answer(Proof(mine.hex()), opening, Challenge(heard.hex(), ""), right)
    assert let_in == (right == other and bool(right))


@given(tokens.filter(bool), nonces, nonces, nonces, names, names)
def test_a_proof_serves_for_one_side_one_pair_of_nonces_and_one_subject(
    token: str, called: bytes, heard: bytes, later: bytes, subject: str, another: str
) -> None:
    proof = proof_of(token, LISTENER, called, heard, subject)
    assert is_proof(proof, token, LISTENER, called, heard, subject)
    assert not is_proof(proof, token, CALLER, called, heard, subject)
    assert is_proof(proof, token, LISTENER, called, later, subject) == (later == heard)
    assert is_proof(proof, token, LISTENER, called, heard, another) == (another == subject)
