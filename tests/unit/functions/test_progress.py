"""Progress: a line where somebody sees it, nothing elsewhere."""

import os
import pty
import subprocess
import sys
from concurrent.futures import Future
from typing import Any

from muster.functions.progress import progress, state_of

SCRIPT = """
from concurrent.futures import ThreadPoolExecutor
import muster
with ThreadPoolExecutor(1) as pool:
    muster.progress(pool.submit(len, "a"), [pool.submit(int, "x")])
print("done")
"""


def test_the_line_counts_what_ended_and_how() -> None:
    futures: list[Future[Any]] = [Future() for _ in range(5)]
    futures[0].set_result(1)
    futures[1].set_exception(ValueError("no"))
    futures[2].cancel()
    futures[3].set_running_or_notify_cancel()
    assert state_of(futures) == (3, 5, "3/5, 1 running, 1 waiting, 1 failed, 1 cancelled")


def test_nothing_is_shown_where_nobody_sees_it(capfd: Any) -> None:
    done: Future[int] = Future()
    done.set_result(1)
    progress(done)
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_bar() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=theirs, check=True
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.stdout == b"done\n"
    assert "2/2, 1 failed" in shown
