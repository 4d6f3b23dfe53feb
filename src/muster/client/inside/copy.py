"""Files and folders from and to a job, as a stream: nothing is kept in memory or packed on disk."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from muster.client.errors import ClientError
from muster.client.inside.visit import VisitConnection, VisitOutcome
from muster.wire.visits.copying import CopyError, Tell, means_folder, pack, unpack
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump
from muster.wire.visits.visits import INPUT, OUTPUT


def fetch(visit: VisitConnection, target: str) -> list[str]:
    """Copy what the visit reads to this machine; return what could not be copied, and why."""
    read, write = os.pipe()

    def work(tell: Tell) -> None:
        with open(read, "rb") as source:  # noqa: PTH123
            unpack(source, Path(target), tell, into=means_folder(target))

    copy = _Copy(visit, work)
    os.set_blocking(write, False)
    copy.pump.drain(OUTPUT, write)
    return copy.run(lambda: os.close(write))


def store(visit: VisitConnection, source: Path) -> list[str]:
    """Copy a file or folder of this machine to where the visit writes; return what could not be."""
    read, write = os.pipe()

    def work(tell: Tell) -> None:
        with open(write, "wb") as out:  # noqa: PTH123
            pack(source, out, tell)

    copy = _Copy(visit, work)
    copy.pump.feed(INPUT, read)
    return copy.run(lambda: os.close(read))


class _Copy:
    """Packs or unpacks in a thread of its own, while bytes move."""

    def __init__(self, visit: VisitConnection, work: Callable[[Tell], None]) -> None:
        self._outcome, self._work = VisitOutcome(), work
        self._missed: list[str] = []
        self._failed: list[str] = []
        self.pump = Pump(visit.socket, self._hear, writes_rest=True)

    def _hear(self, note: StreamNote) -> None:
        if self._outcome.hear(note):
            self.pump.stop()

    def run(self, close: Callable[[], None]) -> list[str]:
        worker = threading.Thread(target=self._copy, daemon=True)
        worker.start()
        try:
            self.pump.frames.note(what="begin")
            self.pump.run()
        finally:
            close()
        worker.join()
        self._outcome.result()
        if self._failed:
            raise ClientError(0, "Not Copied", self._failed[0])
        return [*self._missed, *self._outcome.told]

    def _copy(self) -> None:
        try:
            self._work(self._missed.append)
        except CopyError as problem:
            self._failed.append(str(problem))
        except BrokenPipeError:
            pass  # the visit ended first, and says why
        except Exception as problem:  # of the disk, of a stream that was cut off
            self._missed.append(str(problem) or type(problem).__name__)
