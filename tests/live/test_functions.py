"""Python functions as jobs: results, exceptions and deaths come back; nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, TimeoutError, as_completed, wait
from pathlib import Path
from typing import Any

import pytest

import muster
from muster.client import Client
from muster.functions.errors import FunctionError, RemoteTraceback
from tests.live.daemons import LONG, environment, processes, until

FACTOR = 3


class OddError(Exception):
    """Cannot be unpickled: pickle calls it with one argument."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first}-{second}")


def times(number: int) -> int:
    """Three times the number; some numbers end badly."""
    if number == 2:
        raise ValueError(f"no {number}")
    if number == 3:
        os._exit(7)
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        raise OddError(1, 2)
    return number * FACTOR


def hold(started: str, go: str) -> str:
    """Wait for a file."""
    Path(started).touch()
    while not Path(go).exists():
        time.sleep(0.02)
    return "held"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this user's files are."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[Client]:
    """A daemon of this process with two devices."""
    with muster.local(2) as found:
        yield found


def test_what_raises_or_dies_says_why_and_the_others_come_back(client: Client) -> None:
    with muster.Executor(client, at_most=4) as executor:
        found = list(executor.map(times, range(7), return_exceptions=True))
    assert [each for each in found if isinstance(each, int)] == [0, 3, 18]
    raised, ended, killed, odd = found[2:6]
    assert isinstance(raised, ValueError) and str(raised) == "no 2"
    assert isinstance(raised.__cause__, RemoteTraceback)
    assert 'raise ValueError(f"no {number}")' in str(raised.__cause__)
    assert isinstance(ended, FunctionError) and "worker-0 ended with exit code 7" in str(ended)
    assert isinstance(killed, FunctionError) and "signal 9 (SIGKILL)" in str(killed)
    assert isinstance(odd, FunctionError) and "raised" in str(odd) and "1-2" in str(odd)


def test_a_future_is_the_standard_librarys(client: Client, tmp_path: Path) -> None:
    started, go = str(tmp_path / "started"), str(tmp_path / "go")
    with muster.Executor(client, at_most=1) as executor:
        first = executor.submit(hold, started, go)
        second = executor.submit(times, 1)
        third = executor.submit(times, 6)
        assert isinstance(first, Future)
        until(first.running)
        with pytest.raises(TimeoutError):
            first.result(timeout=0.0)
        with pytest.raises(muster.client.ClientError, match="not submitted yet"):
            _ = second.job
        assert third.cancel() and third.cancelled()
        assert not second.done()
        Path(go).touch()
        futures: list[Future[Any]] = [first, second, third]
        assert set(as_completed(futures, timeout=LONG)) == {*futures}
        assert (first.result(), second.result()) == ("held", 3)
        assert not wait(futures).not_done
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(times, 1)


def test_cancel_stops_a_job_that_runs(client: Client, tmp_path: Path) -> None:
    executor = muster.Executor(client)
    future = executor.submit(hold, str(tmp_path / "started"), str(tmp_path / "never"))
    until((tmp_path / "started").exists)
    assert future.cancel()
    assert future.job.wait(LONG).status == "cancelled"
    other = executor.submit(hold, str(tmp_path / "again"), str(tmp_path / "never"))
    until((tmp_path / "again").exists)
    client.stop(other.job.number)
    until(other.cancelled, "a future whose job somebody else stopped is cancelled")


def test_every_worker_runs_the_function_and_an_await_waits(client: Client) -> None:
    def rank() -> tuple[str, str]:
        return os.environ["RANK"], os.environ["WORLD_SIZE"]

    future = muster.Executor(client, devices=2).submit(rank)

    async def awaited() -> tuple[str, str]:
        return await future

    assert asyncio.run(awaited()) == ("0", "2")
    assert future.results() == [("0", "2"), ("1", "2")]
    assert muster.result(future.job.number, client) == ("0", "2")


def test_a_job_is_awaited_beside_others(client: Client) -> None:
    async def ends() -> list[str]:
        async with muster.AsyncClient(client=client) as ours:
            commands = {"good": ["true"], "bad": ["false"]}
            jobs = [
                await ours.submit({"name": name, "command": command})
                for name, command in commands.items()
            ]
            return [record.status for record in await asyncio.gather(*jobs)]

    assert asyncio.run(ends()) == ["succeeded", "failed"]


NOTEBOOK = """
import os, muster
factor = 7
square = lambda x: x * x * factor
print(muster.submit(square, 2, devices="1..2").result())
print(muster.submit(os.getcwd).result() == os.getcwd())
"""


def run_python(text: str, home: Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run code that is in no file, as a notebook's is."""
    return subprocess.run(
        [sys.executable, "-"],
        input=text,
        env=environment(home),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def test_a_notebook_needs_neither_a_daemon_nor_a_file(tmp_path: Path) -> None:
    done = run_python(NOTEBOOK, tmp_path / "home", tmp_path)
    assert done.stdout == "28\nTrue\n", done.stderr
    assert "muster: no daemon answers; this process runs one with" in done.stderr
    assert not processes(str(tmp_path))


KILLED = """
import muster, sys, time
client = muster.local(1)
job = client.submit({"command": ["sh", "-c", "echo $$ > pid; exec sleep 600"], "name": "endless"})
time.sleep(600)
"""


@pytest.mark.slow
def test_a_daemon_ends_with_its_process_even_if_that_is_killed(tmp_path: Path) -> None:
    env = {**environment(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], env=env, cwd=tmp_path)
    try:
        pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    finally:
        process.kill()
        process.wait()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the task is gone")
    until(lambda: not list(tmp_path.glob("muster-*")), "the daemon's folder is gone")


KEPT = """
import muster
client = muster.local(2, keep=True, data={data!r})
print(client.submit({{"command": ["true"]}}).number, client.status().devices)
"""


@pytest.mark.slow
def test_a_daemon_that_is_kept_serves_the_next_process(tmp_path: Path) -> None:
    home, data = tmp_path / "home", str(tmp_path / "data")
    try:
        said = [run_python(KEPT.format(data=data), home, tmp_path) for _ in range(2)]
    finally:
        subprocess.run(
            [sys.executable, "-c", "from muster.cli.main import main; main()", "down", "--data", data],
            env=environment(home),
            check=False,
        )
    assert [each.stdout for each in said] == ["1 2\n", "2 2\n"], [each.stderr for each in said]
    until(lambda: not processes(data), "no process is left")


@pytest.mark.slow
def test_a_hundred_functions_of_which_one_raises_and_one_dies(client: Client) -> None:
    with muster.Executor(client, at_most=8) as executor:
        found = list(
            executor.map(times, [*range(10, 60), 2, 4, *range(60, 108)], return_exceptions=True)
        )
    assert [each for each in found if isinstance(each, int)] == [n * FACTOR for n in range(10, 108)]
    assert isinstance(found[50], ValueError)
    assert isinstance(found[51], FunctionError)
