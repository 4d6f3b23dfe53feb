"""What is asked of the process that plays futures."""

from dataclasses import dataclass

from muster.foresight.forecaster import Forecaster
from muster.foresight.play import Present
from muster.foresight.whatif.answer import WhatIfAnswer
from muster.foresight.whatif.ask import WhatIfQuestion, what_if
from muster.foresight.whatif.changes import ChangeError

_played: dict[str, int] = {}
"""Worlds played of the questions that this process is answering, by id."""


@dataclass(frozen=True, slots=True)
class PlayBothSides:
    """The question itself; others are answered between two worlds."""

    id: str
    asked: WhatIfQuestion

    def __call__(self, present: Present, forecaster: Forecaster) -> WhatIfAnswer | str:
        """Return the answer, or why the changes cannot be made."""

        def tell(done: int, of: int) -> None:
            _played[self.id] = done
            if forecaster.meanwhile is not None:
                forecaster.meanwhile()

        try:
            return what_if(present, forecaster.past, self.asked, tell)
        except ChangeError as error:
            return str(error)
        finally:
            _played.pop(self.id, None)


@dataclass(frozen=True, slots=True)
class HowFar:
    """How many worlds of a question have been played."""

    id: str

    def __call__(self, present: Present, forecaster: Forecaster) -> int:
        """Return 0 for one that has not begun or is over."""
        return _played.get(self.id, 0)
