"""The questions that callers have asked: how far each is, and its answer."""

import asyncio
import contextlib
from dataclasses import dataclass

import structlog

from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.foresight.messages import ForesightError
from muster.daemon.whatif.questions import HowFar, PlayBothSides
from muster.foresight.whatif.answer import WhatIfAnswer
from muster.foresight.whatif.ask import WhatIfQuestion

log = structlog.get_logger()

KEPT = 64
"""Answers kept to be read."""
LOOK = 0.5
"""s between two looks at how far a question is."""
PATIENCE = 1_200.0
"""s after which a question is given up."""


@dataclass(slots=True)
class OpenQuestion:
    """A question of a user."""

    user: str
    of: int
    done: int = 0
    answer: WhatIfAnswer | None = None
    problem: str = ""
    failed: bool = False
    """Whether the problem is that it could not be played, rather than the question."""
    task: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is still being answered."""
        return self.answer is None and not self.problem


class OpenQuestions:
    """By id; the oldest that are answered are forgotten."""

    def __init__(self) -> None:
        self._asked: dict[str, OpenQuestion] = {}

    def of(self, user: str) -> OpenQuestion | None:
        """Return the question of a user that is being answered."""
        return next((q for q in self._asked.values() if q.user == user and q.is_open), None)

    def get(self, key: str) -> OpenQuestion | None:
        """Return a question by its id."""
        return self._asked.get(key)

    def ask(self, key: str, user: str, asked: WhatIfQuestion, foresight: LiveForesight) -> OpenQuestion:
        """Begin to answer a question."""
        for old in [each for each, q in self._asked.items() if not q.is_open][:-KEPT]:
            del self._asked[old]
        found = self._asked[key] = OpenQuestion(user, asked.worlds)
        loop = asyncio.get_running_loop()
        found.task = loop.create_task(_answer(found, key, asked, foresight), name=f"whatif-{key}")
        return found


async def _answer(
    question: OpenQuestion, key: str, asked: WhatIfQuestion, foresight: LiveForesight
) -> None:
    looking = asyncio.create_task(_look(question, key, foresight))
    try:
        found = await foresight.ask(PlayBothSides(key, asked), within=PATIENCE, yields=True)
    except ForesightError as error:
        log.warning("a what-if could not be played", id=key, problem=str(error))
        # The last line of a traceback says what it was; the rest is for the log.
        question.problem = f"cannot be played: {str(error).strip().splitlines()[-1]}"
        question.failed = True
    except Exception as error:  # else it would stay open, and its user could ask nothing else
        log.exception("a what-if failed", id=key)
        question.problem = f"cannot be played: {type(error).__name__}: {error} (see the daemon's log)"
        question.failed = True
    else:
        if isinstance(found, str):
            question.problem = found
        else:
            question.answer, question.done = found, question.of
    finally:
        looking.cancel()


async def _look(question: OpenQuestion, key: str, foresight: LiveForesight) -> None:
    """Follow how far it is; a process that is busy with something else tells later."""
    while True:
        await asyncio.sleep(LOOK)
        with contextlib.suppress(ForesightError):
            question.done = max(question.done, await foresight.ask(HowFar(key), within=PATIENCE))
