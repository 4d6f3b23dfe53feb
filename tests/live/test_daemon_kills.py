"""The daemon is killed (-9) again and again while jobs run: no job is lost, and none runs twice."""

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.client import Client, Handle
from muster.client.connecting.settings import read_settings
from muster.daemon.loop.recover import load_state
from muster.daemon.loop.state import State
from muster.model.event import Cancelled, Ended, Submitted
from muster.store.codec import decode, encode
from muster.store.store import Store, open_store
from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon, until
from tests.live.steps import Training

pytest.importorskip("torch")

START = 'echo "$MUSTER_GENERATION $MUSTER_INDEX" >> starts; '
WAIT = "until test -e go; do sleep 0.05; done"
PLAIN: dict[str, tuple[str, dict[str, object]]] = {
    "short": (START + "sleep 1", {}),
    "gang": (START + WAIT, {"devices": 2}),
    "anew": (START + WAIT, {"devices": "1..2", "elastic": "restart"}),
    "fails": (START + f"test $(wc -l < starts) -ge 2 || exit 9; {WAIT}", {"failures": 1}),
}
"""Jobs that do not use the runtime: a line of shell, and what they ask for."""


class Trial:
    """Six jobs on six devices, which is one too few, and a daemon that does not live long."""

    def __init__(self, make: Make, seed: int) -> None:
        self._random = random.Random(seed)
        # Always the same port: who waits for a job finds the next daemon there.
        self.daemon: Daemon = make("--port", str(quiet_port()), devices=6)
        self.trainings: list[Training] = []
        self._rest = list(PLAIN)
        self.kills = 0

    def kill(self) -> None:
        """kill -9, and what trains trains on."""
        self.daemon.kill()
        self.kills += 1

    def train(self, name: str, devices: str) -> None:
        """Submit a training."""
        self.trainings.append(Training(self.daemon, name, devices=devices))

    def submit_next(self) -> Handle | None:
        """Submit the next of the plain jobs, if any is left."""
        return submit(self.daemon, self._rest.pop(0)) if self._rest else None

    def kill_while_submitting(self) -> None:
        """Somebody submits a job while the daemon dies: the client tries until one answers."""
        settings = read_settings({"MUSTER_HOME": str(self.daemon.home)})
        patient = Client(settings.url, settings.token, patience=LONG)
        name = self._rest.pop(0)
        submission = threading.Thread(target=submit, args=(self.daemon, name, patient))
        submission.start()
        time.sleep(self._random.uniform(0.0, 0.05))
        self.kill()
        self.daemon.start()
        submission.join(LONG)
        patient.close()
        assert self.daemon.record(name).name == name

    def kill_while_starting_jobs(self) -> None:
        """Some job has begun to start."""
        self.submit_next()
        until(lambda: self.daemon.client.status().running > 0)
        self.kill()
        self.daemon.start()

    def kill_after_submission(self) -> None:
        """The submission is all that the daemon has had time for."""
        self.submit_next()
        self.kill()
        self.daemon.start()

    def kill_while_it_starts(self) -> None:
        """The next daemon does not even get as far as to answer, or just so far."""
        self.kill()
        self.daemon.launch()
        time.sleep(self._random.uniform(0.0, 3.0))
        self.kill()
        self.daemon.start()

    def kill_at_some_moment(self) -> None:
        """Whatever it is doing just now."""
        time.sleep(self._random.uniform(0.0, 1.0))
        self.kill()
        self.daemon.start()

    def any_kill(self) -> Callable[[], None]:
        """One of the above."""
        return self._random.choice(
            [self.kill_after_submission, self.kill_while_it_starts, self.kill_at_some_moment]
        )

    def submit_rest(self) -> None:
        """What no kill has come across."""
        while self.submit_next() is not None:
            pass

    def finish(self) -> None:
        """Let everything go on to its end, and look at how it went."""
        assert_told_as_journalled(self.daemon)
        for name in PLAIN:
            (self.daemon.work(name) / "go").touch()
        for training in self.trainings:
            training.finish()
        for name in PLAIN:
            record = self.daemon.client.handle(name).wait(LONG)
            assert record.status == "succeeded", record.error
        assert_ran_once(self.daemon)
        for training in self.trainings:
            assert len(training.pids()["worker-0"]) == 1, "a training was restarted"
        names = [job.name for job in self.daemon.client.jobs()]
        assert sorted(names) == sorted([*PLAIN, *(each.name for each in self.trainings)])
        self.daemon.assert_nothing_left()
        assert self.daemon.stop() == 0
        assert_journal_folds(self.daemon.data / "muster.db")


