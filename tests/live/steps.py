"""What a training of `scripts/train.py` has written down, and what must be true of it."""

import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from muster.wire.api.records import LIVE
from tests.live.daemons import LONG, Daemon, until

TRAIN = Path(__file__).with_name("scripts") / "train.py"
STEPS, LAST = 360, 0.55
"""Of each training, and the part of them that is slow: it lasts six minutes on two workers, longer than
a busy machine takes to restart an engine."""
CLOSE = 1e-4
"""What the order of additions may do."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step as one worker did it."""

    task: str
    pid: int
    step: int
    """Steps done before it."""
    loss: float | None
    """Of the step before it, where this process did that one as well."""
    primary: bool


class Training:
    """A job that trains, and its record."""

    def __init__(self, daemon: Daemon, name: str, *options: str, **fields: Any) -> None:
        """Submit it, with these options of the script."""
        self.daemon, self.name = daemon, name
        self.folder = daemon.work(name)
        self._read, self._steps = 0, list[Step]()
        words = (str(TRAIN), "--steps", str(STEPS), "--last", str(LAST), *options)
        daemon.submit(sys.executable, *words, name=name, **fields)

    def steps(self) -> list[Step]:
        """What was done so far, as it was written down; the last line may be half written."""
        path = self.folder / "steps.jsonl"
        if path.exists():
            with path.open("rb") as record:
                record.seek(self._read)
                whole = record.read().rpartition(b"\n")
            self._read += len(whole[0] + whole[1])
            self._steps += [Step(**json.loads(line)) for line in whole[0].splitlines()]
        return self._steps

    def last(self) -> int:
        """The last step that anybody has done."""
        return max((each.step for each in self.steps()), default=0)

    def ahead(self, steps: int = 5) -> int:
        """Wait until this many more steps are done; the last one then."""
        goal = self.last() + steps
        until(lambda: self.last() >= goal, f"{self.name} does step {goal}")
        return self.last()

    def pids(self) -> dict[str, list[int]]:
        """The processes that each task has had."""
        found: dict[str, list[int]] = {}
        for each in self.steps():
            known = found.setdefault(each.task, [])
            if each.pid not in known:
                known.append(each.pid)
        return found

    def await_workers(self, count: int) -> None:
        """Until this many workers train and all that was decided is done."""

        def reached() -> bool:
            record = self.daemon.record(self.name)
            assert record.status in LIVE, record.error
            return record.status == "running" and record.workers == count

        until(reached, f"{self.name} trains with {count} workers")

    def release(self) -> None:
        """Let the rest go at full speed."""
        (self.folder / "go").touch()

    def finish(self) -> None:
        """To the end, which must be a good one, with no step lost, done twice or begun again."""
        self.release()
        record = self.daemon.client.handle(self.name).wait(LONG)
        assert record.status == "succeeded", record.error
        done = self.steps()
        assert {each.step for each in done} == set(range(STEPS))
        assert len({(each.pid, each.step) for each in done}) == len(done), "a step was done twice"
        losses: dict[int, float] = {}
        for each in done:
            if each.loss is not None:
                assert abs(losses.setdefault(each.step, each.loss) - each.loss) < CLOSE, "not one model"
        fallen = [losses[step] for step in sorted(losses)]
        assert all(after < before for before, after in pairwise(fallen))
