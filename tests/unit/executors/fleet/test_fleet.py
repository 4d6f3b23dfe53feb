"""Orders reach the agents of their nodes, and nodes come, fall silent, return and go."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from muster.executors.fleet.fleet import KILL_MARGIN
from muster.model.cluster import NodeState
from muster.model.event import NodeAdded, NodeDraining, NodeLost
from muster.model.task import LEASE, TaskExited
from muster.ports import NodeDeparts, NodeGone
from muster.wire.agents.agent_messages import (
    AGENT_VERSION,
    AgentAlive,
    AgentRefused,
    AttachTasks,
    DaemonAlive,
    Departing,
    ReportStored,
    Retire,
    RunTask,
    SendSignal,
    Welcome,
)
from muster.wire.api.records import NodeHealth
from tests.unit.executors.fleet.talking import LOST_AFTER, Talk, World, order, task


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def why(talk: Talk) -> str:
    (refused,) = talk.of(AgentRefused)
    assert talk.ended
    return refused.why


def kills(talk: Talk) -> list[str]:
    return [each.task for each in talk.of(SendSignal) if each.number == signal.SIGKILL]


def test_an_agent_that_calls_makes_its_node_part_of_the_cluster(world: World) -> None:
    talk = world.call("gpu1")
    (added,) = world.reports
    assert isinstance(added, NodeAdded)
    assert added.node.offer is not None
    assert (added.node.name, added.node.offer.devices) == ("gpu1", 4)
    assert added.configuration is not None
    (welcome,) = talk.of(Welcome)
    assert welcome.lost_after == LOST_AFTER
    assert 0 < welcome.beat < LOST_AFTER


def test_an_order_goes_to_its_node_alone_and_comes_back_as_reports(world: World) -> None:
    one, other = world.call("gpu1"), world.call("gpu2")
    world.heard()
    world.fleet.start(order(task(), "gpu2"))
    assert not one.of(RunTask)
    (sent,) = other.of(RunTask)
    assert (sent.task, sent.order["argv"]) == (str(task()), ("train",))
    world.started(other, task())
    world.exited(other, task(), 3)
    assert world.heard() == ["started worker-0", "exited worker-0 3"]
    assert other.of(ReportStored)[-1].seq == 2


def test_times_are_the_daemons_whatever_the_node_says(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.now += 100
    world.report(talk, TaskExited(task(), 0.0, 0), age=40.0)
    assert world.reports[-1].at == world.now - 40
    world.fleet.start(order(task(1)))
    world.report(talk, TaskExited(task(1), 0.0, 0), age=10_000.0)
    assert world.reports[-1].at == world.now, "not before it was ordered"


def test_an_agent_speaks_of_its_own_tasks_alone(world: World) -> None:
    one, other = world.call("gpu1"), world.call("gpu2")
    world.fleet.start(order(task(), "gpu1"))
    world.heard()
    world.exited(other, task())
    world.exited(other, task(5))
    assert world.heard() == []
    world.exited(one, task())
    assert world.heard() == ["exited worker-0 0"]


def test_a_report_that_is_resent_counts_once(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.heard()
    world.started(talk, task())
    world.fleet.cut(talk)
    again = world.call(living=(task(),))
    assert again.of(Welcome)[0].reported == 1
    world.started(again, task())
    assert world.heard() == ["started worker-0"]


def test_orders_for_an_agent_that_is_away_wait_for_it(world: World) -> None:
    world.fleet.cut(world.call())
    world.heard()
    world.fleet.start(order(task()))
    assert world.heard() == []
    again = world.call()
    assert [each.task for each in again.of(RunTask)] == [str(task())]


def test_an_order_that_may_be_lost_with_its_connection_is_sent_again(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.fleet.signal(task(), signal.SIGTERM)
    world.fleet.cut(talk)
    again = world.call()
    assert [type(each) for each in again.said] == [Welcome, RunTask, SendSignal]


def test_a_node_that_is_silent_for_too_long_is_lost_with_its_tasks(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.started(talk, task())
    world.heard()
    world.wait(LOST_AFTER - 1)
    assert world.heard() == []
    world.wait(2)
    lost = world.reports[0]
    assert isinstance(lost, NodeLost)
    assert "silent for 31 s" in lost.why
    assert world.heard() == ["NodeLost gpu1", "exited worker-0 unknown"]
    world.exited(talk, task())
    assert world.heard() == []


def test_an_agent_that_beats_is_answered_and_never_lost(world: World) -> None:
    talk = world.call()
    for beat in range(1, 20):
        world.wait(5)
        world.fleet.heard(talk, AgentAlive({"load": 1.0}, beat))
    assert world.heard() == ["NodeAdded gpu1"]
    assert [each.beat for each in talk.of(DaemonAlive)] == list(range(1, 20))
    assert world.fleet.health["gpu1"][1] == NodeHealth(load=1.0)


def test_only_an_agent_that_looked_for_the_daemons_files_and_did_not_see_them_is_blind(
    world: World,
) -> None:
    said: dict[str, dict[str, object]]
    said = {"a": {"shares": True}, "b": {"shares": False}, "c": {"load": 1.0}}
    for node, health in said.items():
        world.fleet.heard(world.call(node), AgentAlive(health))
    assert world.fleet.blind == {"b"}
    world.fleet.heard(world.call("b"), AgentAlive({"shares": True}))
    assert not world.fleet.blind


def test_what_was_never_sent_has_never_begun_when_its_node_is_lost(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task(0)))
    world.fleet.cut(talk)
    world.fleet.start(order(task(1)))
    world.heard()
    world.wait(LOST_AFTER + 1)
    assert world.heard() == ["NodeLost gpu1", "exited worker-0 unknown", "exited worker-1 never began"]
    world.fleet.start(order(task(2)))
    assert world.heard() == ["exited worker-2 never began"]


def test_a_node_returns_only_when_tasks_that_were_given_up_are_dead(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task(0)))
    world.fleet.start(order(task(1)))
    world.wait(LOST_AFTER + 1)
    world.heard()
    world.fleet.cut(talk)
    again = world.call(living=(task(0), task(1)))
    assert kills(again) == [str(task(0)), str(task(1))]
    world.exited(again, task(0), None)
    assert world.heard() == []
    world.exited(again, task(1), None)
    assert world.heard() == ["NodeReturned gpu1"]


def test_a_lost_node_without_tasks_returns_at_once(world: World) -> None:
    world.fleet.cut(world.call())
    world.wait(LOST_AFTER + 1)
    world.call(run="b")
    assert world.heard() == ["NodeAdded gpu1", "NodeLost gpu1", "NodeReturned gpu1"]


def test_a_new_node_with_tasks_of_nobody_joins_when_they_are_dead(world: World) -> None:
    talk = world.call(living=(task(),))
    assert world.heard() == []
    assert kills(talk) == [str(task())]
    world.exited(talk, task(), None)
    assert world.heard() == ["NodeAdded gpu1"]


def test_an_engine_that_has_lost_a_node_is_believed_at_once(world: World) -> None:
    world.call()
    world.fleet.start(order(task()))
    world.heard()
    world.fleet.hear_provider(NodeGone("gpu1", "preempted"))
    assert world.heard() == ["NodeLost gpu1", "exited worker-0 unknown", "NodeLeft gpu1"]
    world.call(run="b")
    assert world.heard() == ["NodeAdded gpu1"]


def test_a_node_that_will_be_taken_back_is_drained_until_then(world: World) -> None:
    talk = world.call()
    world.heard()
    world.fleet.hear_provider(NodeDeparts("gpu1", 60.0, "time limit"))
    world.fleet.heard(talk, Departing(60.0, "time limit"))
    (draining,) = world.reports
    assert isinstance(draining, NodeDraining)
    assert (draining.until, draining.why) == (world.now + 60, "time limit")
    world.heard()
    world.fleet.cut(talk)
    assert world.heard() == ["NodeLeft gpu1"]


def test_a_departing_node_with_tasks_is_lost_not_gone_when_it_falls_silent(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.fleet.heard(talk, Departing(10.0, "SIGTERM"))
    world.heard()
    world.fleet.cut(talk)
    assert world.heard() == []
    world.wait(LOST_AFTER + 1)
    assert world.heard() == ["NodeLost gpu1", "exited worker-0 unknown"]


def test_the_next_agent_of_a_departing_node_takes_it_up_again(world: World) -> None:
    talk = world.call(run="a")
    world.fleet.start(order(task()))
    world.fleet.heard(talk, Departing(10.0, "SIGTERM"))
    world.heard()
    world.fleet.cut(talk)
    world.call(run="b", living=(task(),))
    assert world.heard() == ["NodeReturned gpu1"]


def test_the_agent_of_a_departing_node_is_ended_once_the_node_is_empty(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.fleet.hear_provider(NodeDeparts("gpu1", 60.0, "Ray drains it"))
    world.wait(1.0)
    assert not talk.of(Retire), "it has a task"
    world.started(talk, task())
    world.exited(talk, task())
    world.wait(1.0)
    assert talk.of(Retire)[0].why == "Ray drains it"


# --- after a restart of the daemon ---


def restarted(world: World, folder: Path) -> World:
    nodes = [each.node for each in world.fleet.nodes.values() if each.node]
    next_one = World(folder / "next", attached=False, epoch=2)
    next_one.fleet.expect(nodes)
    return next_one


def test_a_restarted_daemon_asks_each_node_for_its_tasks(world: World, tmp_path: Path) -> None:
    world.call("gpu1")
    world.call("gpu2")
    later = restarted(world, tmp_path)
    later.fleet.attach({task(0): "gpu1", task(1): "gpu2"})
    one, two = later.call("gpu1", living=(task(0),)), later.call("gpu2")
    assert [each.tasks for each in one.of(AttachTasks)] == [(str(task(0)),)]
    assert [each.tasks for each in two.of(AttachTasks)] == [(str(task(1)),)]
    later.started(one, task(0))
    later.exited(two, task(1), 4)
    assert later.heard() == ["started worker-0", "exited worker-1 4"]
    assert not kills(one)


def test_tasks_of_an_agent_that_calls_before_they_are_known_are_not_killed(
    world: World, tmp_path: Path
) -> None:
    world.call()
    later = restarted(world, tmp_path)
    talk = later.call(living=(task(0), task(1)))
    later.fleet.attach({task(0): "gpu1"})
    assert kills(talk) == [str(task(1))]
    later.exited(talk, task(1), None)
    later.started(talk, task(0))
    assert later.heard() == ["started worker-0"]


def test_nodes_of_the_journal_count_as_silent_from_the_start(world: World, tmp_path: Path) -> None:
    world.call()
    later = restarted(world, tmp_path)
    later.fleet.attach({task(0): "gpu1"})
    later.wait(LOST_AFTER - 1)
    assert later.heard() == []
    later.wait(2)
    assert later.heard() == ["NodeLost gpu1", "exited worker-0 unknown"]


# --- agents that cannot stay ---


def test_the_second_agent_of_a_node_is_refused_in_one_line(world: World) -> None:
    world.call(run="a")
    said = why(world.call(run="b"))
    assert "node gpu1 has another agent" in said
    assert "--node" in said
    world.wait(2 * world.fleet.beat + 1)
    assert world.call(run="b").of(Welcome)


def test_an_agent_of_another_version_is_refused_and_both_are_named(world: World) -> None:
    talk = world.call(change=lambda hello: replace(hello, version=99, release="9.9"))
    said = why(talk)
    assert "version 99 (Muster 9.9)" in said
    assert f"version {AGENT_VERSION} (Muster 1.0)" in said
    assert talk.of(AgentRefused)[0].final
    assert world.heard() == []


def test_an_agent_that_has_obeyed_a_newer_daemon_is_not_taken_from_it(world: World) -> None:
    said = why(world.call(change=lambda hello: replace(hello, epoch=5)))
    assert "a newer daemon is in charge" in said


def test_an_agent_with_the_certificate_of_another_node_is_refused(world: World) -> None:
    said = why(world.call("gpu1", change=lambda hello: replace(hello, node="gpu2")))
    assert "certificate is of node gpu1" in said


def test_a_node_whose_devices_changed_is_refused_while_it_has_tasks(world: World) -> None:
    world.fleet.cut(world.call())
    world.fleet.start(order(task()))
    world.heard()
    said = why(world.call(devices=2))
    assert "other devices" in said
    assert "muster node drain gpu1" in said


def test_a_node_without_tasks_may_change_its_devices(world: World) -> None:
    world.fleet.cut(world.call())
    world.heard()
    world.call(devices=2)
    (added,) = world.reports
    assert isinstance(added, NodeAdded)
    assert added.node.offer is not None
    assert added.node.offer.devices == 2


def test_an_offer_that_cannot_be_is_refused_in_one_line(world: World) -> None:
    for wrong in ({"ports": (5, 2)}, {"millicores": 0}, {"device_type": "a b/c"}):
        talk = world.call(**wrong)
        assert "\n" not in why(talk)
    assert world.heard() == []


def test_a_revoked_node_is_lost_and_its_connection_ends(world: World) -> None:
    talk = world.call()
    world.fleet.start(order(task()))
    world.heard()
    world.fleet.revoke("gpu1")
    assert why(talk) == "node gpu1 was revoked"
    assert world.heard() == ["NodeLost gpu1", "exited worker-0 unknown"]


def test_a_task_that_runs_at_most_once_ends_when_its_lease_must_be_over(world: World) -> None:
    world.call()
    world.fleet.start(replace(order(task()), lease=60.0))
    world.fleet.start(order(task(1)))
    world.heard()
    world.wait(LOST_AFTER + 1)
    assert [each for each in world.heard() if "exited" in each] == ["exited worker-1 unknown"]
    world.wait(60.0 - LOST_AFTER)
    assert world.heard() == []
    world.wait(KILL_MARGIN + 1)
    assert world.heard() == ["exited worker-0 unknown"]


def test_a_leased_task_that_is_reported_dead_ends_at_once(world: World) -> None:
    world.call()
    world.fleet.start(replace(order(task()), lease=60.0))
    world.wait(LOST_AFTER + 1)
    world.heard()
    again = world.call()
    world.exited(again, task(), 9)
    assert "exited worker-0 9" in world.heard()
    world.wait(200.0)
    assert not [each for each in world.heard() if "exited" in each]


def test_an_engine_that_saw_a_node_die_spares_the_lease(world: World) -> None:
    world.call("gpu1")
    world.fleet.start(replace(order(task(), "gpu1"), lease=60.0))
    world.heard()
    world.fleet.hear_provider(NodeGone("gpu1", "its allocation is over"))
    assert "exited worker-0 unknown" in world.heard()


def test_a_restarted_daemon_waits_out_a_lease_that_it_did_not_see_begin(tmp_path: Path) -> None:
    before, world = World(tmp_path / "before"), World(tmp_path, attached=False)
    before.call("gpu1")
    (added,) = before.reports
    assert isinstance(added, NodeAdded)
    world.fleet.expect([replace(added.node, state=NodeState.LOST)])
    world.fleet.attach({task(): "gpu1"})
    world.wait(LEASE)
    assert world.heard() == []
    world.wait(KILL_MARGIN + 1)
    assert world.heard() == ["exited worker-0 unknown"]
