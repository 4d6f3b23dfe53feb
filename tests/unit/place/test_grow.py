"""Growing by example."""

import pytest

from muster.model.cluster import Cluster
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.grow import grow
from muster.place.request import Request
from tests.builders import cluster, mixed, node_set, placement, slot, taken
from tests.unit.place.asks import SERVER, ask, left_free, with_cores


def grown(there: Cluster, request: Request, held: Placement) -> dict[str, int]:
    """The devices added on each node."""
    return Placement(grow(Board(taken(there, held.slots)), request, held)).bits()


@pytest.mark.parametrize(
    ("widest", "added"),
    [
        (Level.SWITCH, {"n0": 0b0000_0010}),
        (Level.SOCKET, {"n0": 0b0000_1110}),
        (Level.NODE, {"n0": 0b1111_1110}),
        (Level.RACK, {"n0": 0b1111_1110, "n1": 0b0000_0001}),
    ],
)
def test_a_job_grows_as_far_as_its_contract_lets_it(widest: Level, added: dict[str, int]) -> None:
    there = cluster(4, racks=2)
    assert grown(there, ask(8, widest), placement(("n0", 1))) == added


def test_a_job_grows_beside_itself_before_it_grows_elsewhere() -> None:
    there = left_free(cluster(3, racks=3), 0xFF, 0b1000_0111, 0xFF)
    assert grown(there, ask(3), placement(("n1", 1))) == {"n1": 0b1000_0110}


def test_then_it_grows_inside_its_rack() -> None:
    there = left_free(cluster(4, racks=2), 0xFF, 0xFF, 0b1111, 0b0001)
    assert grown(there, ask(2), placement(("n3", 1))) == {"n2": 0b0000_0011}


def test_new_tasks_are_numbered_after_the_old() -> None:
    held = placement(slot("n0", 1, 4), slot("n0", 0, 2, role=Role.SERVER, need=SERVER))
    slots = grow(Board(taken(cluster(1), held.slots)), ask(2, servers=1), held)
    assert [(s.role, s.index) for s in slots] == [
        (Role.WORKER, 5),
        (Role.WORKER, 6),
        (Role.SERVER, 3),
    ]


def test_cores_bound_growth_as_devices_do() -> None:
    there = with_cores(cluster(1), 3)
    assert grown(there, ask(7, Level.NODE), placement(("n0", 1)))["n0"].bit_count() == 2


def test_servers_with_devices_come_along_inside_the_contract() -> None:
    request = ask(3, Level.SOCKET, servers=1, server=Need(devices=1))
    slots = grow(Board(taken(cluster(1), placement(("n0", 1)).slots)), request, placement(("n0", 1)))
    assert [s.role for s in slots] == [Role.WORKER, Role.WORKER, Role.SERVER]


def test_a_job_that_spans_more_than_it_might_with_more_devices_does_not_grow() -> None:
    held = placement(("n0", 1), ("n1", 1))
    assert grown(cluster(2), ask(1, Level.NODE), held) == {}
    assert grown(cluster(4, racks=4), ask(1, Level.RACK), held) == {}


def test_workers_do_not_land_on_a_node_of_another_kind_that_holds_a_server_of_theirs() -> None:
    there = mixed((1, node_set(devices=4)), (1, node_set("b", devices=4)))
    server = Slot(Role.SERVER, 0, "n1", 0, SERVER)
    held = placement(slot("n0", 0b0111), server)
    assert grown(there, ask(4), held) == {"n0": 0b1000}


def test_a_job_without_devices_grows_too() -> None:
    held = placement(slot("n0", 0, need=Need(millicores=1_000)))
    there = with_cores(cluster(2), 2, 1)
    slots = grow(Board(taken(there, held.slots)), ask(5, need=Need(millicores=1_000)), held)
    assert [s.node for s in slots] == ["n0", "n1"]
