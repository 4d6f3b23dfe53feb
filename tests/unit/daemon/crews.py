"""Tasks that speak as real ones do, for beliefs to listen to."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.daemon.learn import Beliefs
from muster.model.job import Job
from muster.perf.learnt.held import Held
from muster.wire.tasks.messages import Captured, Changed, Message, StepDone

TYPE = "cpu"


def shape(size: int = 100) -> dict[str, Any]:
    """Of a model with one tensor of this size."""
    return {"parameters": [{"name": "w", "count": size}], "operations": 1.0, "samples": 640}


@dataclass
class Crew:
    """The workers of a job, with a clock of their own."""

    beliefs: Beliefs
    job: Job
    now: float = 1_000.0
    step: int = 0
    formation: int = 0
    names: tuple[str, ...] = ()
    batch: int = 64
    heard: list[Message] = field(default_factory=list)
    _used: int = 0
    _began: float | None = None

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.heard.append(message)
            self.beliefs.hear(self.job, message, self.now)

    def start(self, nodes: Sequence[int] = (1,), *, step: int = 0, loading: float = 0.0) -> None:
        """The job is given devices, and all its workers are new; they run after `loading` s."""
        self.formation, self.step, self.names = 0, step, ()
        self._began = self.now
        self.now += loading
        self.resize(nodes, "start")

    def resize(self, nodes: Sequence[int], cause: str = "plan", pause: float = 0.5) -> None:
        """This many workers on each node from now on; the oldest stay."""
        while len(self.names) < sum(nodes):
            self.names += (f"worker-{self._used}",)
            self._used += 1
        before, self.names = self.names, self.names[: sum(nodes)]
        self.formation += 1
        change = (self.formation, self.step, self.names, pause, cause)
        self.say(*(Changed(name, *change) for name in before if name in self.names))
        self.beliefs.holds(self.job, Held(TYPE, tuple(nodes)), self.now, began=self._began)

    def capture(self, steps: int = 0, size: int = 100) -> None:
        self.say(Captured(self.names[0], shape(size), steps, self.batch))

    def train(self, steps: int, seconds: float, wait: float = 0.0) -> None:
        """This many steps, each of this many s, of which they wait for each other at the end."""
        for _ in range(steps):
            self.step += 1
            self.now += seconds
            self.say(*(self.done(name, seconds, wait) for name in self.names))

    def done(self, name: str, seconds: float, wait: float = 0.0) -> StepDone:
        share = self.batch // len(self.names)
        loss = 1.0 / self.step
        times = ((seconds - wait) / 2, (seconds - wait) / 2, wait, wait)
        return StepDone(name, self.formation, self.step, 0, share, loss, *times, seconds)

    def stop(self) -> None:
        """The job's devices are taken from it."""
        self.beliefs.holds(self.job, None, self.now)