def quiet_port() -> int:
    """One that nobody listens at, and that no connection that goes out is given meanwhile."""
    for port in random.sample(range(10_000, 20_000), 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("every port is in use")


def submit(daemon: Daemon, name: str, client: Client | None = None) -> Handle:
    """Submit a plain job by its name."""
    line, fields = PLAIN[name]
    work = str(daemon.work(name))
    record = {"command": ["sh", "-c", line], "name": name, "folder": work, "grace": "5s", **fields}
    return (client or daemon.client).submit(record)


def starts(daemon: Daemon, name: str) -> Counter[str]:
    """How often each task of a job (generation and index) has begun."""
    return Counter((daemon.work(name) / "starts").read_text(encoding="ascii").splitlines())


def assert_ran_once(daemon: Daemon) -> None:
    """Each task has begun once, and once more for each time that the record tells of."""
    assert starts(daemon, "short").total() == 1
    assert starts(daemon, "gang").total() == 2
    assert starts(daemon, "fails").total() == 2
    assert set(starts(daemon, "anew").values()) == {1}, "one task of one generation ran twice"
    for name, failures in {"short": 0, "gang": 0, "fails": 1, "anew": 0}.items():
        record = daemon.record(name)
        assert (record.failures, record.losses) == (failures, 0), name
    ran = [task for task in daemon.detail("anew").tasks if task.code == 0 or task.signal is not None]
    assert starts(daemon, "anew").total() <= len(ran)


def assert_told_as_journalled(daemon: Daemon) -> None:
    """What the API tells of live jobs and nodes is what the journal folds to."""
    store = open_store(str(daemon.data / "muster.db"))

    def alike() -> bool:
        view = folded(store).view
        told = {
            job.number: (job.generation, job.devices) for job in daemon.client.jobs() if not job.ended
        }
        found = {
            number: (state.generation, state.placement.devices if state.placement else 0)
            for number, state in view.jobs.items()
        }
        free = {node.name: node.free for node in daemon.client.nodes()}
        return told == found and free == {
            node.name: node.free.bit_count() for node in view.cluster.nodes
        }

    try:
        until(alike, "the API tells what is in the journal")
    finally:
        store.close()


def folded(store: Store) -> State:
    """The whole journal, from its beginning."""
    return beginning(store).after(entry.fact for entry in store.facts())


def beginning(store: Store) -> State:
    """What there was before the first fact."""
    saved = store.latest()
    while saved is not None and saved.seq > 0:
        saved = store.latest(saved.seq)
    assert saved is not None
    return decode(saved.body, State)


def assert_journal_folds(path: Path) -> None:
    """From its beginning and from a snapshot to the same state, in which nothing is held."""
    store = open_store(str(path))
    try:
        facts = [entry.fact for entry in store.facts()]
        state = folded(store)
        assert not state.view.jobs and not state.gangs
        ends = [fact for fact in facts if isinstance(fact, Ended | Cancelled)]
        submitted = [fact.job.number for fact in facts if isinstance(fact, Submitted)]
        assert sorted(submitted) == sorted(fact.job for fact in ends), "each ends once"
        half = len(facts) // 2
        store.snapshot(half, encode(beginning(store).after(facts[:half])))
        view = state.view
        assert load_state(store, view.cluster, view.pools, state.policy) == state
    finally:
        store.close()


def test_jobs_outlive_a_daemon_that_is_killed_three_times(make: Make) -> None:
    trial = Trial(make, seed=3)
    trial.daemon.start()
    trial.train("pair", "1..2")
    trial.kill_while_starting_jobs()
    trial.kill_while_submitting()
    trial.submit_rest()
    (pair,) = trial.trainings
    pair.ahead()
    trial.kill()
    pair.ahead()  # with nobody there
    trial.daemon.start()
    pair.ahead()
    trial.finish()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_six_jobs_outlive_a_daemon_that_is_killed_ten_times(make: Make, seed: int) -> None:
    trial = Trial(make, seed)
    trial.daemon.start()
    trial.train("solo", "1")
    trial.train("pair", "1..2")
    trial.kill_after_submission()
    trial.kill_while_starting_jobs()
    trial.kill_while_submitting()
    while trial.kills < 9:
        trial.any_kill()()
    trial.submit_rest()
    for training in trial.trainings:
        training.ahead()
    trial.kill()
    for training in trial.trainings:
        training.ahead()  # with nobody there
    trial.daemon.start()
    trial.finish()
