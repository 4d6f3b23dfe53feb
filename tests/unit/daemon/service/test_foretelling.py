"""The future with a job that is not submitted yet."""

import asyncio
from typing import Any

from muster.daemon.foresight.messages import ForesightError
from muster.daemon.service.submitting.foretelling import PATIENCE, played
from muster.wire.api.records import Forecast
from tests.builders import job

FOUND = Forecast(False, "", "no device is free", None, None, "1 worker")


class Busy:
    """A foresight that has no time."""

    is_warm, worlds, within = True, 4, 0.0

    async def ask(self, question: object, *, within: float) -> Any:
        self.within = within
        raise ForesightError("not answered")


def test_a_future_that_there_was_no_time_to_play_is_told_as_such() -> None:
    busy: Any = Busy()
    found = asyncio.run(played(busy, FOUND, job("next"), None))
    assert found.late and found.start is None
    assert busy.within == PATIENCE == 2.0, "as docs/how-to/forecasts.md says"
