"""The variables by which programs written for Slurm find their peers, for jobs that ask for them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from muster.executors.environment import GangEnvironment, TaskPlace
from muster.model.job import Job, Role


def slurm_variables(
    job: Job, gang: GangEnvironment, task: TaskPlace, own: Mapping[str, str]
) -> dict[str, str]:
    """Return Slurm's variables of a worker. Nodes go by their addresses, which peers can resolve.

    `own`: its other variables. SLURM_LOCALID is LOCAL_RANK, since scripts take both for the number of a
    device, and a task sees only its own.
    """
    if task.role is not Role.WORKER:
        return {}
    hosts = {each.node: each.host for each in gang.workers}
    per_node = Counter(each.node for each in gang.workers)
    cores = next((spec.need.millicores // 1000 for spec in job.roles if spec.role is Role.WORKER), 0)
    found = {
        "JOB_ID": str(job.number),
        "JOBID": str(job.number),
        "JOB_NAME": job.name,
        "JOB_PARTITION": job.pool,
        "JOB_USER": job.user,
        "JOB_NODELIST": ",".join(hosts.values()),
        "NODELIST": ",".join(hosts.values()),
        "JOB_NUM_NODES": str(len(hosts)),
        "NNODES": str(len(hosts)),
        "NTASKS": own["WORLD_SIZE"],
        "NPROCS": own["WORLD_SIZE"],
        "TASKS_PER_NODE": _compressed(per_node[node] for node in hosts),
        "PROCID": own["RANK"],
        "LOCALID": own["LOCAL_RANK"],
        "NODEID": str(list(hosts).index(task.node)),
        "RESTART_COUNT": str(gang.attempt),
        "SUBMIT_DIR": job.program.folder,
        "SUBMIT_HOST": job.program.origin.host,
        "LAUNCH_NODE_IPADDR": gang.master.host,
        "CPUS_PER_TASK": str(cores) if cores else "",
        "GPUS_ON_NODE": str(len(task.devices)) if task.devices and not gang.virtual else "",
    }
    if job.sweep is not None:
        found |= {"ARRAY_JOB_ID": str(job.sweep.sweep), "ARRAY_TASK_ID": job.sweep.index}
        found |= {"ARRAY_TASK_COUNT": str(job.sweep.size)}
    given = {f"SLURM_{name}": text for name, text in found.items() if text}
    return {**given, "SLURMD_NODENAME": task.host}


def _compressed(counts: Iterable[int]) -> str:
    """`4(x2),1`: as Slurm writes how many tasks its nodes have."""
    runs = [(count, len(list(alike))) for count, alike in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)
