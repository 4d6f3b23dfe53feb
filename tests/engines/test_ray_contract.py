"""The contract of executors, for a fleet whose agent is kept by an actor of a real Ray."""

import io
import json
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.providers.ray.provider import agent_options, simulated_options
from muster.wire.agents.join_token import JoinToken
from tests.contract.fleet_rig import End, FleetGround
from tests.contract.test_executor import *  # noqa: F403
from tests.contract.test_executor import NODE, Rig, as_shell, running
from tests.engines.ray_lab import RayLab
from tests.live.daemons import until

pytestmark = pytest.mark.slow

AGENT = ("-m", "muster.agent", "--advertise", "127.0.0.1")


@pytest.fixture(scope="module")
def lab() -> Iterator[RayLab]:
    """A Ray node of the contract's name, and this process as the one that speaks with it."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    made = RayLab()
    try:
        made.start_head()
        made.add(NODE, gpus=4)
        ray.init(made.address, namespace="muster", log_to_driver=False, logging_level=logging.ERROR)
        yield made
    finally:
        ray.shutdown()
        made.end()


class Held:
    """A bridge to Ray that holds the contract's node."""

    def __init__(self, fleet: str) -> None:
        from muster.providers.ray.bridge import Bridge

        self.said = io.StringIO()
        self.bridge = Bridge(fleet, self.said)
        until(self._holds, "Ray gives its devices")

    def _holds(self) -> bool:
        self.bridge.look()
        return bool(self.heard("held"))

    def heard(self, kind: str) -> list[dict[str, Any]]:
        """What the bridge has told the daemon, of one kind."""
        news = [json.loads(line) for line in self.said.getvalue().splitlines()]
        return [each for each in news if each["kind"] == kind]


# Of two fixtures of one name pytest takes the one whose function comes later in the alphabet: these,
# not the contract's own `rig` and `any_rig`.


@pytest.fixture(name="rig")
def rig_of_ray(lab: RayLab, tmp_path: Path) -> Iterator[Rig]:
    """In place of the contract's own rigs."""

    def bring(token: JoinToken, node: str, folder: Path) -> End:
        from muster.providers.ray.bridge import release_all

        fleet = secrets.token_hex(4)
        held = Held(fleet)
        (row,) = held.heard("node")
        how = {
            "command": [*AGENT, *agent_options(row)],
            "environment": {"MUSTER_JOIN": str(token)},
            "folder": str(folder),
            "simulated": simulated_options(row),
            "brought": fleet,
        }
        held.bridge.bring(row["id"], how)

        def end() -> None:
            assert release_all(fleet) == [f"muster-{fleet}-{row['id'][:24]}"]

        return end

    def make(folder: Path) -> Rig:
        ground = FleetGround(folder, NODE, bring)
        return Rig(ground.fleet, folder, as_shell, ground.close)

    yield from running(make, tmp_path)


@pytest.fixture(name="any_rig")
def any_rig_of_ray(rig: Rig) -> Rig:
    return rig
