"""The coordinator of one job: serves its tasks and carries out what the roster decides."""

import asyncio
import threading
import time
from collections.abc import Callable

from muster.roster.acts import Act, Begin, Check, Kill, Tell, Wake
from muster.roster.roster import Roster
from muster.runtime.launch.history import History
from muster.wire.tasks.messages import Changed, Hello, Message, Opening
from muster.wire.tasks.task_server import TaskServer

NOTES = 1_000
"""Protocol errors kept at most."""


class Coordinator:
    """Serves a job's tasks in a thread; `changed` guards its roster and history."""

    def __init__(
        self,
        job: str,
        token: str,
        roster: Roster,
        history: History,
        begin: Callable[[str, str], None],
        kill: Callable[[str], object],
        address: tuple[str, int] = ("127.0.0.1", 0),
        changed: threading.Condition | None = None,
    ) -> None:
        """Listen at an address (port 0: any free one).

        `begin`: starts a task, by name and role; `kill`: ends one.
        """
        self.roster, self.history = roster, history
        self.changed = changed or threading.Condition()
        self._job, self._token, self._begin, self._kill = job, token, begin, kill
        self._timers: dict[type[Act], asyncio.TimerHandle] = {}
        self._closed = False
        self._server: TaskServer[str] = TaskServer(self._admit, self._hear, self._note)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="muster-coordinator", daemon=True
        )
        self._thread.start()
        try:
            starting = asyncio.run_coroutine_threadsafe(self._server.start(*address), self._loop)
            self.address = address[0], starting.result()
        except BaseException:
            self._end_loop()
            raise

    def resize(self, workers: int, servers: int | None = None) -> None:
        """Set the wanted number of workers and servers (None: servers as before)."""
        self._do(lambda: self.roster.resize(workers, servers))

    def use_batch(self, batch: int, order: int) -> None:
        """Change the global batch of a training that leaves it free."""
        self._do(lambda: self.roster.use_batch(batch, order))

    def stop(self, reason: str) -> None:
        """Ask all tasks to end after their step."""
        self._do(lambda: self.roster.stop(reason))

    def exited(self, task: str, how: str) -> bool:
        """Note that a task's process has ended; False when this coordinator is closed."""
        return self._do(lambda: self.roster.exited(task, how))

    def close(self) -> None:
        """Close all connections; the tasks keep training."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._end_loop()

    async def _close(self) -> None:
        # In the loop's thread: no message can be heard and dropped in between.
        with self.changed:
            self._closed = True
        await self._server.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, decide: Callable[[], list[Act]]) -> bool:
        with self.changed:
            if self._closed:
                return False
            for act in decide():
                self._carry_out(act)
            self.history.note_lost(self.roster.lost)
            self.history.refusal = self.roster.refusal
            self.changed.notify_all()
            return True

    def _carry_out(self, act: Act) -> None:
        if isinstance(act, Begin):
            self._begin(act.task, act.role)
        elif isinstance(act, Kill):
            self._kill(act.task)
        elif isinstance(act, Tell):
            self._loop.call_soon_threadsafe(self._server.tell, self._job, act.task, act.message)
        elif isinstance(act, Wake):
            self._loop.call_soon_threadsafe(self._later, act, self.roster.woken)
        elif isinstance(act, Check):
            self._loop.call_soon_threadsafe(self._later, act, self.roster.check_plan)

    def _later(self, act: Wake | Check, decide: Callable[[int], list[Act]]) -> None:
        """Set the timer of this kind; a newer one replaces it."""
        earlier = self._timers.get(type(act))
        if earlier is not None:
            earlier.cancel()
        self._timers[type(act)] = self._loop.call_later(
            act.seconds, self._do, lambda: decide(act.formation)
        )

    def _admit(self, opening: Opening) -> tuple[str, str] | None:
        return (self._job, self._token) if opening.job == self._job else None

    def _hear(self, _job: str, message: Message) -> None:
        def decide() -> list[Act]:
            if isinstance(message, Hello):
                return self.roster.hello(message)
            # A task from before the last restart may report members under a number used again since.
            if not isinstance(message, Changed) or message.task not in self.roster.retired:
                self.history.note(message, time.monotonic())
            return self.roster.heard(message)

        self._do(decide)

    def _note(self, text: str) -> None:
        with self.changed:
            if len(self.history.notes) < NOTES:
                self.history.notes.append(text)
                self.changed.notify_all()
