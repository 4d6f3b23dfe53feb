"""A join token is one word that survives copying, and anything else is refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.wire.agents.join_token import BadJoinTokenError, JoinToken, joined_address, split_address

TOKEN = JoinToken(("10.0.0.1:7433", "[fd00::1]:7433"), "ab" * 32, "s3cret", "gpu1", 1_800_000_000.0)

hosts = st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True))
tokens = st.builds(
    JoinToken,
    st.lists(st.builds(joined_address, hosts, st.integers(1, 65535)), min_size=1, max_size=5).map(
        tuple
    ),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.text(min_size=1, max_size=50),
    st.text(max_size=50),
    st.integers(0, 2**40).map(float),
)


@given(tokens)
def test_a_token_is_read_back_as_it_was_written(token: JoinToken) -> None:
    text = str(token)
    assert JoinToken.parse(f" {text}\n") == token
    assert not any(each.isspace() for each in text)


@given(
    st.one_of(st.text(), st.text().map("mja1.".__add__), st.binary().map(lambda data: f"mja1.{data!r}"))
)
def test_other_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadJoinTokenError) as refused:
        JoinToken.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("cut", [6, 20, -1, -10])
def test_a_token_that_was_cut_short_says_so(cut: int) -> None:
    with pytest.raises(BadJoinTokenError, match="copy it as a whole"):
        JoinToken.parse(str(TOKEN)[:cut])


def test_a_token_does_not_print_its_secret_in_a_log() -> None:
    assert "s3cret" not in repr(TOKEN)


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:0", "host:65536", "::1:80", "h:²"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(text)


def test_an_ipv6_address_has_brackets() -> None:
    assert split_address(joined_address("::1", 80)) == ("::1", 80)
