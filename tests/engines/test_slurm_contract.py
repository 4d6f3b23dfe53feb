"""The contract of executors, for a fleet whose agent is a pilot of a real Slurm."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.providers.slurm.script import batch_script
from muster.wire.agents.join_token import JoinToken
from tests.contract.fleet_rig import End, FleetGround
from tests.contract.test_executor import *  # noqa: F403
from tests.contract.test_executor import NODE, Rig, as_shell, running
from tests.engines.slurm_lab import SlurmLab, missing, slurm_lab

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

NAMED = 'exec "$0" -m muster.agent "$@" --advertise 127.0.0.1 --node {node} --folder {folder}'
"""The rig names its node; a pilot is named after its job."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    with slurm_lab(tmp_path_factory.mktemp("slurm"), nodes=1) as lab:
        yield lab


@pytest.fixture(name="rig")
def slurm_rig(lab: SlurmLab, tmp_path: Path) -> Iterator[Rig]:
    """In place of the contract's own rigs."""

    def bring(token: JoinToken, node: str, folder: Path) -> End:
        named = NAMED.format(node=node, folder=folder)
        script = batch_script(("sh", "-c", named, sys.executable), str(token), str(tmp_path), 2.0)
        path = tmp_path / "pilot.sh"
        path.write_text(script, encoding="utf-8")
        lab.slurm("sbatch", "--output=/dev/null", "--exclusive", "--gres=gpu:4", str(path))

        def end() -> None:
            lab.slurm("scancel", "--partition=gpu")
            lab.until(lambda: not lab.jobs(), "the allocation is given back")

        return end

    def make(folder: Path) -> Rig:
        ground = FleetGround(folder, NODE, bring)
        return Rig(ground.fleet, folder, as_shell, ground.close)

    yield from running(make, tmp_path)


@pytest.fixture(name="any_rig")
def any_slurm_rig(rig: Rig) -> Rig:
    return rig
