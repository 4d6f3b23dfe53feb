"""A day on a cluster: random operations of users and administrators, and what must hold meanwhile.

Three kinds of work, each of which writes down every step it completes:

  count     one process, one device, a number saved after every tick
  pair      the same as a gang of two that restarts whole
  training  elastic, on Muster's runtime, with a checkpoint every few steps
"""

import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from muster.client.errors import ClientError
from muster.wire.api.records import LIVE, JobRecord
from tests.live.daemons import LONG, Daemon, until
from tests.live.idle import IdleWatch

TRAIN = Path(__file__).with_name("scripts") / "day_train.py"
EVERY = 10
"""Steps between two checkpoints of a training."""
MOST_LIVE = 6
"""Jobs at a time: a machine of two cores has to carry them all."""
MOST_LOSSES = 4
"""Of a job: each doubles the delay before it starts again."""
POOLS = ("default", "lend")
COUNT = """
n=$(cat saved.$RANK 2>/dev/null || echo 0)
until test -e go && test $n -ge {ticks}; do
  n=$((n + 1)); echo $n >> ticks.$RANK; echo $n > .saved.$RANK; mv .saved.$RANK saved.$RANK; sleep 0.1
done
"""
TICKS = 5


@dataclass
class Work:
    """A job of the day, and where it writes its steps."""

    name: str
    kind: str
    folder: Path
    ranks: int = 1
    stopped: bool = False
    """By its user."""

    def check(self) -> None:
        """No step that was completed is lost beyond the last checkpoint."""
        if self.kind == "training":
            self._check_training()
        else:
            for rank in range(self.ranks):
                self._check_count(rank)

    def _check_count(self, rank: int) -> None:
        path = self.folder / f"ticks.{rank}"
        done = [int(line) for line in path.read_text(encoding="ascii").split()] if path.exists() else []
        for before, after in pairwise(done):
            # The tick whose record was cut off by a kill may be done again; none is left out.
            assert before <= after <= before + 1, f"{self.name}: tick {after} after {before}"

    def _check_training(self) -> None:
        best = -1
        first: set[int] = set()
        for pid, step in self.steps():
            if pid not in first:
                first.add(pid)
                # A checkpoint is left out while the one before it is written, or the disk is full.
                assert step >= best - 2 * EVERY, f"{self.name}: from step {best} back to {step}"
            best = max(best, step)

    def steps(self) -> list[tuple[int, int]]:
        """Process and step of each line; the last may be half written."""
        path = self.folder / "steps.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [(line["pid"], line["step"]) for line in lines]


