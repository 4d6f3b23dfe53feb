"""Which places a record really has, and in which order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.files.errors import Loc


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a record that no file holds: what is given first counts as the first line."""

    data: Mapping[str, Any]
    _order: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_order", {key: place for place, key in enumerate(self.data)})

    def known(self, loc: Loc) -> Loc:
        """The part of a place that is really there."""
        at: Any = self.data
        for depth, step in enumerate(loc):
            there = isinstance(at, dict) and step in at
            if not there and not (isinstance(at, list) and isinstance(step, int) and step < len(at)):
                return loc[:depth]
            at = at[step]
        return loc

    def line(self, loc: Loc) -> int:
        """The position of its field at the top."""
        return self._order.get(str(loc[0]), len(self._order)) if loc else 0
