"""Tensors and JSON over a socket, whatever the type and layout; peers that go or say nothing."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from muster.runtime.comm.stream import JSON_LIMIT, receive_into, receive_json, send_json, send_tensor


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected TCP sockets that wait 10 s at most."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        left = socket.create_connection(door.getsockname(), timeout=10)
        right, _ = door.accept()
    right.settimeout(10)
    with left, right:
        yield left, right


def sent(pair: tuple[socket.socket, socket.socket], tensor: Tensor, target: Tensor) -> Tensor:
    """The target after the tensor went through the sockets."""
    thread = threading.Thread(target=send_tensor, args=(pair[0], tensor))
    thread.start()
    receive_into(pair[1], target)
    thread.join(10)
    return target


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.int64,
        torch.uint8,
        torch.bool,
        torch.complex64,
    ],
)
def test_every_type_arrives_unchanged(
    pair: tuple[socket.socket, socket.socket], dtype: torch.dtype
) -> None:
    tensor = (torch.arange(60).reshape(3, 4, 5) % 7).to(dtype)
    assert torch.equal(sent(pair, tensor, torch.zeros(3, 4, 5, dtype=dtype)), tensor)


def test_a_tensor_larger_than_the_buffers_of_the_sockets(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    tensor = torch.arange(5_000_000, dtype=torch.float32)
    assert torch.equal(sent(pair, tensor, torch.empty(5_000_000)), tensor)


def test_layouts_that_are_not_contiguous_at_either_end(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    into = torch.zeros(4, 6).t()[::2]  # shape (3, 4), a view of every other row
    assert torch.equal(sent(pair, tensor.t().contiguous().t(), into), tensor)


def test_the_elements_that_a_lazy_conjugate_means(pair: tuple[socket.socket, socket.socket]) -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    assert sent(pair, tensor.conj(), torch.zeros(2, dtype=tensor.dtype)).tolist() == [1 - 2j, 3 + 4j]


def test_empty_tensors_and_scalars(pair: tuple[socket.socket, socket.socket]) -> None:
    assert sent(pair, torch.empty(0, 3), torch.empty(0, 3)).numel() == 0
    assert sent(pair, torch.tensor(2.5), torch.zeros(())).item() == 2.5


def test_parameters_that_need_gradients(pair: tuple[socket.socket, socket.socket]) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    assert sent(pair, torch.full((3,), 4.0, requires_grad=True), parameter).tolist() == [4.0, 4.0, 4.0]
    assert parameter.requires_grad


def test_json_and_tensors_in_turn(pair: tuple[socket.socket, socket.socket]) -> None:
    send_json(pair[0], {"step": 3, "names": ["é", None]})
    send_tensor(pair[0], torch.ones(2))
    send_json(pair[0], [])
    assert receive_json(pair[1]) == {"step": 3, "names": ["é", None]}
    target = torch.zeros(2)
    receive_into(pair[1], target)
    assert target.tolist() == [1.0, 1.0]
    assert receive_json(pair[1]) == []


def test_a_closed_peer(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].sendall(struct.pack("!Q", 8) + b"1234")
    pair[0].close()
    with pytest.raises(ConnectionError, match="closed"):
        receive_into(pair[1], torch.zeros(2))
    with pytest.raises(ConnectionError):
        send_tensor(pair[1], torch.zeros(10_000_000))


def test_a_silent_peer(pair: tuple[socket.socket, socket.socket]) -> None:
    for sock in pair:
        sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive_json(pair[1])
    with pytest.raises(TimeoutError):
        send_tensor(pair[0], torch.zeros(10_000_000))


def test_a_socket_closed_here_by_another_thread(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    with pytest.raises(ConnectionError, match="lost"):
        receive_json(pair[1])


def test_a_tensor_of_another_size(pair: tuple[socket.socket, socket.socket]) -> None:
    send_tensor(pair[0], torch.zeros(3))
    with pytest.raises(ConnectionError, match="expected a tensor of 16 bytes, the peer sent 12"):
        receive_into(pair[1], torch.zeros(4))


def test_json_that_is_too_long_or_none_at_all(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(ValueError, match="longer"):
        send_json(pair[0], "x" * JSON_LIMIT)
    pair[0].sendall(struct.pack("!Q", 3) + b"{,}")
    with pytest.raises(ConnectionError, match="not JSON"):
        receive_json(pair[1])
    pair[0].sendall(struct.pack("!Q", JSON_LIMIT + 1))
    with pytest.raises(ConnectionError, match="limit"):
        receive_json(pair[1])
