"""What the options of `muster up` ask to manage: the cluster, its pools, and whom jobs run as."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.app.options import UpOptions
from muster.executors.accounts import Submitters, own_user
from muster.executors.discover import discover, grid_of
from muster.files.errors import InputError
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree, single_pool, whole_pool

if TYPE_CHECKING:
    from muster.files.cluster.classify import Classifier


@dataclass(frozen=True, slots=True)
class Managed:
    """What a daemon shall manage."""

    cluster: Cluster
    pools: PoolTree
    classifier: "Classifier | None" = None
    """What nodes that join count as; None: there is no file to say so."""
    planners: int = 1
    warning: str = ""
    """What the administrator should know of it."""
    submitters: Submitters = field(default_factory=lambda: Submitters(own_user(), separate=False))


def managed(options: UpOptions) -> Managed:
    """Return what the options ask for; InputError if it cannot be managed."""
    submitters = submitters_of(options.run_as)
    if options.cluster is not None:
        return _of_file(options, submitters)
    if options.engine is not None:
        from muster.app.engines import open_cluster

        return Managed(open_cluster(options.engine), whole_pool(), submitters=submitters)
    with _told_by_option(options):
        cluster = discover(options.devices, topology=options.topology)
    return Managed(cluster, single_pool(cluster.devices_by_type()), submitters=submitters)


def managed_early(options: UpOptions) -> Managed | None:
    """Return what the options ask for if only that says whether it can be managed; None: it can, and
    takes long to load. InputError as in `managed`."""
    if options.cluster is not None or options.engine is not None:
        return managed(options)
    submitters_of(options.run_as)
    with _told_by_option(options):
        grid_of(options.devices, options.topology)
    return None


@contextmanager
def _told_by_option(options: UpOptions) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError.at("--topology" if options.topology else "--devices", str(error)) from None


def _of_file(options: UpOptions, submitters: Submitters) -> Managed:
    """Return what a cluster file says."""
    # Imported only now: they need YAML, pydantic and every policy.
    from muster.app.claimed_devices import missing_devices
    from muster.core.cycle.sections import check_policies
    from muster.files.cluster.cluster_file import load_cluster, load_listed
    from muster.policy.registry import PolicyError

    assert options.cluster is not None
    found = load_cluster(options.cluster) if options.engine else load_listed(options.cluster)
    warning = ""
    if options.engine is None:
        warning = missing_devices(found.cluster, str(options.cluster), options.simulate_devices)
    try:
        check_policies(found.pools, options.policy)
    except PolicyError as error:
        raise InputError(f"up: {error}") from None
    return Managed(found.cluster, found.pools, found.classifier, found.planners, warning, submitters)


def submitters_of(run_as: str | None) -> Submitters:
    """Return whom jobs run as: their submitters if the daemon is root's, unless told otherwise."""
    root = os.geteuid() == 0
    if run_as == "submitter" and not root:
        raise InputError.at("--run-as", "submitter requires a daemon that runs as root")
    return Submitters(own_user(), separate=root and run_as != "daemon")
