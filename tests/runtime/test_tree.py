"""Values with tensors come out of a socket as they went in."""

import socket
import threading
from collections import deque
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from muster.runtime.state.tree import UnsendableError, describe, placed_like, receive_tree, send_tree

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(
    PLAIN | st.binary(max_size=5) | st.sets(st.integers(), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def sent(value: Any) -> Any:
    here, there = socket.socketpair()
    with here, there:
        thread = threading.Thread(target=send_tree, args=(here, value))
        thread.start()
        found = receive_tree(there)
        thread.join()
    return found


@settings(max_examples=50)
@given(VALUES)
def test_plain_values(value: Any) -> None:
    assert sent(value) == value


def test_tensors_of_any_type_and_place() -> None:
    value = {
        "list": [torch.randn(3, 2).T, None, torch.tensor(7)],
        5: (torch.randn(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bool)),
        "more": deque([1, 2], maxlen=2),
        "kind": torch.float16,
    }
    found = sent(value)
    assert torch.equal(found["list"][0], value["list"][0])
    assert found["list"][1:] == [None, torch.tensor(7)]
    assert torch.equal(found[5][0], value[5][0])
    assert found["more"] == value["more"] and found["more"].maxlen == 2
    assert found["kind"] is torch.float16


def test_what_cannot_be_sent_is_named() -> None:
    with pytest.raises(UnsendableError, match=r"ema\['inner'\]\[1\] is a Linear: only tensors"):
        describe({"inner": [1, nn.Linear(1, 1)]}, [], "ema")
    with pytest.raises(UnsendableError, match="only dense ones"):
        describe(torch.eye(2).to_sparse(), [], "it")


def test_tensors_go_where_those_of_the_receiver_are() -> None:
    found = placed_like({"a": [torch.ones(1)], "b": 1}, {"a": [torch.ones(1, device="meta")]})
    assert found["a"][0].device.type == "meta"
    assert found["b"] == 1
