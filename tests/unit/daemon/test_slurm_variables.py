"""Slurm's variables of a gang over several nodes."""

from muster.daemon.tasks.slurm_variables import slurm_variables
from muster.executors.environment import GangEnvironment, TaskPlace
from muster.files.job.job_file import job_of
from muster.model.job import Role


def test_a_task_finds_its_place_as_under_slurm() -> None:
    job = job_of(
        {"name": "train", "command": "x", "roles": {"worker": {"count": 5, "cores": 4}}, "pool": "gpu"}
    )
    tasks = [
        TaskPlace(Role.WORKER, index, f"worker-{index}", f"n{index // 2}", f"10.0.0.{index // 2}", (0,))
        for index in range(5)
    ]
    gang = GangEnvironment("train", 12, 1, tuple(tasks), 29500, attempt=2)
    found = slurm_variables(job, gang, tasks[3], gang.of(tasks[3]))
    assert found["SLURM_JOB_NODELIST"] == "10.0.0.0,10.0.0.1,10.0.0.2"
    assert found["SLURM_TASKS_PER_NODE"] == "2(x2),1"
    assert (found["SLURM_PROCID"], found["SLURM_NTASKS"]) == ("3", "5")
    assert (found["SLURM_NODEID"], found["SLURM_NNODES"]) == ("1", "3")
    assert found["SLURM_LOCALID"] == "0", "the number of its only device"
    assert found["SLURM_CPUS_PER_TASK"] == "4"
    assert found["SLURM_JOB_PARTITION"] == "gpu"
    assert found["SLURM_RESTART_COUNT"] == "2"
    assert "SLURM_ARRAY_TASK_ID" not in found
