"""Slurm through its commands, as every version has them: what goes in and out is bounded.

`squeue --Format` rather than `--json`: JSON needs a plugin that many sites lack, changes its shape with
the version (a state is text, later a list; a time is a number, later an object), and 22.05 ignores all
filters with it: the whole queue would be sent at each look.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from muster.providers.slurm.pilots import SlurmJob

NEEDED = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
PATIENCE = 60.0
"""s for one command: slurmctld answers in ms, or its clients retry for a while."""
LONGEST = 8 << 20
"""Bytes of an answer that are read."""
SAID = 300
"""Characters of an error that are passed on."""
KEPT = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
)
"""Variables that Slurm's commands and, through `sbatch`, pilots get: neither the daemon's secrets nor,
where the daemon is itself a job, that job's `SLURM_*`."""

AWAY = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were",
)
"""What the commands say when slurmctld does not answer."""

_FIELDS = ("JobID", "State", "NodeList", "TimeLeft", "EndTime", "PreemptTime", "Reason")
_LIVE = {"PENDING": False, "CONFIGURING": False, "RUNNING": True, "COMPLETING": True, "SUSPENDED": True}
"""States of jobs that have not ended, and whether they have a machine."""
_ENDED = {
    "BOOT_FAIL": "the node failed to boot",
    "CANCELLED": "the allocation was cancelled",
    "COMPLETED": "the agent has ended",
    "DEADLINE": "the allocation's deadline has passed",
    "FAILED": "the agent has failed",
    "NODE_FAIL": "the node failed",
    "OUT_OF_MEMORY": "the allocation ran out of memory",
    "PREEMPTED": "preempted",
    "TIMEOUT": "the allocation's time was over",
}
COMPLETING = 5.0
"""s that a node has when Slurm already ends its allocation: KillWait is 30 by default, may be less."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TIME = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,2}):)?(\d{1,4}):(\d{1,2})")


class SlurmError(Exception):
    """A command failed; one line that says why."""


class SlurmAwayError(SlurmError):
    """slurmctld does not answer."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A machine of a partition."""

    name: str
    cores: int
    memory: int
    """MB."""
    gpus: int
    limit: float | None
    """s that a job of the partition may last; None: no limit."""


