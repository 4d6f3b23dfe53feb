"""How jobs share their work: what the cycle decides for tasks, and when it decides otherwise."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.cycle.plans import CHANGE_SECONDS, CLEARLY, DWELL
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.model.cluster import Cluster
from muster.model.decision import Decision, Kind
from muster.model.event import Started, TasksLost
from muster.model.job import Job, Need, Program, Role, RoleSpec
from muster.model.outlook import Outlook, Table
from muster.model.placement import Placement
from muster.model.plan import ChosenPlan, Sync
from muster.model.pool import Entitlements
from muster.model.profile import CapturedShape, LayerType, ModelProfile, Tensor
from muster.model.reason import Code
from muster.model.topology import Link
from muster.model.view import View
from muster.perf.history.links import LinkHistory
from muster.perf.predict import Knowledge
from muster.policy.base import Shares, exactly
from muster.policy.published.fifo import Fifo
from tests.builders import GB, cluster, job, mixed, node_set, placement, running, view

LAYERS = ((LayerType.DENSE, 1.0),)
MODEL = ModelProfile(
    "large", (Tensor("w", 400_000_000, 0.5), Tensor("v", 400_000_000, 1.0)), 1e9, 1000, LAYERS, 1, 1, 32
)
"""0.8 GB of gradients, and little computing: links decide."""
SHAPE = CapturedShape(MODEL, 128)
FAST, SLOW = 1.25e9, 0.25e9
"""Bytes/s of network cards."""
NOW = 1000.0
SERVER = Need(millicores=1_000, memory=8 * GB)


def one_device(name: str = "a", nic: float = FAST, **fields: Any) -> Any:
    kind = node_set(name, devices=1, sockets=1, switches=1, **fields)
    return replace(kind, nic=Link(nic, 5e-6))


def equal(nodes: int = 4) -> Cluster:
    return cluster(nodes, one_device())


def one_slow() -> Cluster:
    return mixed((3, one_device()), (1, one_device("b", SLOW)))


def known(seen: View, shape: CapturedShape = SHAPE, **fields: Any) -> View:
    return replace(seen, shapes=dict.fromkeys(seen.jobs, shape), **fields)


def decided(seen: View, now: float = NOW, cycle: Cycle | None = None) -> Decisions:
    found = (cycle or Cycle(Fifo())).decide(seen, now, Memory())
    check(seen, found)
    return found


def only(found: Decisions) -> Decision:
    (decision,) = found.decisions
    return decision


def plan_of(seen: View) -> ChosenPlan:
    plan = only(decided(seen)).plan
    assert plan is not None
    return plan


def spread_over(nodes: int) -> Placement:
    return placement(*((f"n{i}", 1) for i in range(nodes)))


def at_work(on: Cluster, plan: ChosenPlan | None, nodes: int = 4, **fields: Any) -> View:
    return view(on, [running(job("a", nodes, **fields), spread_over(nodes), plan=plan)])


# --- what is decided ---


def test_equal_links_get_a_ring_with_owners_as_runner_up() -> None:
    plan = plan_of(known(view(equal(), [job("a", 4)])))
    assert (plan.sync, plan.owners, plan.batch) == (Sync.RING, (), ())
    # 2 · 3/4 · 0.8 GB over 1.25 GB/s, less what hides behind computing.
    assert plan.step == pytest.approx(0.96, rel=0.1)
    assert plan.runner_up is Sync.SHARDED
    assert plan.runner_up_step is not None
    assert plan.runner_up_step >= CLEARLY * plan.step


def test_a_slow_link_gets_owners_on_the_others() -> None:
    """The slow card must carry all gradients once: 0.8 / 0.25 = 3.2 s; in a ring 1.5 times that."""
    plan = plan_of(known(view(one_slow(), [job("a", 4, same_generation=False)])))
    assert plan.sync is Sync.SHARDED
    assert sorted(plan.owners)[0] == 0.0
    assert sum(plan.owners) == pytest.approx(1.0)
    assert plan.step == pytest.approx(3.2, rel=0.05)
    assert plan.runner_up is Sync.RING
    assert plan.runner_up_step == pytest.approx(4.8, rel=0.05)


def test_the_slow_devices_get_fewer_samples() -> None:
    compute = replace(MODEL, operations=1e12, tensors=MODEL.tensors[:1])
    kinds = (2, one_device()), (2, one_device("b", device_type="V100"))
    seen = known(view(mixed(*kinds), [job("a", 4, same_generation=False)]), CapturedShape(compute, 96))
    plan = plan_of(seen)
    assert sum(plan.batch) == 96
    assert len(set(plan.batch)) == 2


def test_a_named_model_is_planned_before_anything_is_captured() -> None:
    decision = only(decided(view(equal(), [job("a", 4, model=MODEL, batch=128)])))
    assert decision.kind is Kind.START
    assert decision.plan == plan_of(known(view(equal(), [job("a", 4)])))


def test_a_training_that_nobody_knows_decides_by_itself() -> None:
    assert only(decided(view(equal(), [job("a", 4)]))).plan is None


def test_a_single_worker_has_nothing_to_share() -> None:
    assert only(decided(known(view(equal(), [job("a", 1)])))).plan is None


@pytest.mark.parametrize("sync", ["ring", "sharded"])
def test_what_the_user_forces_is_only_priced(sync: str) -> None:
    asked = job("a", 4, same_generation=False, program=Program(sync=sync))
    plan = plan_of(known(view(one_slow(), [asked])))
    assert (plan.sync.value, plan.runner_up) == (sync, None)


def test_updating_owners_are_never_a_ring() -> None:
    asked = job("a", 4, program=Program(owners="update"))
    assert plan_of(known(view(equal(), [asked]))).sync is Sync.SHARDED


def test_the_plan_is_part_of_the_state_until_tasks_are_lost() -> None:
    seen = known(view(equal(), [job("a", 3, gang=2, most=3)]))
    events = begun(decided(seen), NOW)
    after = evolve(seen, [*events, Started(*_key(seen, 1), NOW)])
    (state,) = after.jobs.values()
    assert (state.plan, state.planned) == (only(decided(seen)).plan, NOW)
    assert state.placement is not None
    left = state.placement.without(state.placement.slots[-1:])
    (state,) = evolve(after, [TasksLost(*_key(after, 2), left, NOW)]).jobs.values()
    assert state.plan is None


def _key(seen: View, generation: int) -> tuple[int, int]:
    (number,) = seen.jobs
    return number, generation


# --- when it is decided otherwise ---

RING = ChosenPlan(Sync.RING, 0.96)


def replanned(seen: View, now: float = NOW) -> ChosenPlan | None:
    found = decided(seen, now).decisions
    assert all(d.kind is Kind.REPLAN and d.reason.code is Code.REPLANNED for d in found)
    return found[0].plan if found else None


def slowed(*nodes: str) -> Knowledge:
    return Knowledge(links=LinkHistory(nodes=dict.fromkeys(nodes, SLOW)))


def test_a_running_job_is_planned_once_its_training_is_known() -> None:
    seen = at_work(one_slow(), None)
    assert replanned(seen) is None
    plan = replanned(known(seen))
    assert plan is not None
    assert plan.sync is Sync.SHARDED


def test_a_link_that_is_learnt_to_be_slow_changes_the_plan_of_running_jobs() -> None:
    seen = known(at_work(equal(), RING))
    assert replanned(seen) is None
    plan = replanned(replace(seen, knowledge=slowed("n2")))
    assert plan is not None
    assert (plan.sync, plan.owners[2]) == (Sync.SHARDED, 0.0)


def test_the_change_is_not_worth_it_at_the_end() -> None:
    """A step falls from 4.8 to 3.2 s, by a third: what is left must gain more than the change costs."""
    seen = known(at_work(equal(), RING), knowledge=slowed("n2"))
    (number,) = seen.jobs
    for left, changes in ((2 * CHANGE_SECONDS, False), (4 * CHANGE_SECONDS, True)):
        outlook = Outlook(left, Table((1.0,)), here=1.0)
        found = replanned(replace(seen, outlooks={number: outlook}))
        assert (found is not None) == changes


def test_a_new_plan_is_given_some_time() -> None:
    seen = known(at_work(equal(), RING), knowledge=slowed("n2"))
    (number,) = seen.jobs
    young = replace(seen, jobs={number: replace(seen.jobs[number], planned=NOW - DWELL / 2)})
    found = decided(young)
    assert found.decisions == ()
    assert found.again == NOW + DWELL / 2
    assert replanned(young, NOW + DWELL) is not None


def test_each_change_doubles_the_time_until_the_next() -> None:
    seen = known(at_work(equal(), replace(RING, turns=3)), knowledge=slowed("n2"))
    (number,) = seen.jobs
    seen = replace(seen, jobs={number: replace(seen.jobs[number], planned=NOW)})
    assert replanned(seen, NOW + 7 * DWELL) is None
    plan = replanned(seen, NOW + 8 * DWELL)
    assert plan is not None
    assert plan.turns == 4


def test_what_was_measured_on_both_ways_decides() -> None:
    """The models say sharded, but the job has seen it take longer than a ring."""
    measured = (("ring", 4.0), ("sharded", 5.0))
    sharded = ChosenPlan(Sync.SHARDED, 3.2, owners=(0.334, 0.333, 0.333, 0.0))
    seen = at_work(one_slow(), sharded)
    assert replanned(known(seen)) is None
    plan = replanned(known(seen, replace(SHAPE, measured=measured)))
    assert plan is not None
    assert (plan.sync, plan.step) == (Sync.RING, 4.0)


def test_what_was_measured_of_the_owners_in_force_tells_of_better_ones() -> None:
    """The slow card owns as much as the others, as long as it was believed to be as fast."""
    even = ChosenPlan(Sync.SHARDED, 1.2, owners=(0.25, 0.25, 0.25, 0.25))
    seen = known(at_work(one_slow(), even), replace(SHAPE, measured=(("sharded", 5.0),)))
    plan = replanned(seen)
    assert plan is not None
    assert (plan.sync, min(plan.owners)) == (Sync.SHARDED, 0.0)
    # Its card carries (1 + (4 - 2) / 4) times the gradients with a quarter of them, once with none.
    assert plan.step == pytest.approx(5.0 / 1.5, rel=0.05)


def test_an_error_common_to_all_ways_changes_nothing() -> None:
    """Twice as slow as predicted: so would be the other way."""
    seen = known(at_work(equal(), RING), replace(SHAPE, measured=(("ring", 2.0),)))
    assert replanned(seen) is None


def test_a_quiet_cycle_asks_nothing_again() -> None:
    seen, cycle = known(at_work(equal(), RING)), Cycle(Fifo())
    assert decided(seen, cycle=cycle).decisions == ()
    assert decided(replace(seen, version=seen.version), NOW + 60, cycle).decisions == ()


# --- servers or none ---


def with_optional(workers: int, servers: int, **fields: Any) -> Job:
    asked = job("a", workers, **fields)
    return replace(asked, roles=(*asked.roles, RoleSpec(Role.SERVER, SERVER, 0, 0, servers)))


def idle_cpus(nodes: int) -> Cluster:
    """Three nodes with a device, and some without, with faster cards."""
    cpu = replace(node_set("c", devices=0), nic=Link(4 * FAST, 5e-6))
    return mixed((3, one_device()), (nodes, cpu))


def test_servers_go_to_idle_cards_where_they_help() -> None:
    """A worker's card carries 4/3 of the gradients in a ring, and all of them once with servers."""
    decision = only(decided(known(view(idle_cpus(2), [with_optional(3, 2)]))))
    assert decision.placement is not None
    assert decision.plan is not None
    servers = [slot.node for slot in decision.placement.slots if slot.role is Role.SERVER]
    assert decision.plan.sync is Sync.DEDICATED
    assert set(servers) <= {"n3", "n4"}
    assert len(decision.plan.owners) == len(servers) > 0


