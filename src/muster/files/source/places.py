"""The places of a record that has no file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.files.errors import Loc


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a record, like those of a `Source`: the position of a top field is its line."""

    data: Mapping[str, Any]
    _order: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_order", {key: place for place, key in enumerate(self.data)})

    def known(self, loc: Loc) -> Loc:
        """Return the part of a place that exists."""
        at: Any = self.data
        for depth, step in enumerate(loc):
            there = isinstance(at, dict) and step in at
            if not there and not (isinstance(at, list) and isinstance(step, int) and step < len(at)):
                return loc[:depth]
            at = at[step]
        return loc

    def line(self, loc: Loc) -> int:
        """Return the position of its top field."""
        return self._order.get(str(loc[0]), len(self._order)) if loc else 0
