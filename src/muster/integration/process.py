"""A worker as a framework sees it: a training of one process, whose group is Muster's."""

import os
from collections.abc import MutableMapping

_GROUP = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "ROLE_RANK", "ROLE_WORLD_SIZE", "NODE_RANK"),
)


def hide_group(environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove torch's variables in a worker of Muster: a framework would form a fixed group by them."""
    if environ.get("MUSTER_COORDINATOR"):
        for name in _GROUP:
            environ.pop(name, None)
