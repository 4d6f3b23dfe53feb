"""What fits into memory, by hand."""

from dataclasses import replace

import pytest

from muster.model.cluster import Cluster
from muster.model.placement import Placement
from muster.model.plan import Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.memory import misfit, most_samples, samples_of, server_bytes, worker_bytes
from muster.perf.shape import Seat
from tests.builders import GB, cluster, node_set, placement
from tests.unit.perf.shapes import MB, cpu_worker, model, plan, server, shape_of

PROFILE = replace(model(400 * MB, activations=10 * MB, batch=32), state=8)
"""100 million parameters of 4 bytes, 8 bytes of optimiser's state each, 10 MB for each sample."""


def lacks(profile: ModelProfile, how: Plan, placed: Placement, there: Cluster) -> Unknown | None:
    """What does not fit."""
    return misfit(profile, how, shape_of(there, placed), there)


def small(memory: int) -> Cluster:
    """Two nodes whose devices have this many bytes."""
    return cluster(2, replace(node_set(), device_memory=memory))


def test_a_device_holds_parameters_gradients_state_and_activations() -> None:
    # 100e6 * (4 + 4 + 8) + 32 * 10 MB.
    assert worker_bytes(PROFILE, 32, updates=True) == 1600 * MB + 320 * MB
    assert worker_bytes(PROFILE, 32, updates=False) == 800 * MB + 320 * MB


def test_a_server_holds_its_share_of_parameters_sums_and_state() -> None:
    assert server_bytes(PROFILE, 0.25) == 0.25 * 1600 * MB


def test_micro_batches_bound_what_is_kept() -> None:
    profile = replace(PROFILE, micro_batch=8)
    assert worker_bytes(profile, 32, updates=True) == worker_bytes(PROFILE, 8, updates=True)
    assert worker_bytes(profile, 4, updates=True) == worker_bytes(PROFILE, 4, updates=True)
    assert most_samples(profile, 2000 * MB, updates=True) == float("inf")
    # One of 50 samples does not fit: 40 do.
    assert most_samples(replace(PROFILE, micro_batch=50), 2000 * MB, updates=True) == pytest.approx(40)


def test_most_samples_are_what_the_rest_of_the_memory_holds() -> None:
    assert most_samples(PROFILE, 2000 * MB, updates=True) == pytest.approx(40)
    assert most_samples(PROFILE, 2000 * MB, updates=False) == pytest.approx(120)
    assert most_samples(PROFILE, 1000 * MB, updates=True) == 0


def test_memory_that_is_not_stated_holds_anything() -> None:
    assert most_samples(PROFILE, 0, updates=True) == float("inf")
    assert most_samples(model(MB), 2000 * MB, updates=True) == float("inf")
    assert lacks(PROFILE, plan(), placement(("n0", 0b1)), small(0)) is None


@pytest.mark.parametrize(("memory", "fits"), [(1920 * MB, True), (1920 * MB - 1, False)])
def test_the_boundary_is_exact(memory: int, fits: bool) -> None:
    assert (lacks(PROFILE, plan(), placement(("n0", 0b1)), small(memory)) is None) is fits


def test_a_misfit_names_the_place_the_model_and_both_sizes() -> None:
    found = lacks(PROFILE, plan(), placement(("n0", 0b1)), small(GB))
    detail = "a device of a has 1.0 GB; m with 32 samples takes 1.9 GB"
    assert found == Unknown(WhyUnknown.OUT_OF_MEMORY, detail)


def test_with_servers_the_state_lies_there_and_not_on_the_devices() -> None:
    placed = placement(("n0", 0b1), server("n1", memory=2 * GB))
    assert lacks(PROFILE, plan(Sync.DEDICATED), placed, small(1120 * MB)) is None
    assert lacks(PROFILE, plan(Sync.SHARDED), placement(("n0", 0b1)), small(1120 * MB)) is not None


def test_a_server_that_is_too_small_is_named_with_its_share() -> None:
    placed = placement(("n0", 0b1), server("n0", 0), server("n1", 1, memory=GB))
    found = lacks(PROFILE, plan(Sync.DEDICATED, owners=(0.25, 0.75)), placed, small(80 * GB))
    detail = "server 1 has 1.0 GB; 75% of the parameters of m takes 1.2 GB"
    assert found == Unknown(WhyUnknown.OUT_OF_MEMORY, detail)


def test_a_worker_without_devices_uses_the_memory_it_asked_for() -> None:
    there = cluster(1)
    assert lacks(PROFILE, plan(), placement(cpu_worker("n0", memory=2 * GB)), there) is None
    found = lacks(PROFILE, plan(), placement(cpu_worker("n0", memory=GB)), there)
    assert found is not None
    assert found.detail.startswith("worker 0 has 1.0 GB;")


def test_the_part_of_the_batch_counts_where_it_is_decided() -> None:
    # 40 samples fit beside the rest into 2 GB; the second worker has 41 (82 on two devices).
    there = small(2000 * MB)
    both = placement(("n0", 0b1), ("n1", 0b1))
    assert lacks(PROFILE, plan(batch=(40, 40)), both, there) is None
    assert lacks(PROFILE, plan(batch=(40, 41)), both, there) is not None
    wide = placement(("n0", 0b1), ("n1", 0b11))
    assert lacks(PROFILE, plan(batch=(40, 80)), wide, there) is None
    assert lacks(PROFILE, plan(batch=(40, 81)), wide, there) is not None


def test_samples_of_a_task_are_dealt_to_its_devices_and_the_fullest_counts() -> None:
    task = Seat(placement(("n0", 1)).slots[0].role, 0, 0b111)
    assert samples_of(PROFILE, plan(batch=(10,)), task) == 4  # 4 + 3 + 3
    assert samples_of(PROFILE, plan(), task) == 32  # not decided: the model's usual batch
