"""`python -m muster.daemon.foresight FD`: plays futures, until its daemon hangs up."""

import os
import threading
from queue import Empty, SimpleQueue

from muster.daemon.foresight.child import ForesightChild
from muster.daemon.planners.child_main import serve_until_hung_up, stand_back
from muster.daemon.planners.line import HungUpError, MessageLine
from muster.daemon.planners.pickles import dumps, loads

NICE = 10
"""How much everything else on the machine goes before it: beside four busy processes on two cores it
has a twentieth of a core and forecasts a handful of jobs in seconds; with 19, in half a minute."""


def serve(line: MessageLine) -> None:
    """Follow views and answer questions; those that came in between are answered in between."""
    stand_back(NICE)
    line.send(b"")  # ready
    remembered = loads(line.receive())
    inbox: SimpleQueue[bytes] = SimpleQueue()

    def meanwhile() -> None:
        while True:
            try:
                child.take(loads(inbox.get_nowait()))
            except Empty:
                return

    child = ForesightChild(remembered, lambda answer: line.send(dumps(answer)), meanwhile)
    threading.Thread(target=_read, args=(line, inbox), daemon=True).start()
    while True:
        child.take(loads(inbox.get()))


def _read(line: MessageLine, inbox: "SimpleQueue[bytes]") -> None:
    """Read all the time, so that the daemon never waits for room to write."""
    try:
        while True:
            inbox.put(line.receive())
    except HungUpError:
        os._exit(0)  # whatever is being played


if __name__ == "__main__":
    serve_until_hung_up(serve)
