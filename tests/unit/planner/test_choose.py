"""Which plan is chosen, and why none is."""

from dataclasses import replace

import pytest

from muster.model.cluster import Cluster
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.plan import Sync
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import ConfigurationSet, Level, Link
from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.predict import Predictor
from muster.planner.choose import Aim, Chosen, Planner, fewest
from tests.builders import GB, mixed, node_set

MB = 10**6


def model(megabytes: int, operations: float, *, activations: int = MB) -> ModelProfile:
    """Gradients in ten tensors that become ready one after the other; operations for each sample."""
    tensors = tuple(Tensor(f"t{i}", megabytes * MB // 10, (i + 1) / 10) for i in range(10))
    layers = ((LayerType.CONVOLUTION, 1.0),)
    return ModelProfile("m", tensors, operations, activations, layers, 10**6, 10**5, 32)


LIGHT = model(10, 1e11)
"""Computes long, moves little."""
HEAVY = model(2_000, 1e9)
"""Computes little, moves a lot."""


def slow_card(name: str, devices: int) -> ConfigurationSet:
    return replace(node_set(name, devices=devices), nic=Link(1.25e9, 1e-5))


def wide(cluster: Cluster) -> Cluster:
    """A network in which only cards can be slow."""
    free = Link(1e12, 1e-5)
    return replace(cluster, links={Level.RACK: free, Level.DOMAIN: free, Level.CLUSTER: free})


GPU, CPU = slow_card("gpu", 4), slow_card("cpu", 0)
TWO_OF_FOUR = wide(mixed((2, GPU)))


def job(profile: ModelProfile | None, *, most: int = 100, gang: int = 1, batch: int = 256) -> Job:
    spec = RoleSpec(Role.WORKER, Need(1, 1_000), gang, gang, most)
    return Job("j", roles=(spec,), model=profile, batch=batch)


def chosen(
    on: Cluster,
    asked: Job,
    devices: int = 100,
    aim: Aim = Aim.THROUGHPUT,
    configurations: tuple[str, ...] = ("gpu",),
) -> Chosen:
    found = Planner(Predictor(on)).choose(asked, configurations, devices, aim)
    assert isinstance(found, Chosen), found
    return found


def refused(on: Cluster, asked: Job, configurations: tuple[str, ...] = ("gpu",)) -> Unknown:
    found = Planner(Predictor(on)).choose(asked, configurations, 100)
    assert isinstance(found, Unknown)
    return found


def nodes_of_workers(choice: Chosen) -> set[str]:
    slots = choice.best.candidate.placement.slots
    return {slot.node for slot in slots if slot.role is Role.WORKER}


def test_a_light_model_takes_every_device() -> None:
    assert chosen(TWO_OF_FOUR, job(LIGHT)).best.candidate.plan.devices == 8


def test_a_heavy_model_stays_on_one_node() -> None:
    assert len(nodes_of_workers(chosen(TWO_OF_FOUR, job(HEAVY)))) == 1


def test_servers_on_cpu_nodes_relieve_the_workers_cards() -> None:
    # Single devices whose cards would each carry 2 (n-1)/n of the gradients in a ring: with as many
    # CPU servers they carry them once.
    single = slow_card("gpu", 1)
    on = wide(mixed((4, single), (4, CPU)))
    best = chosen(on, job(model(200, 2e10))).best.candidate
    assert best.plan.sync is Sync.DEDICATED
    servers = {slot.node for slot in best.placement.slots if slot.role is Role.SERVER}
    assert {on.node(name).configuration for name in servers} == {"cpu"}


def test_cpu_servers_are_worth_having() -> None:
    single, asked = slow_card("gpu", 1), job(model(200, 2e10))
    without = chosen(wide(mixed((4, single))), asked).best
    beside = chosen(wide(mixed((4, single), (4, CPU))), asked).best
    assert beside.samples > 1.1 * without.samples


def test_per_device_fewer_devices_are_taken_than_for_throughput() -> None:
    middle = model(400, 1e10)
    fast = chosen(TWO_OF_FOUR, job(middle)).best.candidate.plan
    thrifty = chosen(TWO_OF_FOUR, job(middle), aim=Aim.PER_DEVICE).best.candidate.plan
    assert thrifty.devices < fast.devices


@pytest.mark.parametrize(("most", "devices"), [(3, 100), (100, 3)])
def test_neither_the_jobs_limit_nor_the_devices_given_are_passed(most: int, devices: int) -> None:
    best = chosen(TWO_OF_FOUR, job(LIGHT, most=most), devices).best.candidate
    assert best.plan.devices == best.placement.devices == 3


def test_the_gang_is_kept_even_where_fewer_would_do_better() -> None:
    assert chosen(TWO_OF_FOUR, job(HEAVY, gang=6)).best.candidate.plan.devices >= 6


def test_the_whole_batch_is_dealt_out() -> None:
    plan = chosen(TWO_OF_FOUR, job(LIGHT, batch=250)).best.candidate.plan
    assert sum(plan.batch) == 250
    assert len(plan.batch) == plan.count(Role.WORKER)


def test_faster_devices_take_more_of_the_batch() -> None:
    old = replace(slow_card("old", 1), device_type="K80")
    new = replace(slow_card("new", 1), device_type="P100")
    on = wide(mixed((1, old), (1, new)))
    best = chosen(on, job(LIGHT), configurations=("old", "new")).best.candidate
    parts = {
        slot.node: best.plan.batch[slot.index]
        for slot in best.placement.slots
        if slot.role is Role.WORKER
    }
    assert parts["n1"] > 2 * parts["n0"] > 0


def test_only_the_configuration_sets_asked_for_get_workers() -> None:
    on = wide(mixed((2, GPU), (2, slow_card("other", 4))))
    names = nodes_of_workers(chosen(on, job(LIGHT)))
    assert {on.node(name).configuration for name in names} == {"gpu"}


def test_only_free_devices_are_taken() -> None:
    first, second = TWO_OF_FOUR.nodes
    on = replace(TWO_OF_FOUR, nodes=(replace(first, free=0b0110), replace(second, free=0)))
    best = chosen(on, job(LIGHT)).best.candidate
    assert best.placement.bits() == {"n0": 0b0110}


def test_no_device_is_given_twice() -> None:
    placement = chosen(TWO_OF_FOUR, job(LIGHT)).best.candidate.placement
    held = sum(bits.bit_count() for bits in placement.bits().values())
    assert held == placement.devices == 8


def test_memory_is_respected() -> None:
    # 10 GB for each sample and 80 GB on a device: eight devices hold at most 7 samples each.
    large = model(10, 1e11, activations=10 * GB)
    plan = chosen(TWO_OF_FOUR, job(large, batch=50)).best.candidate.plan
    assert plan.devices == 8
    refusal = refused(TWO_OF_FOUR, job(large, batch=100))
    assert refusal.why is WhyUnknown.OUT_OF_MEMORY


def test_the_runner_up_synchronises_in_another_way() -> None:
    choice = chosen(TWO_OF_FOUR, job(model(100, 1e10)))
    assert choice.runner_up is not None
    assert choice.runner_up.candidate.plan.sync is not choice.best.candidate.plan.sync
    assert choice.runner_up.worth <= choice.best.worth


def test_the_choice_is_the_same_each_time() -> None:
    asked = job(model(100, 1e10))
    assert chosen(TWO_OF_FOUR, asked) == chosen(TWO_OF_FOUR, asked)


def test_a_job_without_a_model_gets_a_reason() -> None:
    assert refused(TWO_OF_FOUR, job(None)).why is WhyUnknown.NO_PROFILE


def test_no_free_devices_get_a_reason() -> None:
    full = replace(TWO_OF_FOUR, nodes=tuple(replace(node, free=0) for node in TWO_OF_FOUR.nodes))
    assert refused(full, job(LIGHT)).why is WhyUnknown.BAD_PLAN


def test_a_device_nobody_knows_gets_a_reason() -> None:
    on = wide(mixed((1, replace(GPU, device_type="abacus"))))
    assert refused(on, job(LIGHT)).why is WhyUnknown.NO_RATE


def test_the_fewest_servers_that_do_as_well_as_any_are_taken() -> None:
    for start in (1, 4, 8):
        assert fewest(start, 1, 20, lambda servers: float(min(servers, 6))) == 6
        assert fewest(start, 1, 20, lambda _: 1.0) == 1
    assert fewest(3, 3, 3, float) == 3
