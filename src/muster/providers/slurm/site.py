"""What a Slurm can lend, checked before anything is submitted."""

from dataclasses import dataclass

from muster.files.errors import InputError, one_of
from muster.model.duration import spelt
from muster.providers.slurm.commands import HostFacts, SlurmAwayError, SlurmCommands, SlurmError
from muster.providers.slurm.options import SlurmOptions
from muster.providers.slurm.script import PilotShare, pilot_arguments, share_of


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """What is asked of each node, and how long Slurm waits when it ends a job."""

    share: PilotShare
    kill_wait: float
    """s between Slurm's SIGTERM and SIGKILL."""


def inspect(slurm: SlurmCommands, options: SlurmOptions, label: str, grace: float) -> SlurmSite:
    """Return the site; InputError: the one line that says what Slurm would refuse. SlurmAwayError:
    slurmctld does not answer."""
    try:
        slurm.present()
        hosts = slurm.hosts(options.partition)
        if not hosts:
            known = slurm.partitions()
            raise InputError.at("--partition", one_of(options.partition, "partition of Slurm", known))
        _check_time(options, hosts)
        share = share_of(options, hosts)
        slurm.try_out(pilot_arguments(options, share, label, grace))
        return SlurmSite(share, slurm.kill_wait())
    except SlurmAwayError:
        raise
    except SlurmError as error:
        raise InputError.at("--engine slurm", str(error)) from None


def _check_time(options: SlurmOptions, hosts: tuple[HostFacts, ...]) -> None:
    limit = max(host.limit or float("inf") for host in hosts)
    if options.time > limit:
        raise InputError.at(
            "--time",
            f"partition {options.partition} allows {spelt(limit)} at most; Muster renews allocations, "
            "so that jobs may last longer",
        )
