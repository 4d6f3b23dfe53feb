"""The installed command, as its own process."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUSTER = Path(sys.executable).parent / "muster"
LAB = ROOT / "examples/clusters/lab.yaml"
JOBS = sorted((ROOT / "examples/jobs").glob("*.yaml"))


def muster(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it."""
    return subprocess.run(
        [MUSTER, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_demo_places_every_job_and_shows_the_cluster() -> None:
    done = muster("play", LAB, *JOBS)
    assert done.returncode == 0, done.stderr
    starts = {line.split()[2] for line in done.stdout.splitlines() if line.split()[1:2] == ["start"]}
    assert starts == {path.stem for path in JOBS}
    assert "all placed, at" in done.stdout
    assert "never placed" not in done.stdout


@pytest.mark.parametrize("strategy", ["pack", "spread", "even"])
def test_every_strategy_places_the_demo(strategy: str) -> None:
    done = muster("play", LAB, *JOBS, "--strategy", strategy)
    assert done.returncode == 0, done.stderr
    assert "all placed, at" in done.stdout


def test_the_same_files_play_to_the_same_log() -> None:
    assert muster("play", LAB, *JOBS).stdout == muster("play", LAB, *JOBS).stdout


def test_good_files_are_said_to_be_good() -> None:
    done = muster("check", LAB, *JOBS)
    assert done.returncode == 0
    assert "24 P100, 4 V100; pools: research, production" in done.stdout
    assert done.stdout.count("can run") == len(JOBS)


def test_the_schemas_are_printed() -> None:
    for name in ("cluster", "job"):
        done = muster("schema", name)
        assert done.stdout == (ROOT / f"docs/schema/{name}.schema.json").read_text(encoding="utf-8")


BAD = {
    "a request that no state could satisfy": "command: a\ndevices: P100:64\n",
    "an unknown pool": "command: a\npool: reserch\n",
    "an unknown device type": "command: a\ndevices: P1000:1\n",
    "an unknown key": "command: a\ndevcies: 1\n",
    "a negative count": "command: a\ndevices: -1\n",
    "no YAML": "command: [a\n",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_job_file_is_one_line_and_exit_code_2(text: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    for done in (muster("check", LAB, path), muster("play", LAB, *JOBS, path)):
        assert done.returncode == 2
        assert done.stdout == "", "nothing is half applied"
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"muster: {path}")


def test_a_huge_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"a: b\n" * 2_000_000)
    done = muster("check", path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "10.0 MB" in done.stderr


def test_bad_options_are_one_line(tmp_path: Path) -> None:
    for option in (["--policy", "fif"], ["--every", "soon"]):
        done = muster("play", LAB, *JOBS, *option)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_two_jobs_of_one_name_are_refused(tmp_path: Path) -> None:
    twin = tmp_path / JOBS[0].name
    twin.write_text(JOBS[0].read_text(encoding="utf-8"), encoding="utf-8")
    done = muster("play", LAB, *JOBS, twin)
    assert done.returncode == 2
    assert "another file has a job named" in done.stderr


def test_a_plan_a_profile_and_a_forecast_are_printed() -> None:
    plan = muster("plan", ROOT / "examples/clusters/dike-30.yaml", ROOT / "examples/plans/vgg16.yaml")
    assert plan.returncode == 0, plan.stderr
    assert "samples/s" in plan.stdout
    profile = muster("profile", "vgg16")
    assert "138,357,544" in profile.stdout
    forecast = muster("forecast", ROOT / "examples/training/curves/cnn-digits-adam.csv")
    assert "80% interval" in forecast.stdout


def test_a_plan_without_a_model_costs_one_line() -> None:
    done = muster("plan", LAB, JOBS[0])
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
