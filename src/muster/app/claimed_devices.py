"""What a cluster file claims, against what this machine has: its tasks all run here."""

from muster.executors.gpus import MixedError, find_gpus
from muster.files.cluster.hardware import VIRTUAL
from muster.files.errors import InputError
from muster.model.cluster import Cluster

CONSENT = "--simulate-devices"


def missing_devices(cluster: Cluster, path: str, simulate: bool) -> str:
    """Return a warning if the file's GPUs are not here, nothing if they are.

    InputError if the machine has other GPUs, unless `simulate` says to go on.
    """
    claimed = {kind: n for kind, n in cluster.devices_by_type().items() if kind not in (VIRTUAL, "")}
    try:
        gpus = find_gpus()
    except MixedError:  # nobody but the file can say what they are
        return ""
    here = {gpus.device_type: gpus.count} if gpus else {}
    missing = {kind: n for kind, n in claimed.items() if n > here.get(kind, 0)}
    if not missing:
        return ""
    named = ", ".join(f"{n} {kind}" for kind, n in missing.items())
    there = ", ".join(f"{n} {kind}" for kind, n in here.items()) or "no GPUs"
    if gpus and not simulate:
        raise InputError.at(
            path, f"names {named}, but this machine has {there}; correct it, or add {CONSENT}"
        )
    return f"{path} names {named}, but this machine has {there}: tasks run here without them"
