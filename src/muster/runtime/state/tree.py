"""Values with tensors inside, as of `state_dict`, described in JSON and sent tensor by tensor.

Unlike a pickle, a description runs no code where it is read, and tensors are neither copied nor held
twice. Numbers, text, lists, tuples, dicts and the like come out as they went in.
"""

import socket
from collections import deque
from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import BadTrainingError

PlaceOf = Callable[[list[int], str], Any]
"""The device for a tensor, by its shape and the sender's kind of device."""


class UnsendableError(BadTrainingError):
    """A value that only its own process can hold."""


def describe(value: Any, tensors: list[Tensor], where: str = "") -> Any:
    """Return a value as JSON and append its tensors; `where`: its place, for errors."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)  # numpy's and enums are ints, too
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Tensor):
        return _describe_tensor(value, tensors, where)
    return _describe_container(value, tensors, where)


def make(described: Any, place_of: PlaceOf, tensors: list[Tensor]) -> Any:
    """Return the value of a description, with empty tensors; append those, to be filled in order."""
    if isinstance(described, list):
        return [make(each, place_of, tensors) for each in described]
    if not isinstance(described, dict):
        return described
    ((kind, inside),) = described.items()
    if kind == "tensor":
        shape, dtype, device = inside
        tensor = torch.empty(shape, dtype=_dtype(dtype), device=place_of(shape, device))
        tensors.append(tensor)
        return tensor
    return _MAKERS[kind](make(inside, place_of, tensors))


def copied(value: Any) -> Any:
    """Return a value with copies of its tensors, where they are."""
    return mapped_tensors(value, lambda tensor: tensor.detach().clone())


def mapped_tensors(value: Any, act: Callable[[Tensor], Any]) -> Any:
    """Return a value with each tensor replaced."""
    if isinstance(value, Tensor):
        return act(value)
    if isinstance(value, dict):
        return {key: mapped_tensors(each, act) for key, each in value.items()}
    if isinstance(value, list | tuple):
        parts = [mapped_tensors(each, act) for each in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def placed_like(value: Any, like: Any) -> Any:
    """Return a value with its tensors where those of another are that has the same places."""
    if isinstance(value, Tensor):
        return value.to(like.device) if isinstance(like, Tensor) else value
    if isinstance(value, dict):
        known = like if isinstance(like, dict) else {}
        return {key: placed_like(each, known.get(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        alike = like if isinstance(like, list | tuple) else ()
        parts = [placed_like(each, other) for each, other in zip_longest(value, alike)][: len(value)]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def send_tree(
    sock: socket.socket, value: Any, in_host: Callable[[Tensor], Tensor] = lambda tensor: tensor
) -> None:
    """Send a value; `in_host` brings a tensor of a device to where it can be sent from."""
    tensors: list[Tensor] = []
    send_json(sock, {"tree": describe(value, tensors)})
    for tensor in tensors:
        send_tensor(sock, in_host(tensor))


def receive_tree(sock: socket.socket) -> Any:
    """Receive a value into host memory."""
    tensors: list[Tensor] = []
    value = make(receive_json(sock)["tree"], lambda *_: "cpu", tensors)
    for tensor in tensors:
        receive_into(sock, tensor)
    return value


def _describe_tensor(tensor: Tensor, tensors: list[Tensor], where: str) -> Any:
    if tensor.layout != torch.strided:
        raise UnsendableError(f"{where} is a {tensor.layout} tensor: only dense ones can be sent")
    tensors.append(tensor.detach())
    return {"tensor": [list(tensor.shape), str(tensor.dtype), tensor.device.type]}


def _describe_container(value: Any, tensors: list[Tensor], where: str) -> Any:
    kind = next((kind for kind in _PARTS if isinstance(value, _PARTS[kind][0])), None)
    if kind is None or hasattr(value, "_fields"):  # a named tuple would come out as a plain one
        raise UnsendableError(
            f"{where} is a {type(value).__name__}: only tensors, numbers, text, lists, tuples and "
            "dicts of them can be sent to another worker"
        )
    if kind == "dict":
        named = [(describe(k, [], where), f"{where}[{k!r}]", v) for k, v in value.items()]
        return {"dict": [[key, describe(each, tensors, place)] for key, place, each in named]}
    parts = _PARTS[kind][1](value)
    if isinstance(parts, list):
        parts = [describe(each, tensors, f"{where}[{place}]") for place, each in enumerate(parts)]
    return parts if kind == "list" else {kind: parts}


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name.partition(".")[2])
    assert isinstance(found, torch.dtype)
    return found


_PARTS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "dict": (dict, dict),
    "list": (list, list),
    "tuple": (tuple, list),
    "set": ((set, frozenset), lambda value: sorted(value, key=repr)),
    "deque": (deque, lambda value: [list(value), value.maxlen]),
    "complex": (complex, lambda value: [value.real, value.imag]),
    "bytes": (bytes, bytes.hex),
    "dtype": (torch.dtype, str),
}
"""Kind -> its types, and what it is described by."""

_MAKERS: dict[str, Callable[[Any], Any]] = {
    "dict": dict,
    "tuple": tuple,
    "set": set,
    "deque": lambda inside: deque(inside[0], inside[1]),
    "complex": lambda inside: complex(*inside),
    "bytes": bytes.fromhex,
    "dtype": _dtype,
}