@dataclass
class Day:
    """Applies random operations to a daemon, one after another, and watches its devices."""

    daemon: Daemon
    seed: int
    fill: Callable[[], contextlib.AbstractContextManager[object]]
    """Fills the daemon's disk while the context is open."""
    works: list[Work] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """The operations so far, for whoever looks into a failure."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._watch = IdleWatch(self.daemon)
        self._operations: dict[Callable[[], str], int] = {
            self.submit: 8,
            self.stop_one: 2,
            self.resize: 4,
            self.drain: 3,
            self.resume: 4,
            self.change_pool: 2,
            self.change_priority: 2,
            self.requeue: 1,
            self.hold_for_a_while: 1,
            self.kill_worker: 4,
            self.kill_daemon: 2,
            self.fill_disk: 1,
        }

    def run(self, operations: int) -> None:
        """Apply this many operations; each is followed by a cycle before the next one comes."""
        choices, weights = list(self._operations), list(self._operations.values())
        self.submit()
        try:
            while len(self.done) < operations:
                (operation,) = self._random.choices(choices, weights)
                self._apply(operation)
        except Exception as error:
            error.add_note(self.story())
            raise

    def _apply(self, operation: Callable[[], str]) -> None:
        what = operation()
        if what:
            self.done.append(what)
            self._watch.look()
            self._await_cycle()
            self._watch.look()

    def finish(self) -> None:
        """Let everything go on to its end, and look at how it went."""
        for node in self.daemon.client.nodes():
            self.daemon.client.resume(node.name)
        for work in self.works:
            (work.folder / "go").touch()
        for work in self.works:
            record = self.daemon.client.handle(work.name).wait(LONG)
            wanted = {"cancelled", "succeeded"} if work.stopped else {"succeeded"}
            assert record.status in wanted, f"{work.name}: {record.error}\n{self.story()}"
            work.check()

    def story(self) -> str:
        """The operations so far."""
        return "\n".join(f"{number}. {what}" for number, what in enumerate(self.done, 1))

    # --- operations; an empty answer: nothing to do it to ---

    def submit(self) -> str:
        """A user submits a job of any kind."""
        if len(self._live()) >= MOST_LIVE:
            return ""
        kind = self._random.choice(["count", "count", "pair", "training"])
        name = f"{kind}-{len(self.works)}"
        work = Work(name, kind, self.daemon.work(name), ranks=2 if kind == "pair" else 1)
        fields: dict[str, object] = {"pool": self._random.choice(POOLS), "grace": "5s"}
        if kind == "training":
            line = [sys.executable, str(TRAIN), "--every", str(EVERY)]
            fields |= {"devices": self._random.choice(["1..2", "1..4", "2..3"])}
        else:
            line = ["sh", "-c", COUNT.format(ticks=TICKS)]
            fields |= {"devices": work.ranks, "resumes": True}
        self.daemon.submit(*line, name=name, **fields)
        self.works.append(work)
        return f"submit {name} {fields}"

    def stop_one(self) -> str:
        """A user stops a job."""
        record = self._any(self._live())
        if record is None or len(self._live()) < 3:
            return ""
        self.daemon.client.stop(record.name)
        self._work(record).stopped = True
        return f"stop {record.name}"

    def resize(self) -> str:
        """A user asks for another number of workers of a training."""
        record = self._any([job for job in self._live() if job.name.startswith("training")])
        if record is None:
            return ""
        least = self._random.randint(1, 3)
        most = self._random.randint(least, 4)
        self.daemon.client.resize(record.name, least, most)
        return f"resize {record.name} {least}..{most}"

    def drain(self) -> str:
        """An administrator drains a node; never the last."""
        up = [node for node in self.daemon.client.nodes() if node.state == "up"]
        if len(up) < 2:
            return ""
        node = self._random.choice(up).name
        self.daemon.client.drain(node)
        return f"drain {node}"

    def resume(self) -> str:
        """And takes one back."""
        away = [node for node in self.daemon.client.nodes() if node.state != "up"]
        if not away:
            return ""
        node = self._random.choice(away).name
        self.daemon.client.resume(node)
        return f"resume {node}"

    def change_pool(self) -> str:
        """An administrator changes what a pool is entitled to."""
        reserved = self._random.choice([0, 1, 2, 3])
        rest = self.daemon.devices - reserved
        for pool, count in (("lend", 0), ("default", rest), ("lend", reserved)):
            self.daemon.client.set_pool(pool, quotas={"cpu": {"reservation": count}})
        return f"pool lend reserves {reserved}"

    def change_priority(self) -> str:
        """A user makes a job more or less urgent."""
        record = self._any(self._live())
        if record is None:
            return ""
        priority = self._random.choice([-5, 0, 5])
        self.daemon.client.set_priority(record.name, priority)
        return f"priority {record.name} {priority}"

    def requeue(self) -> str:
        """A user sends a running job back to the queue."""
        record = self._any([job for job in self._live() if job.status == "running"])
        if record is None:
            return ""
        self.daemon.client.requeue(record.name)
        return f"requeue {record.name}"

    def hold_for_a_while(self) -> str:
        """A user holds a job, and releases it a cycle later."""
        record = self._any(self._live())
        if record is None:
            return ""
        self.daemon.client.hold(record.name)
        self._await_cycle()
        self.daemon.client.release(record.name)
        return f"hold and release {record.name}"

    def kill_worker(self) -> str:
        """The machine takes a task's process."""
        robust = [job for job in self._live() if job.status == "running" and job.losses < MOST_LOSSES]
        record = self._any(robust)
        if record is None:
            return ""
        tasks = [task for task in self.daemon.detail(record.name).tasks if task.status == "running"]
        mine = f"MUSTER_JOB={record.name}\0"
        task = self._random.choice(tasks) if tasks else None
        if task is None:
            return ""
        for pid in _processes_of(mine, f"MUSTER_TASK={task.task}\0"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"kill {record.name} {task.task}"

    def kill_daemon(self) -> str:
        """kill -9 of the daemon, and the next one."""
        self.daemon.kill()
        self.daemon.start()
        self._watch.restart()
        return "kill the daemon"

    def fill_disk(self) -> str:
        """The daemon's disk is full for a while: a submission is taken or refused, a worker dies."""
        with self.fill():
            taken = self._try_to_submit()
            killed = self.kill_worker()
        until(lambda: self.daemon.client.status().trouble == "", "the daemon writes again")
        self._watch.restart()
        return f"fill the disk, {taken}, {killed}"

    # --- ---

    def _try_to_submit(self) -> str:
        before = len(self.works)
        try:
            return self.submit()
        except ClientError as error:
            assert error.status == 503, error
            assert len(self.works) == before
            return "a submission is refused"

    def _await_cycle(self) -> None:
        before = self.daemon.client.status().cycles
        until(lambda: self.daemon.client.status().cycles > before, "a cycle")

    def _live(self) -> list[JobRecord]:
        return list(self.daemon.client.jobs(statuses=LIVE))

    def _any(self, among: list[JobRecord]) -> JobRecord | None:
        """One of them that nobody has stopped."""
        left = [job for job in among if not self._work(job).stopped]
        return self._random.choice(left) if left else None

    def _work(self, record: JobRecord) -> Work:
        return next(work for work in self.works if work.name == record.name)


def _processes_of(*marks: str) -> list[int]:
    """Processes with all of these in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
                if all(mark.encode() in environ for mark in marks):
                    found.append(int(entry.name))
    return found
