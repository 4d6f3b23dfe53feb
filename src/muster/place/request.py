"""The request to a placement strategy."""

from dataclasses import dataclass
from typing import Protocol

from muster.model.placement import Placement
from muster.model.plan import Plan
from muster.model.topology import Level
from muster.place.board import Board


@dataclass(frozen=True, slots=True)
class Request:
    """A plan, the configuration sets its devices may be on, and the widest level it may span."""

    plan: Plan
    kinds: tuple[str, ...]
    widest: Level = Level.CLUSTER


class Strategy(Protocol):
    """Places the whole request or nothing; the board stays unchanged."""

    def __call__(self, board: Board, request: Request) -> Placement | None: ...
