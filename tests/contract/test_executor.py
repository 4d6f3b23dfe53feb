"""What every executor owes its driver. A new executor is added to `RIGS` and passes unchanged."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muster.executors.local import LocalExecutor
from muster.model.job import Role
from muster.model.task import TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Executor, Report
from muster.wire.visits.frames import Frames, Received, StreamNote
from muster.wire.visits.visits import Visit
from tests.contract.fake_executor import FakeExecutor, Machine, RefusingExecutor
from tests.contract.fleet_rig import FleetGround

LIMIT = 60.0
"""Seconds after which a report that has not come never will."""

NODE = "n0"
"""Where the tasks run."""

SCRIPTS = {
    "exit": 'exit "$1"',
    "print": 'echo "$1"',
    "live": "exec sleep 1000",
    "stubborn": "trap '' TERM; echo ready; while :; do sleep 1000; done",
}


def as_shell(*words: str) -> tuple[str, ...]:
    """The programs of the fake as real ones."""
    return ("sh", "-c", SCRIPTS[words[0]], *words) if words[0] in SCRIPTS else words


@dataclass(slots=True)
class Rig:
    """An executor, how to make another on the same machine, and what was heard so far."""

    make: Callable[[], Executor]
    folder: Path
    argv: Callable[..., tuple[str, ...]]
    end: Callable[[], None] = lambda: None
    """Ends what the drivers had in common."""
    executor: Executor = field(init=False)
    heard: list[Report] = field(default_factory=list)
    news: threading.Event = field(default_factory=threading.Event)
    made: list[Executor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replace()

    def replace(self) -> None:
        """A driver dies without a word, and the next one comes."""
        self.executor = self.make()
        self.made.append(self.executor)
        self.heard.clear()
        self.executor.listen(self.news.set)

    def order(self, *words: str, index: int = 0) -> TaskId:
        task = TaskId(7, 1, Role.WORKER, index)
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        where = str(self.folder / "work")
        log = f"7/1/{task.name}.log"
        argv = self.argv(*words)
        order = TaskOrder(task, NODE, (0,), argv, environ, where, log, own_folder=True)
        self.executor.start(order)
        return task

    def until(self, done: Callable[[], bool]) -> None:
        """Listen until it is so."""
        end = time.monotonic() + LIMIT
        while not done():
            assert time.monotonic() < end, self.heard
            self.news.wait(0.02)  # logs are written without a word
            self.news.clear()
            self.heard += self.executor.collect()

    def exit_of(self, task: TaskId) -> TaskExited:
        self.until(lambda: any(isinstance(r, TaskExited) and r.task == task for r in self.heard))
        return next(r for r in self.heard if isinstance(r, TaskExited) and r.task == task)

    def start_of(self, task: TaskId) -> TaskStarted:
        self.until(lambda: any(isinstance(r, TaskStarted) and r.task == task for r in self.heard))
        return next(r for r in self.heard if isinstance(r, TaskStarted) and r.task == task)

    def kinds(self, task: TaskId) -> list[type[Report]]:
        return [
            type(r) for r in self.heard if isinstance(r, TaskStarted | TaskExited) and r.task == task
        ]

    def log(self, index: int = 0, offset: int = 0, size: int = 10_000) -> bytes:
        return self.executor.read_log(f"7/1/worker-{index}.log", offset, size).data

    def log_says(self, words: bytes) -> bool:
        try:
            return words in self.log()
        except LookupError:
            return False


def local(folder: Path) -> Rig:
    return Rig(lambda: LocalExecutor(folder / "data", time.time), folder, as_shell)


def fake(folder: Path) -> Rig:
    machine = Machine()
    return Rig(lambda: FakeExecutor(machine), folder, lambda *words: words)


def refusing(folder: Path) -> Rig:
    return Rig(RefusingExecutor, folder, lambda *words: words)


def fleet(folder: Path) -> Rig:
    ground = FleetGround(folder, NODE)
    return Rig(ground.fleet, folder, as_shell, ground.close)


RIGS: dict[str, Callable[[Path], Rig]] = {"fake": fake, "local": local, "fleet": fleet}
ALL_RIGS = RIGS | {"refusing": refusing}


def running(make: Callable[[Path], Rig], folder: Path) -> Iterator[Rig]:
    rig = make(folder)
    yield rig
    for index in range(4):
        rig.executor.signal(TaskId(7, 1, Role.WORKER, index), signal.SIGKILL)
    for executor in rig.made:
        executor.close()
    rig.end()


@pytest.fixture(params=RIGS.values(), ids=list(RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    yield from running(request.param, tmp_path)


@pytest.fixture(params=ALL_RIGS.values(), ids=list(ALL_RIGS))
def any_rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    yield from running(request.param, tmp_path)


def test_every_order_is_answered_and_ends_in_one_exit(any_rig: Rig) -> None:
    tasks = [any_rig.order("exit", "0", index=index) for index in range(3)]
    for task in tasks:
        any_rig.exit_of(task)
    assert sum(isinstance(r, TaskExited) for r in any_rig.heard) == 3


def test_a_refusal_is_an_exit_of_what_never_began_and_says_why(any_rig: Rig) -> None:
    """An able executor says so of a task that nobody ordered."""
    task = TaskId(8, 1, Role.WORKER, 0)
    any_rig.executor.attach({task: NODE})
    exited = any_rig.exit_of(task)
    assert not exited.begun
    assert exited.error
    assert (exited.code, exited.signal) == (None, None)


def test_what_nobody_has_is_no_log_and_no_trouble_to_signal(any_rig: Rig) -> None:
    any_rig.executor.signal(TaskId(8, 1, Role.WORKER, 0), signal.SIGTERM)
    with pytest.raises(LookupError):
        any_rig.executor.read_log("8/1/worker-0.log", 0, 100)


def test_a_visit_to_a_task_that_nobody_has_is_refused_in_words(rig: Rig) -> None:
    task = TaskId(404, 1, Role.WORKER, 0)
    with rig.executor.visit(task, NODE, Visit("exec")) as connection:
        connection.settimeout(LIMIT)
        frames, said = Frames(), list[Received]()
        while not said and (data := connection.recv(4096)):
            said += frames.receive(data)
    assert isinstance(said[0], StreamNote)
    assert said[0].record["what"] == "refused"
    assert said[0].record["why"]


def test_nothing_is_reported_before_anything_was_ordered(any_rig: Rig) -> None:
    assert list(any_rig.executor.collect()) == []


def test_a_task_starts_and_exits_with_its_code(rig: Rig) -> None:
    task = rig.order("exit", "3")
    exited = rig.exit_of(task)
    assert (exited.code, exited.signal, exited.begun, exited.error) == (3, None, True, "")
    assert rig.kinds(task) == [TaskStarted, TaskExited]
    assert rig.start_of(task).pid


def test_each_thing_is_reported_once(rig: Rig) -> None:
    first = rig.order("exit", "0")
    rig.exit_of(first)
    second = rig.order("exit", "0", index=1)
    rig.exit_of(second)
    assert rig.kinds(first) == rig.kinds(second) == [TaskStarted, TaskExited]


def test_reports_that_came_before_anybody_listened_are_told_of(rig: Rig) -> None:
    rig.executor.listen(lambda: None)
    task = rig.order("print", "hello")
    rig.until(lambda: rig.log_says(b"hello"))
    rig.order("exit", "0", index=1)
    heard = threading.Event()
    rig.executor.listen(heard.set)
    assert heard.wait(LIMIT)
    rig.exit_of(task)


def test_ordered_twice_a_task_runs_once(rig: Rig) -> None:
    task = rig.order("print", "once")
    rig.order("print", "once")
    rig.exit_of(task)
    rig.order("print", "once")
    last = rig.order("exit", "0", index=1)
    rig.exit_of(last)
    assert rig.kinds(task) == [TaskStarted, TaskExited]
    assert rig.log() == b"once\n"


def test_ordered_again_by_the_next_driver_it_still_runs_once(rig: Rig) -> None:
    task = rig.order("print", "once")
    rig.exit_of(task)
    rig.replace()
    rig.order("print", "once")
    assert rig.exit_of(task).code == 0
    assert rig.log() == b"once\n"


def test_a_task_that_was_killed_tells_the_signal(rig: Rig) -> None:
    task = rig.order("live")
    rig.start_of(task)
    rig.executor.signal(task, signal.SIGTERM)
    exited = rig.exit_of(task)
    assert (exited.code, exited.signal) == (None, signal.SIGTERM)


def test_a_signal_right_behind_the_order_is_not_lost(rig: Rig) -> None:
    task = rig.order("live")
    rig.executor.signal(task, signal.SIGTERM)
    assert rig.exit_of(task).signal == signal.SIGTERM


def test_who_ignores_sigterm_dies_by_sigkill(rig: Rig) -> None:
    task = rig.order("stubborn")
    rig.start_of(task)
    rig.until(lambda: rig.log_says(b"ready"))
    rig.executor.signal(task, signal.SIGTERM)
    rig.executor.signal(task, signal.SIGKILL)
    assert rig.exit_of(task).signal == signal.SIGKILL


def test_a_signal_to_a_task_that_is_gone_does_nothing(rig: Rig) -> None:
    task = rig.order("exit", "0")
    rig.exit_of(task)
    rig.executor.signal(task, signal.SIGKILL)
    rig.exit_of(rig.order("exit", "0", index=1))
    assert rig.kinds(task) == [TaskStarted, TaskExited]


def test_a_command_that_is_not_there_is_told_in_words(rig: Rig) -> None:
    task = rig.order("missing")
    exited = rig.exit_of(task)
    assert exited.code == 127
    assert exited.error.startswith("no such command: missing")
    assert rig.kinds(task) == [TaskExited]
    assert not exited.begun


def test_a_task_lives_on_without_its_driver_and_the_next_one_finds_it(rig: Rig) -> None:
    task = rig.order("live")
    pid = rig.start_of(task).pid
    rig.replace()
    rig.executor.attach({task: NODE})
    assert rig.start_of(task).pid == pid
    rig.executor.signal(task, signal.SIGTERM)
    assert rig.exit_of(task).signal == signal.SIGTERM
    assert rig.kinds(task) == [TaskStarted, TaskExited]


def test_a_task_lives_on_when_its_executor_is_closed(rig: Rig) -> None:
    task = rig.order("live")
    rig.start_of(task)
    rig.made.remove(rig.executor)
    rig.executor.close()
    rig.replace()
    rig.executor.attach({task: NODE})
    rig.start_of(task)


def test_what_ended_meanwhile_is_reported_as_it_ended(rig: Rig) -> None:
    failed, killed = rig.order("exit", "3"), rig.order("live", index=1)
    rig.start_of(killed)
    rig.executor.signal(killed, signal.SIGTERM)
    rig.exit_of(failed)
    rig.exit_of(killed)
    rig.replace()
    rig.executor.attach(dict.fromkeys((failed, killed), NODE))
    assert rig.exit_of(failed).code == 3
    assert rig.exit_of(killed).signal == signal.SIGTERM
    assert rig.kinds(failed) == rig.kinds(killed) == [TaskExited]


def test_who_attaches_twice_is_answered_twice(rig: Rig) -> None:
    task = rig.order("live")
    rig.start_of(task)
    rig.executor.attach({task: NODE})
    rig.until(lambda: rig.kinds(task) == [TaskStarted, TaskStarted])


def test_a_log_is_read_in_parts_and_from_its_end(rig: Rig) -> None:
    rig.exit_of(rig.order("print", "0123456789"))
    name = "7/1/worker-0.log"
    first = rig.executor.read_log(name, 0, 4)
    assert (first.data, first.offset, first.next) == (b"0123", 0, 4)
    rest = rig.executor.read_log(name, first.next, 100)
    assert (rest.data, rest.next) == (b"456789\n", 11)
    assert rig.executor.read_log(name, rest.next, 100).data == b""
    last = rig.executor.read_log(name, -3, 100)
    assert (last.data, last.offset) == (b"89\n", 8)
    assert rig.executor.read_log(name, -1000, 100).data == b"0123456789\n"


def test_a_log_can_be_followed_while_it_is_written(rig: Rig) -> None:
    task = rig.order("stubborn")
    rig.start_of(task)
    rig.until(lambda: rig.log_says(b"ready"))
    assert rig.executor.read_log("7/1/worker-0.log", 0, 100).next == len(b"ready\n")


def test_a_name_that_leads_elsewhere_is_no_log(rig: Rig) -> None:
    rig.exit_of(rig.order("print", "x"))
    for name in ("", ".", "..", "../data/tasks", "7/../../x", "/etc/passwd", "7/1", "7/1/x.log", "\0"):
        with pytest.raises(LookupError):
            rig.executor.read_log(name, 0, 100)
