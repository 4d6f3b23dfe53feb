"""A worker whose state differs leaves a healthy job; two that differ stop with a clear error."""

from pathlib import Path

import pytest

from tests.runtime.scripts.jobs import LONG, Job

SCRIPT = Path(__file__).with_name("scripts") / "diverging.py"


@pytest.mark.parametrize(
    ("how", "who"),
    [("lr", "worker-0"), pytest.param("parameter", "worker-2", marks=pytest.mark.slow)],
)
def test_one_of_three_leaves(how: str, who: str, tmp_path: Path) -> None:
    with Job(tmp_path, "--how", how, "--who", who, script=SCRIPT, workers=3) as job:
        job._wait_for(lambda: len(job.history.members) == 2, f"{who} to leave", LONG)
        job.ahead(3)
        job.stop("enough")
        job.finish()
    assert who not in job.history.members
    named = "lr of parameter group 1" if how == "lr" else "model.out.weight"
    assert f"{who} left after step" in job.output() and named in job.output()


def test_two_that_differ_stop(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    args = ("--how", "lr", "--checkpoint", str(saved))
    with Job(tmp_path, *args, script=SCRIPT, workers=2) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "have different states after step" in outcome.error
    assert "lr of parameter group 1" in outcome.error
    # Of step 5, before they differed: what was due afterwards is not written.
    assert [path.name for path in saved.glob("step-*.pt")] == ["step-000000000005.pt"]


def test_a_joiner_that_keeps_less_leaves_the_others_alone(tmp_path: Path) -> None:
    with Job(tmp_path, "--how", "writer", "--pace", "0.02", script=SCRIPT, workers=1) as job:
        job.ahead(3)
        job.resize(2)
        job._wait_for(lambda: "not under `if ctx.primary`" in job.output(), "an error", LONG)
        job.ahead(3)
        job.stop("enough")
        job.finish()
    assert job.history.members == ("worker-0",)


def test_workers_that_keep_different_things_do_not_start(tmp_path: Path) -> None:
    with Job(tmp_path, "--how", "writer", script=SCRIPT, workers=2) as job:
        outcome = job.wait(LONG)
    assert outcome.code == 1
    assert "call ctx.keep() with the same names on every worker" in outcome.error
