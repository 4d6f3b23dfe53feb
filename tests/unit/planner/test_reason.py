"""A plan and its step in words."""

import pytest

from muster.model.job import Need, Role
from muster.model.plan import Part, Plan, Sync
from muster.perf.predict import Breakdown, Spot
from muster.perf.wires import LinkClass, Wire
from muster.planner.reason import compared, headline, link_name, made_of, short_time

CARD: Spot = (LinkClass(Wire.NIC, "a"), "gpu1", 0)


def tasks(sync: Sync, workers: int, devices: int, servers: int = 0) -> Plan:
    """A plan of this many workers of this many devices, and servers."""
    parts = [Part(Role.WORKER, workers, Need(devices=devices))]
    if servers:
        parts.append(Part(Role.SERVER, servers, Need()))
    return Plan(tuple(parts), sync)


@pytest.mark.parametrize(
    ("plan", "nodes", "words"),
    [
        (tasks(Sync.RING, 1, 1), 1, "1 device on 1 node"),
        (tasks(Sync.RING, 1, 4), 1, "4 devices on 1 node"),
        (tasks(Sync.RING, 8, 1), 2, "ring over 8 devices on 2 nodes"),
        (
            tasks(Sync.HIERARCHICAL, 8, 2),
            2,
            "rings inside the nodes and over them, 16 devices on 2 nodes",
        ),
        (tasks(Sync.SHARDED, 2, 8), 2, "parameters sharded over 2 workers, 16 devices on 2 nodes"),
        (
            tasks(Sync.DEDICATED, 4, 8, servers=3),
            7,
            "3 parameter servers for 4 workers, 32 devices on 7 nodes",
        ),
        (
            tasks(Sync.DEDICATED, 1, 1, servers=1),
            1,
            "1 parameter server for 1 worker, 1 device on 1 node",
        ),
    ],
)
def test_a_plan_in_a_few_words(plan: Plan, nodes: int, words: str) -> None:
    assert headline(plan, nodes) == words


def test_a_step_that_only_computes() -> None:
    assert made_of(Breakdown(0.25, 0.0, None), 0.25) == (
        "computing takes 250 ms, nothing is transferred"
    )


def test_transfers_that_hide_behind_computing_are_said_to() -> None:
    assert made_of(Breakdown(2.0, 0.1, CARD), 2.0) == (
        "computing takes 2.00 s, transfers 100 ms (all hidden behind it), "
        "bounded by the network card of gpu1"
    )


def test_what_is_not_hidden_is_told() -> None:
    # A step of 300 ms with 200 of computing: 100 ms of the transfers' 150 show.
    text = made_of(Breakdown(0.2, 0.15, CARD), 0.3)
    assert "transfers 150 ms (100 ms not hidden behind it)" in text


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (Wire.NVLINK, "NVLink of a device on x"),
        (Wire.LANE, "PCIe lane of a device on x"),
        (Wire.SWITCH, "PCIe switch of x"),
        (Wire.SOCKET, "link between the sockets of x"),
        (Wire.HOST, "port of a process on x"),
        (Wire.NIC, "network card of x"),
        (Wire.RACK, "uplink of rack x"),
        (Wire.DOMAIN, "uplink of domain x"),
    ],
)
def test_every_kind_of_link_has_a_name(wire: Wire, words: str) -> None:
    assert link_name((LinkClass(wire, "a"), "x", 1)) == words


@pytest.mark.parametrize(
    ("other", "words"),
    [(100.0, "as fast"), (99.95, "as fast"), (97.9, "2.1% slower"), (50.0, "50.0% slower")],
)
def test_how_much_slower_another_plan_is(other: float, words: str) -> None:
    assert compared(100.0, other) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12.345, "12.35 s"), (1.0, "1.00 s"), (0.2734, "273 ms"), (0.0257, "25.7 ms"), (1e-5, "0.01 ms")],
)
def test_times_have_three_digits(seconds: float, words: str) -> None:
    assert short_time(seconds) == words
