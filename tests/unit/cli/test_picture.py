"""The picture of the cluster."""

from dataclasses import replace

from rich.console import Console

from muster.cli.render.picture import legend, letters, picture
from muster.model.cluster import NodeState
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.view import View
from tests.builders import GB, SERVER_TASK, cluster, job, mixed, node_set, running, slot, view


def drawn(shown: View) -> list[str]:
    """The lines of the picture and its legend, as a wide terminal shows them."""
    console = Console(width=160, record=True, file=None, quiet=False)
    letter_of = letters([state.job for state in shown.jobs.values()])
    with console.capture() as capture:
        console.print(picture(shown, letter_of))
        console.print(legend(shown, letter_of))
    return capture.get().splitlines()


def test_each_device_shows_its_job_and_gaps_show_switches_and_sockets() -> None:
    first = running(job("first", 3), Placement(tuple(slot("n0", 1 << i, i) for i in range(3))))
    second = running(job("second"), Placement((slot("n0", 1 << 6),)))
    lines = drawn(view(cluster(2), [first, second]))
    assert "AA A· | ·· B·" in lines[1]
    assert "·· ·· | ·· ··" in lines[2]
    assert lines[-1].split("  ") == ["A first", "B second", "· free"]


def test_tasks_without_devices_are_named_beside_their_node() -> None:
    server = slot("n1", 0, role=Role.SERVER, need=SERVER_TASK)
    placed = Placement((slot("n0", 1), server))
    cpu = node_set("cpu", devices=0, cores=8, memory=16 * GB)
    lines = drawn(view(mixed((1, node_set()), (1, cpu)), [running(job("ps", servers=1), placed)]))
    assert "A:server-0" in lines[2]
    assert "1/8" in lines[2]
    assert "CPU" in lines[2]


def test_a_run_of_wholly_free_nodes_is_one_line() -> None:
    first = running(job("first"), Placement((slot("n2", 1),)))
    lines = drawn(view(cluster(6, racks=2), [first]))
    assert [line.split("  ")[0] for line in lines[1:4]] == ["n0 .. n1", "n2", "n3 .. n5"]


def test_a_lost_node_offers_nothing() -> None:
    there = cluster(1)
    lost = replace(there, nodes=(replace(there.nodes[0], free=0, state=NodeState.LOST),))
    assert "xx xx | xx xx" in drawn(view(lost))[1]
