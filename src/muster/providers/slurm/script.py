"""The batch script of a pilot, and what it is submitted with."""

import math
import shlex
from dataclasses import dataclass

from muster.providers.slurm.commands import HostFacts, gpus_of
from muster.providers.slurm.options import AWAY, SlurmOptions

MINUTE = 60.0

SCRIPT = """\
#!/bin/bash
# A node that Slurm lends to Muster: an agent, until nobody needs it or its time is over.
umask 077
node="$SLURMD_NODENAME-$SLURM_JOB_ID"
folder="${{SLURM_TMPDIR:-${{TMPDIR:-/tmp}}}}/muster-$node"
mkdir -p "$folder" || exit 1
log={log}
[ -d "$log" ] && exec >>"$log/$SLURM_JOB_ID.log" 2>&1 || exec >>"$folder/pilot.log" 2>&1

# Slurm's own view of the node. SLURM_TOPOLOGY_ADDR: "core.rack0.g001".
rack="${{SLURM_TOPOLOGY_ADDR%.*}}"
[ "$rack" = "$SLURM_TOPOLOGY_ADDR" ] && rack=""
gres=$(scontrol show node --oneliner "$SLURMD_NODENAME" | sed -n 's/.* Gres=\\([^ (]*\\).*/\\1/p')
set -- --engine slurm --node "$node" --folder "$folder" --label "slurm.job=$SLURM_JOB_ID" \\
  --label "slurm.node=$SLURMD_NODENAME" --label "slurm.partition=$SLURM_JOB_PARTITION"
[ -n "$rack" ] && set -- "$@" --rack "${{rack##*.}}"
[ "$gres" != "(null)" ] && [ -n "$gres" ] && set -- "$@" --label "slurm.gres=$gres"
# GPUs that NVML cannot tell of: the site's other kinds, and those of a lab.
if [ -n "${{SLURM_GPUS_ON_NODE:-}}" ] && ! [ -e /dev/nvidiactl ]; then
  kind="${{gres#gpu:}}"; kind="${{kind%%:*}}"
  set -- "$@" --devices "$SLURM_GPUS_ON_NODE" --device-type "$kind"
  [ -e /dev/kfd ] || set -- "$@" --virtual
fi
agent= notice="$folder/notice"
tell() {{
  echo "$1 $2" > "$notice.half" && mv "$notice.half" "$notice"
  kill -USR1 "$agent" 2>/dev/null
}}
# Slurm warns of a time limit or a preemption: how long there is depends on which.
warned() {{
  said=$(squeue --noheader --job "$SLURM_JOB_ID" --Format='EndTime:|,PreemptTime:|')
  end=$(date -d "${{said%%|*}}" +%s) && left=$((end - $(date +%s))) || left={kill_wait}
  case "$said" in *"|N/A|"*) why="its allocation ends" ;; *) why="preempted by Slurm" ;; esac
  tell "$left" "$why"
}}
trap warned USR1
trap 'tell {kill_wait} "Slurm ends its allocation"' TERM
while :; do
  {command} "$@" & agent=$!
  # A trap interrupts `wait`; only the agent's own end ends the loop.
  while wait "$agent"; code=$?; kill -0 "$agent" 2>/dev/null; do :; done
  # Killed by somebody: its tasks live on, and the next agent finds them in the folder.
  [ "$code" -gt 128 ] || break
done
rm -rf "$folder"
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class PilotShare:
    """What a pilot takes of a machine."""

    devices: int
    arguments: tuple[str, ...]


def share_of(options: SlurmOptions, hosts: tuple[HostFacts, ...]) -> PilotShare:
    """Return the smallest share that every machine with such devices can give: all of it, or as much of
    its cores and memory as of its GPUs."""
    asked = gpus_of(options.gres)
    fitting = [host for host in hosts if host.gpus >= asked] or list(hosts)
    whole = min((host.gpus for host in fitting), default=0)
    if not options.gres or asked >= whole:
        gres = options.gres or (f"gpu:{whole}" if whole else "")
        devices = asked or whole or min((host.cores for host in fitting), default=1)
        return PilotShare(devices, ("--exclusive", "--mem=0", *_named(gres=gres)))
    part = asked / max(host.gpus for host in fitting)
    cores = max(1, math.floor(min(host.cores for host in fitting) * part))
    memory = max(1, math.floor(min(host.memory for host in fitting) * part))
    limits = _named(gres=options.gres, cpus_per_task=str(cores), mem=f"{memory}M")
    return PilotShare(asked, limits)


def pilot_arguments(
    options: SlurmOptions, share: PilotShare, name: str, grace: float
) -> tuple[str, ...]:
    """Return what `sbatch` is called with. Not requeued: Slurm holds a requeued job back for two
    minutes, and a new pilot waits in the queue at once, with a token of its own."""
    return (
        *_named(job_name=name, partition=options.partition, nodes="1", ntasks="1"),
        f"--time={max(1, math.floor(options.time / MINUTE))}",
        f"--signal=B:USR1@{math.ceil(grace)}",
        "--no-requeue",
        "--output=/dev/null",
        "--comment=a node lent to Muster",
        *share.arguments,
        *_named(account=options.account, qos=options.qos),
        *options.extra,
    )


def _named(**given: str) -> tuple[str, ...]:
    return tuple(f"--{name.replace('_', '-')}={text}" for name, text in given.items() if text)


def batch_script(
    command: tuple[str, ...], token: str, log: str, kill_wait: float, away: float = AWAY
) -> str:
    """Return the script of one pilot. The token is in its environment, which only its user can read."""
    limits = f"--grace {kill_wait:g} --away {away:g}"
    agent = f"MUSTER_JOIN={shlex.quote(token)} {shlex.join(command)} {limits}"
    return SCRIPT.format(log=shlex.quote(log), command=agent, kill_wait=math.floor(kill_wait))