class SlurmCommands:
    """Runs Slurm's commands; each call waits for an answer."""

    def present(self) -> None:
        """Raise SlurmError if the commands are not here."""
        absent = [name for name in NEEDED if shutil.which(name) is None]
        if absent:
            raise SlurmError(
                f"{absent[0]} not found in PATH; run the daemon where jobs are submitted to Slurm, "
                "or load Slurm's module first"
            )

    def partitions(self) -> tuple[str, ...]:
        """Return the names of the partitions."""
        return tuple(dict.fromkeys(self._run("sinfo", "--noheader", "--format=%R").split()))

    def hosts(self, partition: str) -> tuple[HostFacts, ...]:
        """Return the machines of a partition."""
        said = self._run(
            "sinfo", "--noheader", "--Node", f"--partition={partition}", "--format=%N|%c|%m|%l|%G"
        )
        return tuple(parse_hosts(said))

    def kill_wait(self) -> float:
        """Return the s between Slurm's SIGTERM and SIGKILL."""
        found = re.search(r"^KillWait\s*=\s*(\d{1,6})\b", self._run("scontrol", "show", "config"), re.M)
        return float(found[1]) if found else 30.0

    def draining(self, partition: str) -> dict[str, str]:
        """Return the machines that an administrator takes out, and why."""
        said = self._run(
            "sinfo",
            "--noheader",
            "--Node",
            f"--partition={partition}",
            "--states=drain,fail",
            "--format=%N|%E",
        )
        lines = (line.partition("|") for line in said.splitlines())
        return {host: why[:SAID] for host, _, why in lines if _NAME.fullmatch(host)}

    def jobs(self, name: str) -> list[SlurmJob]:
        """Return the user's jobs of this name, those that ended lately among them."""
        wanted = ",".join(f"{field}:|" for field in _FIELDS)
        said = self._run(
            "squeue",
            "--noheader",
            "--states=all",
            f"--name={name}",
            f"--user={os.geteuid()}",
            f"--Format={wanted}",
        )
        return list(parse_jobs(said))

    def try_out(self, arguments: Sequence[str]) -> None:
        """Raise SlurmError if Slurm would refuse such a job."""
        self._run("sbatch", "--test-only", *arguments, given="#!/bin/sh\n")

    def submit(self, arguments: Sequence[str], script: str) -> int:
        """Submit a script; return the job's number."""
        said = self._run("sbatch", "--parsable", *arguments, given=script)
        number = said.split(";")[0].strip()
        if not number.isdigit():
            raise SlurmError(f"sbatch answered {said[:SAID]!r}")
        return int(number)

    def cancel(self, jobs: Sequence[int]) -> None:
        """Cancel jobs; idempotent."""
        self._run("scancel", "--quiet", *map(str, jobs))

    def _run(self, *command: str, given: str | None = None) -> str:
        environ = {name: os.environ[name] for name in KEPT if name in os.environ}
        try:
            done = subprocess.run(
                command,
                env=environ | {"SLURM_TIME_FORMAT": "standard"},
                input=b"" if given is None else given.encode(),
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmAwayError(f"{command[0]} has had no answer for {PATIENCE:g}s") from None
        except OSError as error:
            raise SlurmError(f"{command[0]}: {error.strerror}") from None
        if done.returncode:
            raise failure(command, done.stderr.decode(errors="replace"))
        return done.stdout[:LONGEST].decode(errors="replace")


def failure(command: Sequence[str], said: str) -> SlurmError:
    """Return the error of a command in one line: the first thing that it said."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    word = lines[0] if lines else f"{shlex.join(command[:2])} failed"
    if any(sign in said for sign in AWAY):
        return SlurmAwayError(f"slurmctld does not answer ({word[:SAID]})")
    return SlurmError(word.removeprefix(f"{command[0]}: ").removeprefix("error: ")[:SAID])


# --- reading answers ---


def parse_jobs(said: str) -> Iterator[SlurmJob]:
    """Read `squeue`; a line that is not as expected is skipped."""
    for line in said.splitlines():
        parts = line.split("|")
        if len(parts) < len(_FIELDS) or not parts[0].isdigit() or len(parts[0]) > 12:
            continue
        number, state, host, left, ends, preempted, reason = (part.strip() for part in parts[:7])
        word = state.split()[0] if state else ""
        if word not in _LIVE:
            yield SlurmJob(int(number), False, _ENDED.get(word, word.lower() or "ended"), _host(host))
            continue
        running = _LIVE[word] and bool(_host(host))
        grace = COMPLETING if word == "COMPLETING" else _grace(preempted, ends)
        yield SlurmJob(
            int(number),
            running,
            "",
            _host(host) if running else "",
            seconds_of(left) if running else None,
            grace if running else None,
            reason[:SAID],
            word == "COMPLETING",
        )


def _host(text: str) -> str:
    return text if _NAME.fullmatch(text) else ""


def _grace(noticed: str, ends: str) -> float | None:
    """Return how long a job that is preempted was given, both times by slurmctld's clock."""
    try:
        given = datetime.fromisoformat(ends) - datetime.fromisoformat(noticed)
    except ValueError:  # N/A: it is not preempted
        return None
    return max(0.0, given.total_seconds())


def seconds_of(text: str) -> float | None:
    """Parse a duration of Slurm's: `1-02:03:04`, `2:03:04`, `59:58`; None: unlimited or unknown."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def parse_hosts(said: str) -> Iterator[HostFacts]:
    """Read `sinfo`; a line that is not as expected is skipped."""
    for line in said.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 5 and _NAME.fullmatch(parts[0]):
            cores, memory = (int(re.sub(r"\D", "", part)[:9] or 0) for part in parts[1:3])
            yield HostFacts(parts[0], cores, memory, gpus_of(parts[4]), seconds_of(parts[3]))


def gpus_of(gres: str) -> int:
    """Return how many GPUs a list of generic resources has: `gpu:v100:4(S:0-1),nic:2` has 4."""
    count = 0
    for each in re.sub(r"\([^)]*\)", "", gres).split(","):
        kind, *rest = each.strip().removeprefix("gres/").removeprefix("gres:").split(":")
        if kind == "gpu":
            count += int(rest[-1]) if rest and rest[-1].isdigit() and len(rest[-1]) < 7 else 1
    return count
