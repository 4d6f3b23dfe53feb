"""State of the user's own goes to joiners and survives kills: the result is that of one process."""

from pathlib import Path

import pytest

from tests.runtime.scripts import own_state
from tests.runtime.scripts.jobs import Job
from tests.runtime.test_features import check
from tests.runtime.test_kills import wait_trainers

SCRIPT = Path(own_state.__file__)
QUICK = ("average", "plateau", "listed")
"""Those in `make test`; the others with `make live`."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in own_state.OWN]
)
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
