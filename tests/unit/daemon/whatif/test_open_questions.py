"""Questions that cannot be played."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.foresight.messages import ForesightError
from muster.daemon.service.protocol import Caller, UnavailableError
from muster.daemon.whatif.open_questions import OpenQuestions
from muster.daemon.whatif.whatif_service import WhatIfService
from muster.foresight.whatif.ask import WhatIfQuestion
from muster.foresight.whatif.changes import PolicyChange

TRACEBACK = "Traceback (most recent call last):\n  File x\nMemoryError: too many jobs\n"


@dataclass
class Failing:
    """What plays futures, and fails at each."""

    error: Exception

    async def ask(self, question: object, **_: Any) -> object:
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ForesightError(TRACEBACK), r"^cannot be played: MemoryError: too many jobs$"),
        (KeyError("pool"), r"^cannot be played: KeyError: 'pool' \(see the daemon's log\)$"),
    ],
)
def test_a_failure_to_play_is_the_daemons_and_told_in_a_line(error: Exception, told: str) -> None:
    async def asked() -> None:
        questions, foresight = OpenQuestions(), cast("LiveForesight", Failing(error))
        found = questions.ask("a1", "ada", WhatIfQuestion((PolicyChange("srtf"),)), foresight)
        assert found.task is not None
        await found.task
        service = WhatIfService.__new__(WhatIfService)
        service._asked = questions
        with pytest.raises(UnavailableError, match=told):
            await service.what_if(Caller("ada"), "a1")
        assert questions.of("ada") is None, "another may be asked"

    asyncio.run(asked())
