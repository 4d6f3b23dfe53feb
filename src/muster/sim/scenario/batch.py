"""Many simulations: several at a time, each in a process of its own, stored when it ends.

A folder with a result.json is a finished simulation, so an interrupted batch resumes where it stopped.
"""

import os
import shutil
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from muster.files.errors import InputError
from muster.sim.report.files import TableFormat, read_index, write_result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared
from muster.sim.scenario.run import Progress

REPORTED = 0.2
"""s between two reports of a process: as often as the eye notices."""
TRACE = "error.txt"
"""The file for the traceback of a failed simulation."""


@dataclass(frozen=True, slots=True)
class ResultStore:
    """Where and how results are stored."""

    folder: Path
    form: TableFormat = TableFormat.CSV
    stints: bool = False

    def place(self, configuration: Configuration) -> Path:
        name = f"{configuration.policy}-{configuration.seed}-{configuration.hash}"
        return self.folder / name

    def has(self, configuration: Configuration) -> bool:
        """Return whether a complete result of this configuration and format is stored."""
        try:
            index = read_index(self.place(configuration))
        except InputError:
            return False
        kept = index.get("configuration", {}).get("stints", False)
        same = index.get("hash") == configuration.hash and index.get("form") == self.form
        return same and (kept or not self.stints)

    def drop(self, configurations: Iterable[Configuration]) -> None:
        for each in configurations:
            shutil.rmtree(self.place(each), ignore_errors=True)


class Watcher(Protocol):
    """Follows the progress of a batch."""

    def began(self, configuration: Configuration, jobs: int) -> None:
        """A simulation of this many jobs has begun."""

    def moved(self, configuration: Configuration, done: int) -> None:
        """This many of its jobs are completed."""

    def ended(self, configuration: Configuration) -> None:
        """It has finished or failed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A simulation that ended with an internal error, and the file with its traceback."""

    configuration: Configuration
    why: str
    told: Path


def of_all(
    configuration: Configuration, policies: Sequence[str], seeds: Sequence[int]
) -> list[Configuration]:
    """Return the configuration under each policy and seed, seed by seed to compare policies early."""
    return [replace(configuration, policy=name, seed=seed) for seed in seeds for name in policies]


def run_batch(
    configurations: Sequence[Configuration], store: ResultStore, watcher: Watcher, workers: int = 1
) -> list[Failure]:
    """Simulate and store all; bad input ends the batch, an internal error only its simulation."""
    if workers > 1 and len(configurations) > 1:
        return _Processes(store, watcher).run(configurations, workers)
    failures = []
    for each in configurations:
        try:
            _simulate(each, store, watcher)
        except InputError:
            raise
        except Exception as error:
            failures.append(_failed(each, store, repr(error), traceback.format_exc()))
        watcher.ended(each)
    return failures


def _simulate(configuration: Configuration, store: ResultStore, watcher: Watcher) -> None:
    prepared = prepare(configuration)
    watcher.began(configuration, prepared.jobs.survey.jobs)
    progress: Progress = lambda done, _: watcher.moved(configuration, done)  # noqa: E731
    result = run_prepared(prepared, progress, stints=store.stints)
    write_result(result, store.place(configuration), store.form)
    (store.place(configuration) / TRACE).unlink(missing_ok=True)


def _failed(configuration: Configuration, store: ResultStore, why: str, trace: str) -> Failure:
    told = store.place(configuration) / TRACE
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_text(trace, encoding="utf-8")
    return Failure(configuration, why, told)


# Several at a time


class _Processes:
    """One process for each simulation, so that memory is freed with it."""

    def __init__(self, store: ResultStore, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher
        self._busy: dict[Connection, tuple[Any, Configuration]] = {}
        self._failures: list[Failure] = []

    def run(self, configurations: Sequence[Configuration], workers: int) -> list[Failure]:
        """Run all; no process is left behind, whatever happens."""
        waiting = deque(configurations)
        try:
            while waiting or self._busy:
                while waiting and len(self._busy) < workers:
                    self._start(waiting.popleft())
                for connection in wait(list(self._busy)):
                    assert isinstance(connection, Connection)
                    self._hear(connection)
        finally:
            for process, _ in self._busy.values():
                process.terminate()
            for process, _ in self._busy.values():
                process.join()
        return self._failures

    def _start(self, configuration: Configuration) -> None:
        # Many threads on small matrices make OpenBLAS a hundred times slower where cores are busy.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # A fresh interpreter: a copy of this one might hold a lock of the progress bar's thread.
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        arguments = (configuration, self._store, theirs)
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._busy[ours] = process, configuration

    def _hear(self, connection: Connection) -> None:
        """Handle a message of a process; one that disappears silently has failed."""
        process, configuration = self._busy[connection]
        try:
            word, told = connection.recv()
        except EOFError:
            process.join()
            word, told = "failed", f"ended with exit code {process.exitcode} before it was done"
        if word == "began":
            self._watcher.began(configuration, told)
        elif word == "moved":
            self._watcher.moved(configuration, told)
        elif word == "refused":
            raise InputError(told)
        else:
            if word == "failed":
                why = told.strip().splitlines()[-1]
                self._failures.append(_failed(configuration, self._store, why, told))
            process.join()
            connection.close()
            del self._busy[connection]
            self._watcher.ended(configuration)


class _PipeWatcher:
    """Forwards progress through a pipe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last = 0.0

    def began(self, configuration: Configuration, jobs: int) -> None:
        self._connection.send(("began", jobs))

    def moved(self, configuration: Configuration, done: int) -> None:
        """Forward it, not too often."""
        now = monotonic()
        if now - self._last >= REPORTED:
            self._last = now
            self._connection.send(("moved", done))

    def ended(self, configuration: Configuration) -> None:
        """Do nothing: `_work` sends the end."""


def _work(configuration: Configuration, store: ResultStore, connection: Connection) -> None:
    """Simulate in a process of its own; exit when nobody reads the pipe any more."""
    # Ctrl-C goes to the whole process group; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        try:
            _simulate(configuration, store, _PipeWatcher(connection))
            connection.send(("done", None))
        except InputError as error:
            connection.send(("refused", str(error)))
        except ConnectionError:
            raise
        except Exception:
            connection.send(("failed", traceback.format_exc()))
    except ConnectionError:
        return
