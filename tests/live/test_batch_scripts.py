"""Batch scripts of Slurm's with real tasks: the script runs once, `srun` in every task."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.daemons import LONG, Daemon, environment

SCRIPT = """#!/bin/bash
#SBATCH --job-name=steps
#SBATCH --ntasks=3 --gpus-per-task=1
#SBATCH --time=10:00
#SBATCH --output=out/%x-%j.txt
#SBATCH --mail-type=END

echo "once: $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_PROCID $1"
srun -l sh -c 'echo $SLURM_PROCID of $SLURM_NTASKS in job $SLURM_JOB_ID'
caught=$(srun -n 1 echo caught)
echo "$caught"
srun -n 2 sh -c 'exit $((3 + SLURM_PROCID))' || echo "code $?"
srun -n 2 --output=step-%t.txt echo apart
srun --pty bash || echo "refused $?"
"""


def put(folder: Path, text: str) -> Path:
    """Write a script."""
    path = folder / "job.sbatch"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_script_runs_once_and_its_steps_in_every_task(daemon: Daemon) -> None:
    folder = daemon.folder
    done = daemon.muster("run", "-y", "-f", put(folder, SCRIPT), "first")
    assert done.returncode == 0, done.stderr
    assert "job.sbatch:6: --mail-type=END is left out: mail is not sent" in done.stderr
    assert not done.stdout.replace("1/worker-0 | ", "").startswith("1/"), "the first task prints"
    lines = done.stdout.replace("1/worker-0 | ", "").splitlines()
    number = lines[1].rpartition(" ")[2]
    assert lines[0] == "once: steps 3 0 first"
    assert sorted(lines[1:4]) == [f"{rank}: {rank} of 3 in job {number}" for rank in range(3)]
    assert lines[4:6] == ["caught", "code 4"]
    assert lines[6:] == ["srun: --pty: a step has no terminal; use muster exec", "refused 2"]
    assert (folder / f"out/steps-{number}.txt").read_text(encoding="utf-8").splitlines() == lines
    assert [(folder / f"step-{n}.txt").read_text(encoding="utf-8") for n in (0, 1)] == ["apart\n"] * 2


@pytest.mark.slow
def test_a_script_that_fails_or_cannot_be_mapped_says_so(daemon: Daemon) -> None:
    folder = daemon.folder
    done = daemon.muster("run", "-y", "--wait", put(folder, "#!/bin/sh\n#SBATCH -n1 -G1\nexit 3\n"))
    assert done.returncode == 100
    assert "exit code 3" in done.stderr
    refused = daemon.muster("run", "-y", put(folder, "#!/bin/sh\n#SBATCH -n1\n#SBATCH --begin=16:00\n"))
    assert refused.returncode == 2
    assert "job.sbatch:3: --begin=16:00 cannot be mapped" in refused.stderr


@pytest.fixture
def slurm(daemon: Daemon) -> dict[str, str]:
    """An environment in which Slurm's commands are ours."""
    folder = daemon.folder / "slurm-bin"
    assert daemon.muster("compat", "install", folder).returncode == 0
    found = environment(daemon.home)
    return {**found, "PATH": f"{folder}{os.pathsep}{found['PATH']}"}


def typed(line: str, env: dict[str, str], cwd: Path) -> str:
    """What a line prints."""
    done = subprocess.run(
        ["sh", "-c", line], env=env, cwd=cwd, capture_output=True, text=True, timeout=LONG, check=True
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_slurms_commands_submit_list_and_cancel(daemon: Daemon, slurm: dict[str, str]) -> None:
    where = daemon.folder
    number = typed("sbatch --parsable -J sleeper --gpus=1 --wrap 'sleep 600'", slurm, where)
    daemon.await_status(number, "running")
    listed = typed("squeue --me -h -o '%i|%j|%t|%D'", slurm, where).splitlines()
    assert f"{number}|sleeper|R|1" in listed
    assert typed(f"sacct -P -n -o JobID,State -j {number}", slurm, where) == f"{number}|RUNNING"
    assert f"JobId={number} JobName=sleeper" in typed(f"scontrol show job {number}", slurm, where)
    assert typed("sinfo -h -o '%D %t'", slurm, where).splitlines()[0] == "1 mix"
    assert typed("scontrol show hostnames 'g[01-02],x'", slurm, where) == "g01\ng02\nx"
    typed(f"scancel {number}", slurm, where)
    daemon.await_status(number, "cancelled")
    assert typed(f"sacct -P -n -o State,ExitCode -j {number}", slurm, where).startswith("CANCELLED|")


SUBMITIT = """
import sys, submitit
executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(time=5, gpus_per_node=1, job_name="add")
good, bad = executor.submit(lambda a, b: a + b, 5, 7), executor.submit(int, "x")
print(good.result())
print(type(bad.exception()).__name__, "ValueError" in str(bad.exception()))
print(good.done(), bad.done())
many = executor.map_array(lambda a: a * a, [1, 2, 3])
print([job.result() for job in many])
"""


@pytest.mark.slow
def test_submitits_slurm_executor_runs_against_them(
    daemon: Daemon, slurm: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    (tmp_path / "use.py").write_text(SUBMITIT, encoding="utf-8")
    said = typed(f"{sys.executable} use.py {tmp_path}/log", slurm, tmp_path).splitlines()
    assert said == ["12", "FailedJobError True", "True True", "[1, 4, 9]"]


ARRAY = """#!/bin/bash
#SBATCH --array=1-5:2%2
#SBATCH -J squares --gpus=1
#SBATCH --output=squares-%a.txt
echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
[ "$SLURM_ARRAY_TASK_ID" != 5 ]
"""


@pytest.mark.slow
def test_an_array_is_a_sweep_and_a_dependency_waits_for_it_to_end(
    daemon: Daemon, slurm: dict[str, str]
) -> None:
    where = daemon.folder
    script = put(where, ARRAY)
    said = typed(f"sbatch --wait {script.name} || echo code $?", slurm, where)
    number = said.splitlines()[0].removeprefix("Submitted batch job ")
    assert said.endswith("code 100"), "one member fails"
    texts = {path.name: path.read_text(encoding="utf-8") for path in where.glob("squares-*.txt")}
    assert texts == {f"squares-{index}.txt": f"{index} of 3\n" for index in (1, 3, 5)}
    states = typed(f"sacct -P -n -o JobID,State -j {number}", slurm, where).splitlines()
    assert states == [f"{number}_1|COMPLETED", f"{number}_3|COMPLETED", f"{number}_5|FAILED"]
    first = typed("sbatch --parsable -G1 --wrap 'while [ ! -e go ]; do sleep 0.1; done'", slurm, where)
    after = typed(f"sbatch --parsable -G1 -d afterok:{first} --wrap true", slurm, where)
    assert "(Dependency)" in typed("squeue --me -h -o '%i %R'", slurm, where)
    (where / "go").touch()
    assert daemon.client.handle(after).wait(LONG).status == "succeeded"
