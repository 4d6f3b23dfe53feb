"""A task that trains nothing: it speaks with its coordinator as a real one does.

    python pretended_task.py FOLDER [STEPS]

It ends when it has done this many steps (default: never), or when FOLDER holds a file "finish"; after
that it waits while there is a file "after-hang", and fails if there is one "after-fail".
"""

import os
import sys
import threading
import time
from pathlib import Path

from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import from_environment
from muster.wire.tasks.messages import (
    Changed,
    Failed,
    MemberPlan,
    Message,
    Ready,
    StepDone,
    Stop,
    TrainingEnded,
)

STEP_S = 0.005
"""Seconds of a step that does nothing."""


class Pretended:
    """One member that goes through its life."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.settings = from_environment(os.environ)
        self.name, self.folder, self.steps = self.settings.task, folder, steps
        self.news = threading.Condition()
        self.plan: MemberPlan | None = None
        self.stopped = False
        self.members: tuple[str, ...] = ()
        self.formation = 0
        self.link = CoordinatorLink(self.settings, "127.0.0.1:1", self.note)
        (folder / self.name).write_text(str(os.getpid()))

    def note(self, message: Message) -> None:
        with self.news:
            if isinstance(message, MemberPlan):
                self.plan = message
            self.stopped = self.stopped or isinstance(message, Stop)
            self.news.notify_all()

    def run(self) -> None:
        self.link.start()
        self.link.send(Ready(self.name))
        with self.news:
            self.news.wait_for(lambda: self.plan is not None or self.stopped)
        step = 0
        while not self.stopped:
            if self.take_plan(step) or self.is_finished(step):
                break
            self.drop_dead(step)
            if (self.folder / f"fail-{self.name}").exists():
                self.link.send(Failed(self.name, "ValueError: the loss is a mean", "a trace"))
                self.link.flush(10)
                sys.exit(1)
            time.sleep(STEP_S)
            step += 1
            self.link.send(StepDone(self.name, self.formation, step, 0, 4, 1 / step, 0, 0, 0, 0))
        if self.stopped:
            self.end(step, "left")

    def take_plan(self, step: int) -> bool:
        """Whether the plan is to leave."""
        with self.news:
            plan, self.plan = self.plan, None
        if plan is None or plan.after != self.formation or plan.formation <= self.formation:
            return False
        names = tuple(member.task for member in plan.members)
        if self.name not in names:
            self.end(step, "left")
            return True
        self.change(plan.formation, names, "start" if plan.after == 0 else "plan", step)
        return False

    def drop_dead(self, step: int) -> None:
        lost = tuple(name for name in self.members if not self.lives(name))
        if lost:
            names = tuple(name for name in self.members if name not in lost)
            self.change(self.formation + 1, names, "failure", step, lost)

    def change(
        self, formation: int, names: tuple[str, ...], cause: str, step: int, lost: tuple[str, ...] = ()
    ) -> None:
        self.formation = self.link.formation = formation
        self.members = names
        self.link.send(Changed(self.name, formation, step, names, 0.25, cause, lost))

    def lives(self, name: str) -> bool:
        try:
            os.kill(int((self.folder / name).read_text()), 0)
        except ProcessLookupError:
            return False
        return True

    def is_finished(self, step: int) -> bool:
        if step < self.steps and not (self.folder / "finish").exists():
            return False
        self.end(step, "finished")
        return True

    def end(self, step: int, how: str) -> None:
        self.link.send(TrainingEnded(self.name, self.formation, step, how))
        self.link.flush(10)
        self.link.close()


if __name__ == "__main__":
    print("hello from", os.environ["MUSTER_TASK"])
    given = Path(sys.argv[1])
    Pretended(given, int(sys.argv[2]) if len(sys.argv) > 2 else 10**9).run()
    while (given / "after-hang").exists():
        time.sleep(STEP_S)
    if (given / "after-fail").exists():
        sys.exit(3)
