"""Engines for tests: started once for many, since they take seconds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines.ray_cluster import RayCluster
from tests.engines.ray_lab import RayLab


@pytest.fixture(scope="session")
def ray_lab() -> Iterator[RayLab]:
    """A Ray cluster of two nodes with a device each, for tests that leave it so."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    lab = RayLab()
    try:
        lab.start_head()
        lab.add("r1", "r2", gpus=1, labels="rack=k1,ray.io/accelerator-type=V100")
        yield lab
    finally:
        lab.end()


@pytest.fixture
def own_ray_lab() -> Iterator[RayLab]:
    """A head without nodes, for tests that break it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    lab = RayLab()
    try:
        lab.start_head()
        yield lab
    finally:
        lab.end()


MakeRay = Callable[..., RayCluster]


@pytest.fixture
def on_ray(tmp_path: Path) -> Iterator[MakeRay]:
    """Makes daemons on a Ray cluster; in the end nothing of them is left there."""
    made: list[RayCluster] = []

    def one(lab: RayLab, *options: str) -> RayCluster:
        cluster = RayCluster(tmp_path / f"d{len(made)}", lab, *options)
        made.append(cluster)
        return cluster

    try:
        yield one
        for cluster in made:
            assert cluster.stop() == 0
            assert not cluster.strays()
    finally:
        for cluster in made:
            cluster.end()
