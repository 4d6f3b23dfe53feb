"""The start of a daemon on another cluster than the one its journal knows."""

import asyncio
from pathlib import Path

import pytest

from muster.daemon.loop.recover import ClusterChangedError, load_state
from muster.model.cluster import Cluster
from muster.model.event import Cancelled, NodeAdded, NodeDraining, Submitted
from muster.model.pool import single_pool, whole_pool
from muster.model.topology import ConfigurationSet
from muster.store.batch import Batch
from muster.store.store import open_store
from tests.builders import LINKS, cluster, job, node_set
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, state_of, until


async def left_running(tmp_path: Path, machine: Machine) -> None:
    """A daemon that is stopped while a job runs."""
    async with running_daemon(tmp_path, machine) as made:
        await made.service.submit(ANN, program("a"))
        await until(made, lambda: state_of(made, "a").phase == "running")


def test_a_job_that_ended_meanwhile_does_not_keep_the_devices_as_they_were(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        await left_running(tmp_path, machine)
        (task,) = machine.processes
        machine.finish(task)
        async with running_daemon(tmp_path, machine, devices=2) as made:
            assert (await made.service.job(ANN, "a")).job.status == "succeeded"
            assert (await made.service.status()).devices == 2

    asyncio.run(scenario())


def test_a_job_that_still_runs_does_and_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        await left_running(tmp_path, machine)
        with pytest.raises(ClusterChangedError, match="active: a; start with the same devices"):
            async with running_daemon(tmp_path, machine, devices=2):
                pass

    asyncio.run(scenario())


# Nodes that come and go


def opened(*kinds: ConfigurationSet) -> Cluster:
    return Cluster("fleet", {kind.name: kind for kind in kinds}, (), LINKS, open=True)


def test_the_nodes_of_an_open_cluster_come_from_the_journal(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "muster.db"))
    load_state(store, opened(), whole_pool(), "fifo")
    joined = cluster(2, node_set("a")).nodes
    facts = [NodeAdded(node, 1.0, node_set("a")) for node in joined]
    drained = NodeDraining("n1", 3.0, 9.0, "full")
    store.write(Batch(facts=(*facts, Submitted(job("j", 2, number=1), 2.0), drained)))
    state = load_state(store, opened(node_set("b")), whole_pool(), "fifo")
    assert [node.name for node in state.view.cluster.nodes] == ["n0", "n1"]
    assert (state.view.cluster.node("n1").until, state.view.cluster.node("n1").why) == (9.0, "full")
    assert set(state.view.cluster.configurations) == {"a", "b"}
    assert len(state.view.jobs) == 1
    assert state.view.pools.pools["default"].quota("A100").reservation == 16
    store.close()


def test_a_set_that_neither_a_node_nor_the_file_has_is_forgotten_at_a_restart(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "muster.db"))
    load_state(store, opened(node_set("old")), whole_pool(), "fifo")
    assert load_state(store, opened(), whole_pool(), "fifo").view.cluster.configurations == {}
    store.close()


def test_a_fixed_list_does_not_become_a_fleet_while_jobs_live(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "muster.db"))
    load_state(store, cluster(1), single_pool(), "fifo")
    store.write(Batch(facts=(Submitted(job("j", number=1), 2.0),)))
    with pytest.raises(ClusterChangedError, match="these jobs are active: j"):
        load_state(store, opened(), whole_pool(), "fifo")
    store.write(Batch(facts=(Cancelled(1, 3.0),)))
    assert load_state(store, opened(), whole_pool(), "fifo").view.cluster.nodes == ()
    store.close()