def test_no_servers_where_they_would_be_in_the_way() -> None:
    """Two workers need no more than a ring: each card carries all gradients once."""
    decision = only(decided(known(view(equal(2), [with_optional(2, 2)]))))
    assert decision.placement is not None
    assert decision.placement.count(Role.SERVER) == 0


def test_an_unknown_training_gets_no_optional_servers() -> None:
    decision = only(decided(view(idle_cpus(2), [with_optional(3, 2)])))
    assert decision.placement is not None
    assert decision.placement.count(Role.SERVER) == 0


def test_a_running_job_gets_servers_once_it_is_known_and_keeps_them() -> None:
    asked = with_optional(3, 2)
    seen = view(idle_cpus(2), [running(asked, spread_over(3))])
    decision = only(decided(known(seen)))
    assert (decision.kind, decision.reason.code) == (Kind.RESIZE, Code.STAFFED)
    assert decision.placement is not None
    grown = view(idle_cpus(2), [running(asked, decision.placement, plan=decision.plan)])
    assert decided(known(grown)).decisions == ()


def test_servers_whose_cards_turn_out_slow_are_let_go() -> None:
    asked = with_optional(3, 1)
    server = replace(placement(("n3", 0)).slots[0], role=Role.SERVER, need=SERVER)
    placed = Placement((*spread_over(3).slots, server))
    plan = ChosenPlan(Sync.DEDICATED, 0.7, owners=(1.0,))
    seen = known(view(idle_cpus(1), [running(asked, placed, plan=plan)]), knowledge=slowed("n3"))
    decision = only(decided(seen))
    assert decision.placement is not None
    assert decision.placement.count(Role.SERVER) == 0
    assert decision.plan is not None
    assert decision.plan.sync is Sync.RING


