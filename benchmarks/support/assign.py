"""Assign tensors to servers: Optimus' rule and water-filling.

Sources: Peng et al., Optimus (seed 004), section 5.3 and its public code; the notes' rule for pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.model.profile import Tensor

SMALL = 0.01
"""Part of a server's even share: blocks up to this size are dealt by requests, not bytes (Optimus)."""
PIECE = 4_000_000
"""Bytes above which water-filling cuts a tensor."""


@dataclass(slots=True)
class ServerLoad:
    """The tensors of one server."""

    bytes: float = 0.0
    requests: int = 0
    pieces: dict[str, float] = field(default_factory=dict)

    def take(self, name: str, size: float) -> None:
        """Add a piece of a tensor; each piece is one request a step."""
        self.bytes += size
        self.requests += 1
        self.pieces[name] = self.pieces.get(name, 0.0) + size


def optimus(tensors: Sequence[Tensor], servers: int) -> list[ServerLoad]:
    """Put small blocks on the server with fewest requests, fit middle ones, slice large ones."""
    loads = [ServerLoad() for _ in range(servers)]
    even = sum(tensor.bytes for tensor in tensors) / servers
    for tensor in sorted(tensors, key=lambda tensor: -tensor.bytes):
        if tensor.bytes <= SMALL * even:
            min(loads, key=lambda load: (load.requests, load.bytes)).take(tensor.name, tensor.bytes)
        elif tensor.bytes <= even:
            _best_fit(loads, even, tensor.bytes).take(tensor.name, tensor.bytes)
        else:
            _slice(loads, even, tensor)
    return loads


def _best_fit(loads: list[ServerLoad], even: float, size: float) -> ServerLoad:
    """Return the server with the least room that is enough, else the emptiest."""
    enough = [load for load in loads if even - load.bytes >= size]
    if enough:
        return min(enough, key=lambda load: even - load.bytes)
    return min(loads, key=lambda load: load.bytes)


def _slice(loads: list[ServerLoad], even: float, tensor: Tensor) -> None:
    left = float(tensor.bytes)
    while left > 1e-6 * even:
        emptiest = min(loads, key=lambda load: load.bytes)
        room = even - emptiest.bytes
        if left < room or room <= 1e-6 * even:
            _best_fit(loads, even, left).take(tensor.name, left)
            return
        emptiest.take(tensor.name, room)
        left -= room


def by_shares(tensors: Sequence[Tensor], shares: Sequence[float]) -> list[ServerLoad]:
    """Put pieces of at most 4 MB, the largest first, on the server farthest below its share."""
    total = sum(tensor.bytes for tensor in tensors)
    loads = [ServerLoad() for _ in shares]
    wanted = [share * total for share in shares]
    for name, size in sorted(_pieces(tensors), key=lambda piece: -piece[1]):
        gaps = [aim - load.bytes for aim, load in zip(wanted, loads, strict=True)]
        loads[gaps.index(max(gaps))].take(name, size)
    return loads


def _pieces(tensors: Sequence[Tensor]) -> list[tuple[str, float]]:
    found = []
    for tensor in tensors:
        count = -(-tensor.bytes // PIECE)
        found += [(tensor.name, tensor.bytes / count)] * count
    return found


def shares_of(loads: Sequence[ServerLoad]) -> tuple[float, ...]:
    """Return the share of the parameters on each server."""
    total = sum(load.bytes for load in loads)
    return tuple(load.bytes / total for load in loads)
