"""The training of `adam.py`, where some tasks do not hear that all are ready: --unsure vote=7@worker-1.

What they missed has happened, as when a member dies at the end of a collective: some get its result and
some an error.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from muster.runtime.errors import BrokenGroupError
from muster.runtime.shards.owned_state import OwnedState
from tests.runtime.scripts import adam

PLACES = {"vote": "vote", "entry": "_await_all", "end": "gather"}


def fail_once(real: Callable[..., None], step: int) -> Callable[..., None]:
    """Do it, and say that it failed: the first time from a step on."""
    failed = False

    def unsure(self: OwnedState, *args: Any) -> None:
        nonlocal failed
        real(self, *args)
        if not failed and self._state.position.step >= step:
            failed = True
            raise BrokenGroupError("somebody is gone")

    return unsure


def main() -> None:
    """Make this task unsure where it is told to be, and train."""
    at = sys.argv.index("--unsure")
    where, _, tasks = sys.argv[at + 1].partition("@")
    place, step = where.split("=")
    del sys.argv[at : at + 2]
    if os.environ["MUSTER_TASK"] in tasks.split(","):
        name = PLACES[place]
        setattr(OwnedState, name, fail_once(getattr(OwnedState, name), int(step)))
    adam.main()


if __name__ == "__main__":
    main()
