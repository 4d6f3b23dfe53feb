"""A whole simulation: equal to the digit, hashed by what it depends on, everything accounted for."""

from collections import Counter
from dataclasses import replace

import pytest

from muster.model.event import NodeLost, NodeReturned
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from muster.sim.disturbance import Disturbance
from muster.sim.engine import Setting
from muster.sim.executor import Pauses
from muster.sim.result import Fate
from muster.sim.scenario.run import digest, simulate
from muster.sim.truth import Arrival
from tests.builders import job
from tests.unit.sim.scripted import arrival, run, setting

PAUSES = Pauses(start=30.0, resize=10.0, migrate=20.0, release=0.0)


def jobs() -> list[Arrival]:
    sizes = ((1, 1), (1, 4), (2, 6), (4, 4), (1, 8), (3, 3), (2, 2), (1, 2), (9, 9))
    return [
        arrival(job(f"j{i}", few, most=many, restarts=i % 3 == 0), 200.0 + 70.0 * i, at=20.0 * i)
        for i, (few, many) in enumerate(sizes)
    ]


def busy(name: str) -> Setting:
    return setting(
        POLICIES[name],
        pauses=PAUSES,
        disturbance=Disturbance(network=0.2, node=0.1),
        incidents=(NodeLost("n1", 222.0), NodeReturned("n1", 444.0)),
    )


@pytest.mark.parametrize("name", POLICIES)
def test_twice_the_same_is_equal_to_the_digit(name: str) -> None:
    one, other = (simulate(busy(name), jobs(), {"trace": "x"}, stints=True) for _ in range(2))
    assert replace(one, cpu=0.0) == replace(other, cpu=0.0)


@pytest.mark.parametrize("name", POLICIES)
def test_every_job_is_accounted_for(name: str) -> None:
    result = run(busy(name), *jobs())
    fates = Counter(record.fate for record in result.records)
    assert fates == {Fate.DONE: 8, Fate.REFUSED: 1}
    assert result.policy == name
    assert [note.startswith("refused 1:") for note in result.notes] == [True]
    assert [record.name for record in result.records] == [f"j{i}" for i in range(9)]


def test_a_refused_job_is_a_record_without_a_life() -> None:
    (record,) = run(setting(Fifo()), arrival(job("huge", 9), 450.0)).records
    assert (record.fate, record.started, record.ended, record.held) == (Fate.REFUSED, None, None, 0.0)
    assert (record.alone, record.devices) == (50.0, 9)


def test_with_the_gate_open_it_waits_instead() -> None:
    result = run(setting(Fifo(), admission=False), arrival(job("huge", 9)))
    assert result.records[0].fate is Fate.UNFINISHED
    assert any("unfinished 1: waiting" in note for note in result.notes)


def test_stints_are_kept_only_where_asked_for() -> None:
    assert run(setting(Fifo()), arrival(job("j")), stints=False).stints == ()


def test_progress_counts_up_to_all_jobs_that_ran() -> None:
    told: list[tuple[int, float]] = []
    simulate(setting(Fifo()), jobs(), progress=lambda done, at: told.append((done, at)))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == 8
    assert [at for _, at in told] == sorted(at for _, at in told)


def test_the_hash_depends_on_configuration_and_seed_and_not_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": 2}, 0) == digest({"b": 2, "a": 1}, 0)
    assert len({digest({"a": 1}, 0), digest({"a": 2}, 0), digest({"a": 1}, 1)}) == 3
    assert simulate(setting(Fifo(), seed=3), (), {"a": 1}).hash == digest({"a": 1}, 3)
