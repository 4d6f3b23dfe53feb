"""How a job is first laid out."""

from muster.model.decision import Kind
from muster.model.job import Need, Role
from muster.model.reason import Code
from tests.builders import GB, cluster, job, mixed, node_set, view
from tests.numbers import number
from tests.world import World

CPU = node_set("cpu", devices=0, cores=8, memory=64 * GB)
CORES = Need(millicores=4_000, memory=GB)


def test_a_job_without_devices_leaves_the_cores_of_devices_alone() -> None:
    """Even where one node with devices would hold it whole, and nodes without take two."""
    there = mixed((1, node_set(cores=64)), (3, CPU))
    world = World(view(there, [job("cpu", 4, need=CORES)]))
    world.cycle()
    assert set(world.bits("cpu")) == {"n1", "n2"}


def test_a_job_without_devices_uses_nodes_with_devices_when_it_must() -> None:
    there = mixed((1, node_set(cores=64)), (1, CPU))
    world = World(view(there, [job("cpu", 4, need=CORES)]))
    assert world.cycle().names(Kind.START) == {"cpu"}


def test_a_job_that_starts_with_more_than_its_gang_is_placed_as_a_whole() -> None:
    """Six workers and three servers on nodes of four: three and an equal mix, not the gang and bits."""
    small = node_set(devices=4, sockets=1, switches=1)
    asked = job("ps", 2, most=6, servers=2)
    world = World(view(cluster(4, small), [asked]))
    assert world.cycle().reason("ps").code is Code.STARTED
    placed = world.view.jobs[number("ps")].placement
    assert placed is not None
    workers = [sum(s.node == n for s in placed.slots if s.role is Role.WORKER) for n in placed.nodes()]
    servers = [sum(s.node == n for s in placed.slots if s.role is Role.SERVER) for n in placed.nodes()]
    assert (sorted(workers), sorted(servers)) == ([3, 3], [1, 1])


def test_an_elastic_job_starts_on_one_node_rather_than_beside_its_first_worker() -> None:
    busy = job("busy", 6)
    world = World(view(cluster(2), [busy, job("elastic", 1, most=8)]))
    world.cycle()
    assert len(world.bits("elastic")) == 1
    assert sum(bits.bit_count() for bits in world.bits("elastic").values()) == 8
