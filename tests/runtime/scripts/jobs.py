"""Jobs of real processes: a shared fork server, a record of every report, a check of the result."""

import atexit
from functools import cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from muster.runtime.launch.history import History
from muster.runtime.launch.launcher import Launch, LaunchOutcome
from muster.runtime.launch.tasks import Tasks
from muster.runtime.members.peers import ask
from muster.wire.tasks.messages import Message, StepDone
from tests.runtime.scripts import tasks

TRAIN = Path(__file__).with_name("train.py")
LONG = 60.0
"""Seconds that a busy machine may take."""
CLOSE = 1e-5
"""Of single-process training: what the order of additions may do."""


@cache
def fork_server() -> Tasks:
    """One for all jobs of this process: it takes seconds to load."""
    tasks = Tasks()
    atexit.register(tasks.close)
    return tasks


class Record(History):
    """Keeps every step as each task reported it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[StepDone] = []

    def note(self, message: Message, now: float) -> None:
        """Take a message in."""
        if isinstance(message, StepDone):
            self.done.append(message)
        super().note(message, now)


class Job(Launch):
    """A training of `train.py`; its steps take --pace seconds until it is released."""

    def __init__(self, folder: Path, *args: str, script: Path = TRAIN, **options: Any) -> None:
        self.folder = folder
        out, go = str(folder / "out.pt"), str(folder / "go")
        options = {"deadline": 10.0, "threads": 1, "tasks": fork_server(), **options}
        super().__init__(
            script,
            ("--out", out, "--release", go, *args),
            logs=folder / "logs",
            **options,
        )
        self.record = Record()
        self.history = self.record

    def __enter__(self) -> Self:
        """Itself, with the first tasks on their way."""
        super().__enter__()
        return self

    def ahead(self, steps: int) -> int:
        """Wait until this many more steps are done; the last of them."""
        goal = max(0, self.history.step) + steps
        self.wait_step(goal, LONG)
        return goal

    def change(self, workers: int, servers: int = 0) -> None:
        """Resize and wait until the members say that it is done."""
        self.resize(workers, servers)
        self.wait_members(workers + servers, LONG)

    def address(self, task: str) -> str:
        """Where its peers reach it, as it told the coordinator."""
        assert self._coordinator is not None
        return self._coordinator.roster._tasks[task].address

    def ask(self, address: str, **request: Any) -> dict[str, Any]:
        """A question to a peer, with the job's token unless another is given."""
        return ask(address, request, str(request.pop("token", self._token)), LONG)

    def wait_exit(self, task: str) -> None:
        """Until its process is gone."""
        with self._tasks._changed:
            assert self._tasks._changed.wait_for(lambda: task not in self._tasks._living, LONG)

    def give_up(self, task: str) -> None:
        """Tell the coordinator that a task is lost with its node, whatever became of its process."""
        assert self._coordinator is not None
        self._coordinator.exited(task, "its node is lost")

    def release(self) -> None:
        """Let the rest run at full speed."""
        (self.folder / "go").touch()

    def finish(self) -> LaunchOutcome:
        """To the end, which must be a good one."""
        self.release()
        outcome = self.wait(LONG)
        assert outcome.code == 0, f"{outcome.error}\n{self.output()}"
        return outcome

    def end(self, model: str = "cnn") -> LaunchOutcome:
        """Stop it, check that the result is plain training's of as many steps."""
        self.stop("enough")
        outcome = self.finish()
        check_result(self.folder, model, outcome.history.step)
        return outcome

    def output(self) -> str:
        """What the tasks have printed."""
        files = sorted((self.folder / "logs").glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text()}" for file in files)

    def steps_of(self, formation: int) -> set[int]:
        """Steps that were done in a formation."""
        return self.look(lambda _: {d.step for d in self.record.done if d.formation == formation})

    def workers_of(self, step: int) -> set[str]:
        """Who had samples in a step that counts: the reports of its last formation."""
        reports = self.look(lambda _: [d for d in self.record.done if d.step == step])
        last = max(report.formation for report in reports)
        return {report.task for report in reports if report.formation == last and report.samples}


@cache
def expected(model: str, steps: int) -> dict[str, Tensor]:
    """The parameters of plain training."""
    return tasks.plain(model, steps)


def check_result(folder: Path, model: str, steps: int) -> None:
    """As plain training has it after this many steps, and every sample once in every epoch."""
    state, plain = torch.load(folder / "out.pt"), expected(model, steps)
    seen = tasks.times_seen(state)
    # This many times by then; once more for those of the epoch that was under way.
    whole, rest = divmod(steps, tasks.STEPS)
    assert (
        sorted(seen) == [whole] * (tasks.STEPS - rest) * tasks.BATCH + [whole + 1] * rest * tasks.BATCH
    )
    assert seen == tasks.times_seen(plain)
    assert tasks.worst(state, plain) < CLOSE
