"""What is read from Ray's control store."""

from typing import Any

from muster.providers.ray.provider import agent_options, simulated_options
from muster.providers.ray.ray_nodes import NodeNames, read_nodes


def row(id: str, name: str = "10.0.0.1", **other: Any) -> dict[str, Any]:
    """A row of `ray.nodes()`."""
    return {
        "NodeID": id,
        "Alive": True,
        "NodeName": name,
        "NodeManagerAddress": "10.0.0.1",
        "NodeManagerHostname": "gpu-7",
        "Resources": {"CPU": 8.0, "GPU": 4.0},
        "Labels": {"ray.io/node-id": id},
        **other,
    }


def test_a_node_has_the_name_that_ray_was_given_and_else_its_machines() -> None:
    names = NodeNames()
    found = read_nodes([row("a" * 8, "left"), row("b" * 8)], {}, names)
    assert [node.name for node in found.alive] == ["left", "gpu-7"]


def test_a_second_raylet_of_a_machine_does_not_take_the_firsts_name() -> None:
    names = NodeNames()
    read_nodes([row("b" * 8)], {}, names)
    found = read_nodes([row("a" * 8), row("b" * 8)], {}, names)
    assert [node.name for node in found.alive] == ["gpu-7-aaaaaa", "gpu-7"]


def test_a_restarted_raylet_has_its_old_name() -> None:
    names = NodeNames()
    read_nodes([row("a" * 8)], {}, names)
    found = read_nodes([row("a" * 8, Alive=False), row("b" * 8)], {}, names)
    assert [node.name for node in found.alive] == ["gpu-7"]
    assert [death.id for death in found.dead] == ["a" * 8]


def test_type_and_rack_come_from_labels() -> None:
    labels = {"ray.io/node-id": "a", "ray.io/accelerator-type": "H100", "rack": "r3", "tier": "spot"}
    (node,) = read_nodes([row("a", Labels=labels)], {}, NodeNames()).alive
    assert (node.device_type, node.rack, node.devices) == ("H100", "r3", 4)
    assert node.labels == {"ray.io/accelerator-type": "H100", "rack": "r3", "tier": "spot"}


def test_older_versions_of_ray_name_the_type_in_a_resource() -> None:
    resources = {"GPU": 2.0, "accelerator_type:T4": 1.0}
    (node,) = read_nodes([row("a", Resources=resources)], {}, NodeNames()).alive
    assert node.device_type == "T4"


def test_nodes_without_devices_stay_rays_own() -> None:
    found = read_nodes([row("a", Resources={"CPU": 8.0})], {}, NodeNames())
    assert (found.alive, found.bare) == ((), 1)


def test_a_drained_node_has_a_deadline_in_seconds() -> None:
    (node,) = read_nodes([row("a")], {"a": 1_700_000_000_500}, NodeNames()).alive
    assert node.leaves_at == 1_700_000_000.5


def test_the_agent_is_told_what_only_ray_knows() -> None:
    ray_says = {
        "name": "n1",
        "labels": {"tier": "spot"},
        "rack": "r3",
        "devices": 4,
        "device_type": "T4",
    }
    assert agent_options(ray_says) == [
        *("--engine", "ray", "--node", "n1", "--label", "tier=spot", "--rack", "r3")
    ]
    assert simulated_options(ray_says) == ["--devices", "4", "--virtual", "--device-type", "T4"]
