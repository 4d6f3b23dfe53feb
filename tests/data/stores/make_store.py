"""Write the store of a real daemon, killed in the middle of a day, as a gzipped SQL dump.

    python -m tests.data.stores.make_store tests/data/stores/NAME.sql.gz

A release adds a dump of its own and never changes the earlier ones:
`tests/unit/store/test_old_stores.py` opens each with the current code.
"""

import argparse
import gzip
import os
import signal
import sqlite3
import sys
import tempfile
from pathlib import Path

from tests.live.daemons import Daemon, until
from tests.live.steps import Training

WAIT = "until test -e go; do sleep 0.05; done"


def main() -> None:
    """Run the day, then dump what it left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path, help="file to write, .sql.gz")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(Path(folder), devices=4)
        try:
            _day(daemon)
        finally:
            daemon.end()
        _dump(daemon.data / "muster.db", out)
    print(f"{out}: {out.stat().st_size} bytes", file=sys.stderr)


def _day(daemon: Daemon) -> None:
    """Jobs of every fate: done, failed, stopped, running with a replaced worker, and waiting."""
    daemon.start()
    daemon.client.set_pool("lend", quotas={"cpu": {"reservation": 0}})
    daemon.sh("echo fine", name="done").wait()
    daemon.sh("echo broken; exit 3", name="failed").wait()
    stopped = daemon.sh(WAIT, name="stopped", pool="lend")
    daemon.await_status("stopped", "running")
    stopped.stop()
    stopped.wait()
    daemon.sh("echo again", name="done").wait()  # a name used twice
    training = Training(daemon, "elastic", devices=2)
    training.ahead()
    os.kill(training.pids()["worker-1"][0], signal.SIGKILL)
    until(lambda: "worker-2" in training.pids(), "worker-1 is replaced")
    training.ahead()
    daemon.kill()  # the next start writes a snapshot, and the rest of the day goes behind it
    daemon.start()
    daemon.sh(WAIT, name="fixed", devices=1, failures=2)
    daemon.await_status("fixed", "running")
    daemon.sh(WAIT, name="queued", devices=4, preemptible=False)
    daemon.client.set_policy("fifo")
    daemon.client.drain("n0")
    training.ahead()
    daemon.kill()


def _dump(store: Path, out: Path) -> None:
    with sqlite3.connect(store) as database, gzip.GzipFile(out, "wb", mtime=0) as file:
        for line in database.iterdump():
            file.write(f"{line}\n".encode())


if __name__ == "__main__":
    main()
