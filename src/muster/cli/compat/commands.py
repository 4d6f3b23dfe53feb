"""`muster compat`: Slurm's commands. Imports stay inside them so that help is quick."""

from pathlib import Path
from typing import Annotated, Any

import typer

from muster.cli.options import noun

compat = noun("compat", "Slurm's commands, as views of Muster's jobs.")

_AS_GIVEN: Any = {
    "context_settings": {"ignore_unknown_options": True, "help_option_names": ["--help"]},
}
Words = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="As of Slurm's own command.")
]


@compat.command(**_AS_GIVEN)
def squeue(words: Words = None) -> None:
    """List jobs that wait or run, in Slurm's columns.

    Options: -u USER, --me, -j JOBS, -t STATES, -p PARTITION, -n NAME, -l, -h, -o FORMAT.

    Example: muster compat squeue --me -o '%.8i %.9P %.20j %.2t %.10M %R'
    """
    from muster.cli.compat.squeue import run_squeue

    run_squeue(words or [])


@compat.command(**_AS_GIVEN)
def sinfo(words: Words = None) -> None:
    """List partitions (pools) and their nodes, in Slurm's columns.

    Options: -N, -p PARTITION, -n NODES, -h, -o FORMAT.

    Example: muster compat sinfo -N
    """
    from muster.cli.compat.sinfo import run_sinfo

    run_sinfo(words or [])


@compat.command(**_AS_GIVEN)
def sacct(words: Words = None) -> None:
    """List jobs, those that have ended too, in Slurm's columns: today's, or since -S.

    Options: -j JOBS, -u USER, -a, -s STATES, -S TIME, -E TIME, -o FIELDS, -n, -p, -P, -X.

    Example: muster compat sacct -S now-7days -o JobID,JobName,State,Elapsed,ExitCode
    """
    from muster.cli.compat.sacct import run_sacct

    run_sacct(words or [])


@compat.command(**_AS_GIVEN)
def sbatch(words: Words = None) -> None:
    """Submit a batch script without asking; options win over its #SBATCH lines.

    Options: those of sbatch, --wrap, --parsable, --wait and --test-only among them.

    Example: muster compat sbatch --gpus=2 --time=1:00:00 job.sbatch
    """
    from muster.cli.compat.sbatch import run_sbatch

    run_sbatch(words or [])


@compat.command(**_AS_GIVEN)
def scancel(words: Words = None) -> None:
    """Stop jobs: by number, or those of a user, name, partition or state.

    Options: -u USER, --me, -n NAME, -p PARTITION, -t STATES, -s KILL.

    Example: muster compat scancel 12 13
    """
    from muster.cli.compat.scancel import run_scancel

    run_scancel(words or [])


@compat.command(**_AS_GIVEN)
def scontrol(words: Words = None) -> None:
    """Show a job, node or partition in full; hold, release and requeue jobs; expand a list of nodes.

    Example: muster compat scontrol show job 12
    """
    from muster.cli.compat.scontrol import run_scontrol

    run_scontrol(words or [])


@compat.command()
def install(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to put first in PATH; created if missing.")
    ],
) -> None:
    """Install these commands under Slurm's names, for scripts and programs that call them.

    Example: muster compat install ~/slurm-bin && export PATH=~/slurm-bin:$PATH
    """
    from muster.slurm.batch import COMPAT, put_commands

    folder.mkdir(parents=True, exist_ok=True)
    names = (*COMPAT, "srun")
    put_commands(folder, names)
    typer.echo(f"{', '.join(sorted(names))} are in {folder}; put it first in PATH:")
    typer.echo(f"  export PATH={folder.absolute()}:$PATH")
