"""Options, types, requests and contracts of jobs, computed once per kind of request.

They depend on the cluster's description alone, not on what is free.
"""

from muster.core.cycle.options import Option, device_types, options
from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.topology import Level
from muster.perf.predict import Predictor
from muster.perf.slowdown import Reach, reach, widest_within
from muster.place.board import Board
from muster.place.pack import pack
from muster.place.request import Request
from muster.planner.counts import plan_for


class OptionCache:
    """Cached answers for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._options: dict[tuple[object, ...], tuple[Option, ...]] = {}
        self._pure: dict[tuple[Option, ...], tuple[Option, ...]] = {}
        self._types: dict[Option, tuple[str, ...]] = {}
        self._reach: dict[tuple[Option, int], Reach] = {}
        self._requests: dict[tuple[object, ...], Request] = {}
        self._predictor = Predictor(cluster)
        self._empty: Board | None = None
        self._holds: dict[Request, bool] = {}

    def of(self, job: Job) -> tuple[Option, ...]:
        """Return the configuration sets the job may use, in order of preference."""
        needs_devices = any(spec.need.devices for spec in job.roles)
        key = (job.device_types, job.same_generation, needs_devices, job.program.container)
        if key not in self._options:
            self._options[key] = options(job, self._cluster)
        return self._options[key]

    def whole(self, job: Job) -> Option:
        """Return all configuration sets that the job may use, of whatever generation."""
        return tuple(dict.fromkeys(name for option in self.of(job) for name in option))

    def pure(self, job: Job) -> tuple[Option, ...]:
        """Return the job's options split by device type, as quotas are."""
        mixed = self.of(job)
        if mixed not in self._pure:
            sets = self._cluster.configurations
            found = [
                tuple(name for name in option if sets[name].device_type == device_type)
                for option in mixed
                for device_type in self.types(option) or ("",)
            ]
            self._pure[mixed] = tuple(dict.fromkeys(found))
        return self._pure[mixed]

    def used_by(self, job: Job, placement: Placement) -> Option | None:
        """Return the one-type option of the job's devices, or None if they are of several types."""
        nodes = {slot.node for slot in placement.slots if slot.bits}
        kinds = {self._cluster.node(name).configuration for name in nodes}
        return next((o for o in self.pure(job) if kinds <= set(o)), None)

    def types(self, option: Option) -> tuple[str, ...]:
        """Return the device types of an option."""
        if option not in self._types:
            self._types[option] = device_types(option, self._cluster)
        return self._types[option]

    def request(self, job: Job, workers: int, option: Option, servers: int | None = None) -> Request:
        """Return the job with this number of workers as a request to a strategy."""
        key = (job.roles, job.locality, job.profile, job.model, job.batch, workers, servers, option)
        if key not in self._requests:
            plan = plan_for(job, workers, servers)
            widest = self.widest(job, plan.devices, option)
            self._requests[key] = Request(plan, option, widest)
        return self._requests[key]

    def holds(self, request: Request) -> bool:
        """Whether it fits on the empty cluster with every node up."""
        if request not in self._holds:
            self._empty = self._empty or Board(self._cluster.emptied())
            self._holds[request] = pack(self._empty, request) is not None
        return self._holds[request]

    def widest(self, job: Job, devices: int, option: Option) -> Level:
        """Return the widest level the job's contract allows with this number of devices.

        The slowdown is relative to the best placement on the whole option it belongs to.
        """
        if job.locality.max_slowdown is None:
            return job.locality.widest
        whole = next((o for o in self.of(job) if set(option) <= set(o)), option)
        key = (whole, devices)
        if key not in self._reach:
            kinds = tuple(self._cluster.configurations[name] for name in whole)
            self._reach[key] = reach(self._cluster, kinds, devices)
        return widest_within(job, devices, self._reach[key], self._predictor)
