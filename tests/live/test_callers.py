"""A job runs where it was submitted: the caller's programs, Python and folder."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import muster
from muster.client import Client
from tests.live.daemons import LONG, MUSTER, Daemon, environment

PREFIX = "import sys; print('prefix', sys.prefix)\n"


@pytest.fixture
def caller(tmp_path: Path) -> Path:
    """A folder with a script, a job file, and a virtual environment with a program of its own."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    tool = tmp_path / "venv/bin/mytool"
    tool.write_text("#!/bin/sh\necho tool in $(pwd)\n", encoding="utf-8")
    tool.chmod(0o755)
    (tmp_path / "x.py").write_text(PREFIX, encoding="utf-8")
    (tmp_path / "job.yaml").write_text("command: python x.py\n", encoding="utf-8")
    return tmp_path


def activated(home: Path, folder: Path) -> dict[str, str]:
    """The environment after `. venv/bin/activate`."""
    around = environment(home)
    path = f"{folder}/venv/bin:{around['PATH']}"
    return {**around, "VIRTUAL_ENV": str(folder / "venv"), "PATH": path, "API_TOKEN": "geheim"}


def run(daemon: Daemon, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MUSTER, "run", "-y", *words],
        env=activated(daemon.home, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


@pytest.mark.parametrize(
    "words", [("--", "python", "x.py"), ("job.yaml",), ("x.py",)], ids=["command", "file", "script"]
)
def test_python_is_the_callers(daemon: Daemon, caller: Path, words: tuple[str, ...]) -> None:
    done = run(daemon, caller, "-f", *words)
    assert done.stdout == f"1/worker-0 | prefix {caller / 'venv'}\n", done.stderr


def test_a_program_of_the_virtual_environment_runs_and_is_shown(daemon: Daemon, caller: Path) -> None:
    done = run(daemon, caller, "-f", "--env", "API_TOKEN", "--", "mytool")
    assert done.stdout == f"1/worker-0 | tool in {caller}\n", done.stderr
    page = daemon.muster("show", "mytool").stdout.splitlines()
    assert f"  program   {caller}/venv/bin/mytool" in page
    assert f"  folder    {caller}" in page
    assert "  env       API_TOKEN=***" in page
    assert f"            VIRTUAL_ENV={caller}/venv" in page


def test_what_is_not_here_is_told_at_submission(daemon: Daemon, caller: Path) -> None:
    done = run(daemon, caller, "--", "nosuchtool")
    assert done.returncode == 2
    where = f"PATH of the submission: {caller}/venv/bin:"
    assert done.stderr.startswith(f"muster: command: no such command: nosuchtool ({where}")
    done = run(daemon, caller, "--folder", "nowhere", "x.py")
    problem = f"{caller}/nowhere does not exist; create it first, or choose another"
    assert (done.returncode, done.stderr) == (2, f"muster: folder: {problem}\n")
    assert not (caller / "nowhere").exists()


def test_a_missing_folder_that_only_the_task_finds_out_fails_it(daemon: Daemon, tmp_path: Path) -> None:
    where = tmp_path / "nowhere"
    with Client(daemon.url, daemon.token) as far:  # through a port, as from another machine
        record = far.submit({"command": "true", "name": "far", "folder": str(where)}).wait(LONG)
    assert record.status == "failed"
    assert f"its folder {where} does not exist; create it" in (record.error or "")
    assert not where.exists()


def test_what_python_prints_is_in_the_log_at_once(daemon: Daemon) -> None:
    line = "import time; print('first'); time.sleep(30)"
    job = daemon.submit(sys.executable, "-c", line, name="slow")
    assert next(job.logs()) == "1/worker-0 | first"
    assert job.record().status == "running", "it has 30 seconds to go"


def test_a_script_that_submits_runs_its_job_beside_itself_with_its_own_python(caller: Path) -> None:
    """As README shows it, from a virtual environment that nobody has activated."""
    site = next((caller / "venv/lib").glob("python*/site-packages"))
    ours = [Path(muster.__file__).parents[1], *(each for each in sys.path if "site-packages" in each)]
    (site / "muster.pth").write_text("\n".join(map(str, ours)), encoding="utf-8")
    (caller / "submit.py").write_text(
        "import muster\n"
        "with muster.local(devices=1) as client:\n"
        "    job = client.submit({'command': ['python', 'x.py']})\n"
        "    print(job.wait().status, *job.logs())\n",
        encoding="utf-8",
    )
    kept = {name: text for name, text in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(
        [caller / "venv/bin/python", "submit.py"],
        cwd=caller,
        env={**kept, "MUSTER_HOME": str(caller / "home")},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.stdout == f"succeeded 1/worker-0 | prefix {caller / 'venv'}\n", done.stderr