@dataclass(frozen=True, slots=True)
class Grows:
    """A policy that steers: one job gets this many workers."""

    workers: int
    name: str = "grows"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        return Shares(tuple(exactly(job, self.workers) for job in view.jobs), memory, steers=True)


def test_a_job_that_a_policy_grows_keeps_the_servers_that_help() -> None:
    """Placed as a whole it takes three nodes, beside what it has four; its servers stay either way."""
    two = replace(node_set("a", devices=2, sockets=1, switches=1), nic=Link(FAST, 5e-6))
    idle = replace(node_set("c", devices=0), nic=Link(4 * FAST, 5e-6))
    asked = with_optional(4, 2, most=6, program=Program(sync="dedicated"))
    servers = tuple(
        replace(slot, role=Role.SERVER, need=SERVER) for slot in placement(("n4", 0), ("n5", 0)).slots
    )
    placed = Placement((*spread_over(4).slots, *servers))
    plan = ChosenPlan(Sync.DEDICATED, 1.0, owners=(0.5, 0.5))
    seen = known(view(mixed((4, two), (2, idle)), [running(asked, placed, plan=plan)]))
    decision = only(decided(seen, cycle=Cycle(Grows(6))))
    assert decision.placement is not None
    assert len(decision.placement.nodes()) == 3 + len(servers)
    assert set(servers) <= set(decision.placement.slots)


def test_servers_leave_room_for_a_worker_on_each_free_device() -> None:
    """The node with the fastest card has cores for a worker on its device, and few more."""
    asked = with_optional(3, 2, same_generation=False)
    cores = asked.workers.need.millicores + SERVER.millicores // 2
    tight = replace(one_device("t", 8 * FAST, device_type="V100"), millicores=cores)
    idle = replace(node_set("c", devices=0), nic=Link(4 * FAST, 5e-6))
    on = mixed((3, one_device()), (1, tight), (1, idle))
    decision = only(decided(known(view(on, [replace(asked, device_types=("A100",))]))))
    assert decision.placement is not None
    servers = [slot.node for slot in decision.placement.slots if slot.role is Role.SERVER]
    assert servers[0] == "n4"
    assert "n3" not in servers
