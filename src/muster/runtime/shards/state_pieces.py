"""The optimiser's state in pieces: cut, joined, assembled, sent and received.

Only elementwise optimisers have state that can be cut: "step" belongs to a whole parameter, everything
else has a number per element.
"""

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import BadTrainingError, MusterError

ELEMENTWISE = tuple(
    getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")
)
SHARED = "step"
"""The only state of these optimisers that is one number per parameter."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The optimiser's state of elements [begin, end) of a parameter; empty before the first step."""

    parameter: int
    """Its index in the model."""
    begin: int
    end: int
    state: dict[str, Tensor]
    """Flat tensors of end - begin elements; "step" has no dimension."""


def check_elementwise(optimizer: Any) -> None:
    """Raise if the optimiser is not known to work on slices of parameters."""
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise BadTrainingError(
            f"{type(optimizer).__name__} is not known to update each element by itself ({names} do): "
            'use owners="reduce"'
        )


def cut(piece: Piece, begin: int, end: int, copy: bool = True) -> Piece | None:
    """Return the part of a piece within [begin, end); a view unless `copy`."""
    begin, end = max(begin, piece.begin), min(end, piece.end)
    if begin >= end:
        return None
    first, last = begin - piece.begin, end - piece.begin
    views = {n: value if n == SHARED else value[first:last] for n, value in piece.state.items()}
    state = {name: value.clone() for name, value in views.items()} if copy else views
    return Piece(piece.parameter, begin, end, state)


def cuts(pieces: Iterable[Piece], begin: int, end: int, copy: bool = True) -> list[Piece]:
    """Return the parts of one parameter's pieces within [begin, end), in order."""
    found = [part for piece in pieces if (part := cut(piece, begin, end, copy)) is not None]
    return sorted(found, key=lambda piece: piece.begin)


def gaps(pieces: Iterable[Piece], begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of [begin, end) that ordered pieces leave out."""
    found = []
    for piece in pieces:
        if piece.begin > begin:
            found.append((begin, piece.begin))
        begin = max(begin, piece.end)
    return [*found, (begin, end)] if begin < end else found


def joined(pieces: Sequence[Piece], parameter: int, begin: int, end: int) -> Piece:
    """Join ordered parts to one piece of [begin, end); without state if there are none."""
    if not pieces:
        return Piece(parameter, begin, end, {})
    steps = {float(piece.state[SHARED]) for piece in pieces if SHARED in piece.state}
    names = {frozenset(piece.state) for piece in pieces}
    total = sum(piece.end - piece.begin for piece in pieces)
    if gaps(pieces, begin, end) or total != end - begin or len(steps) > 1 or len(names) > 1:
        raise MusterError(
            f"the optimiser's state of parameter {parameter}, elements {begin} to {end}, does not fit "
            "together: parts are missing, duplicate or of different steps"
        )
    first = pieces[0].state
    return Piece(parameter, begin, end, {name: _whole(pieces, name) for name in first})


def by_parameter(pieces: Iterable[Piece]) -> dict[int, list[Piece]]:
    """Group pieces by parameter, in order."""
    found: dict[int, list[Piece]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.begin):
        found.setdefault(piece.parameter, []).append(piece)
    return found


def pieces_of(optimizer: Any, parameters: Sequence[Any], state_dict: dict[str, Any]) -> list[Piece]:
    """Split a whole optimiser's state into one piece per parameter."""
    index = {id(parameter): number for number, parameter in enumerate(parameters)}
    places = _places(optimizer)
    found = []
    for place, state in state_dict["state"].items():
        parameter = places[place]
        parts = {name: _flat(name, value) for name, value in state.items() if value is not None}
        found.append(Piece(index[id(parameter)], 0, parameter.numel(), parts))
    return found


def assemble(optimizer: Any, parameters: Sequence[Any], pieces: Iterable[Piece]) -> dict[str, Any]:
    """Assemble the optimiser's `state_dict` from all pieces."""
    found = by_parameter(pieces)
    index = {id(parameter): number for number, parameter in enumerate(parameters)}
    whole: dict[str, Any] = optimizer.state_dict()
    whole["state"] = {}
    for place, parameter in enumerate(_places(optimizer)):
        number = index.get(id(parameter), -1)
        piece = joined(found.get(number, []), number, 0, parameter.numel())
        if piece.state:
            whole["state"][place] = {
                name: value.clone() if name == SHARED else value.view(parameter.shape)
                for name, value in piece.state.items()
            }
    return whole


def send_pieces(sock: socket.socket, pieces: Sequence[Piece]) -> None:
    """Send pieces: their description, then their tensors."""
    send_json(
        sock,
        [
            [p.parameter, p.begin, p.end, [[n, str(v.dtype)[6:]] for n, v in p.state.items()]]
            for p in pieces
        ],
    )
    for piece in pieces:
        for value in piece.state.values():
            send_tensor(sock, value)


def receive_pieces(sock: socket.socket) -> list[Piece]:
    """Receive pieces."""
    found = []
    for parameter, begin, end, parts in receive_json(sock):
        state = {
            name: torch.empty(() if name == SHARED else (end - begin,), dtype=getattr(torch, kind))
            for name, kind in parts
        }
        found.append(Piece(parameter, begin, end, state))
    for piece in found:
        for value in piece.state.values():
            receive_into(sock, value)
    return found


def _whole(pieces: Sequence[Piece], name: str) -> Tensor:
    """Join what pieces have of a name; received ones lie in host memory, one's own on the device."""
    first = pieces[0].state[name]
    if name == SHARED or len(pieces) == 1:
        return first
    return torch.cat([piece.state[name].to(first.device) for piece in pieces])


def _flat(name: str, value: Any) -> Tensor:
    """Flatten state in host memory; "step" may be a plain number in old checkpoints."""
    here = value.detach().cpu() if isinstance(value, Tensor) else torch.tensor(float(value))
    return here if name == SHARED else here.reshape(-1)


def _places(optimizer: Any) -> list[Any]:
    """Return the parameters as `state_dict` numbers them."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
