"""Follows many jobs to their ends over one stream of events."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from muster.client.errors import ClientError
from muster.wire.api.records import OVER, JobRecord

if TYPE_CHECKING:
    from muster.client.client import Client

Told = Callable[[JobRecord | ClientError], None]

CHECK = 5.0
"""s between two looks at all watched jobs while the stream cannot be had: all streams of this token
are in use, or the daemon restarts."""
STARTS, ENDS = frozenset({"Started"}), frozenset({"Ended", "Cancelled", "Skipped"})
"""Kinds of events after which a job is asked for."""
_SOON, _TIMES = 0.05, 100
"""s between two looks at a job whose end was told, and how many: its record may be a moment behind."""


class JobWatcher:
    """Calls back when watched jobs start and end, in a thread of its own.

    One stream serves any number of jobs: a daemon grants each token only a few.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._watched: dict[int, list[Told]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, number: int, told: Told) -> None:
        """Call `told` with a job's record when it runs and, last, when it has ended; with the error if
        that can no longer be learnt."""
        with self._lock:
            self._watched.setdefault(number, []).append(told)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="muster-watch", daemon=True)
                self._thread.start()
        self._look(number)  # it may have ended before it was watched

    def forget(self, number: int, told: Told) -> None:
        """Call this no longer."""
        with self._lock:
            left = [each for each in self._watched.pop(number, []) if each != told]
            if left:
                self._watched[number] = left

    def _run(self) -> None:
        """Follow events; every time that the stream breaks, look at all jobs."""
        while True:
            try:
                self._follow()
            except ClientError as error:
                if error.status != 429:
                    self._give_up(error)
                    return
            except Exception as error:  # the client was closed
                self._give_up(ClientError(0, "Not Watched", f"jobs are no longer watched: {error}"))
                return
            if self._idle():
                return
            time.sleep(CHECK)
            self._look_at_all()

    def _follow(self) -> None:
        looked = False
        for event in self._client.events(follow=True):
            if not looked:  # what happened before the stream was open
                looked = True
                self._look_at_all()
            elif event.number in self._watched and event.kind in STARTS:
                self._look(event.number)
            elif event.number in self._watched and event.kind in ENDS:
                self._look_for_end(event.number)
            if not self._watched:
                return

    def _look_at_all(self) -> None:
        for number in list(self._watched):
            self._look(number)

    def _idle(self) -> bool:
        """Whether nobody is watched; then the thread ends."""
        with self._lock:
            if self._watched:
                return False
            self._thread = None
            return True

    def _look_for_end(self, number: int) -> None:
        for _ in range(_TIMES):
            self._look(number)
            if number not in self._watched:
                return
            time.sleep(_SOON)

    def _look(self, number: int) -> None:
        found: JobRecord | ClientError
        try:
            found = self._client.record(number)
        except ClientError as error:
            if error.status != 404:  # asked again at the next event, or by the thread
                return
            found = error
        ended = isinstance(found, ClientError) or found.status in OVER
        with self._lock:
            told = self._watched.pop(number, []) if ended else list(self._watched.get(number, ()))
        for each in told:
            _tell(each, found)

    def _give_up(self, error: ClientError) -> None:
        with self._lock:
            left, self._watched, self._thread = self._watched, {}, None
        for told in left.values():
            for each in told:
                _tell(each, error)


def _tell(told: Told, found: JobRecord | ClientError) -> None:
    """Call back; what that raises is nothing to the other jobs."""
    with contextlib.suppress(Exception):
        told(found)
