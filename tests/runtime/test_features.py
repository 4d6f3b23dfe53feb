"""Everyday trainings that are resized and lose workers end as in one process, in float64."""

from pathlib import Path

import pytest
import torch

from tests.runtime.scripts import features, own_state
from tests.runtime.scripts.jobs import Job
from tests.runtime.test_kills import wait_trainers

SCRIPT = Path(own_state.__file__)  # the features, and those with state of their own
EXACT = 1e-12
"""What the order of additions may do in float64, over a few hundred steps."""
QUICK = ("gan", "weighted", "average", "plateau", "by_hand_before", "listed")
"""Those in `make test`; the others, and more kills, with `make live`."""
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in features.FEATURES]


def check(folder: Path, name: str, steps: int) -> None:
    found, wanted = torch.load(folder / "out.pt"), features.plain(name, steps)
    assert found.keys() == wanted.keys()
    for key, tensor in wanted.items():
        off = (found[key] - tensor).abs().max() / tensor.abs().max().clamp(min=1e-3)
        assert float(off) < EXACT, f"{name}: {key} is off by {float(off):.1e} after {steps} steps"


@pytest.mark.parametrize("name", NAMES)
def test_resized_and_killed(name: str, tmp_path: Path) -> None:
    with Job(tmp_path, "--feature", name, "--pace", "0.02", script=SCRIPT, workers=1) as job:
        job.ahead(2)
        job.change(3)
        job.ahead(6)
        wait_trainers(job, 2)  # so that one is left
        job.kill("worker-1")
        job.ahead(4)
        job.change(2)
        wait_trainers(job, 2)  # so that one is left
        job.kill("worker-0")
        job.ahead(4)
        job.stop("enough")
        steps = job.finish().history.step
    check(tmp_path, name, steps)
