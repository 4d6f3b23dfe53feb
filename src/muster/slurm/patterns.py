"""File names with Slurm's %-patterns."""

import re
from collections.abc import Mapping

_PATTERN = re.compile(r"%(\d*)([%AaJjNnstux])")


def file_name(pattern: str, environ: Mapping[str, str], task: str = "0") -> str:
    """Fill in a pattern: %j job, %x its name, %A and %a array and member, %t task, %N node, %u user."""
    job = environ.get("SLURM_JOB_ID", "0")
    values = {
        "j": job,
        "J": job,
        "A": environ.get("SLURM_ARRAY_JOB_ID", job),
        "a": environ.get("SLURM_ARRAY_TASK_ID", "4294967294"),  # what Slurm writes outside an array
        "x": environ.get("SLURM_JOB_NAME", "job"),
        "u": environ.get("SLURM_JOB_USER", ""),
        "N": environ.get("SLURMD_NODENAME", ""),
        "n": environ.get("SLURM_NODEID", "0"),
        "s": environ.get("SLURM_STEP_ID", "batch"),
        "t": task,
        "%": "%",
    }

    def value(found: re.Match[str]) -> str:
        text = values[found[2]]
        return text.zfill(int(found[1])) if found[1] and text.isdigit() else text

    return _PATTERN.sub(value, pattern)
