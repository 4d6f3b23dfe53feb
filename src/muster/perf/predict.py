"""Predict a step of a model under a plan, on a placement, beside neighbours.

compute    the slowest worker's a + c b                          `compute`, `devices`
transfers  every transfer on the links it crosses                `traffic`, `rings`, `servers`
overlap    pieces leave when ready, beside the backward pass     `overlap`, `costs`
history    measurements of links, neighbours and steps           `history`
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, hypot, log

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.compute import ComputeHistory, ComputeLine, DeviceKind, line
from muster.perf.costs import Price, Trips, price, step_seconds, trips
from muster.perf.devices import rate_of_cores, rate_of_device
from muster.perf.estimate import Answer, Estimate, Unknown, WhyUnknown
from muster.perf.history.interference import Background, Interference, left
from muster.perf.history.links import LinkEstimate, LinkHistory, learn, with_own_links
from muster.perf.history.steps import Correction, StepHistory
from muster.perf.memory import misfit, samples_of
from muster.perf.overlap import BUCKET, Pieces, pieces
from muster.perf.shape import PlacedShape, Shape, site_of
from muster.perf.traffic import Place
from muster.perf.wires import LinkClass, Wire, Wiring, prior

Spot = tuple[LinkClass, str, int]
"""An edge of the cluster: its class, the name of its node (rack, domain), and its number there."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Measurements of all jobs. Empty: the cluster file and data sheets alone."""

    compute: ComputeHistory = field(default_factory=ComputeHistory)
    links: LinkHistory = field(default_factory=LinkHistory)
    interference: Interference = field(default_factory=Interference)
    steps: StepHistory = field(default_factory=StepHistory)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another job on the cluster."""

    profile: ModelProfile
    plan: Plan
    placement: Placement


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a step: s of computing, s of transfers, and the link that bounds them."""

    compute: float
    transfers: float
    """Without overlap."""
    busiest: Spot | None


@dataclass(frozen=True, slots=True)
class Route:
    """How gradients travel under a plan on a shape, and what a byte costs, whatever the model."""

    trips: Trips
    out: Price
    back: Price
    spread: float
    """The factor within which the least known link is right."""


@dataclass(frozen=True)
class Timing:
    """A step: its s, and the parts that it follows from."""

    seconds: float
    compute: Estimate
    route: Route
    pieces: Pieces
    overlap: Overlap

    @property
    def trips(self) -> Trips:
        """The stages of its synchronisation."""
        return self.route.trips

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The s that follow from the uncertainty of computing and links; most questions need none."""
        mean, compute, links = self.seconds, self.compute, self.route.spread
        fewer = mean - self._with(compute.low, 1.0), mean - self._with(compute.mean, 1 / links)
        more = self._with(compute.high, 1.0) - mean, self._with(compute.mean, links) - mean
        return mean - hypot(*fewer), mean + hypot(*more)

    def _with(self, compute: float, factor: float) -> float:
        """Return the s with other computing, on links slower by a factor."""
        slower = self.route.out.times(factor), self.route.back.times(factor)
        return step_seconds(compute, *slower, self.pieces, self.overlap)


class Predictor:
    """Predicts steps on one cluster; each shape is computed once."""

    def __init__(
        self, cluster: Cluster, knowledge: Knowledge | None = None, *, bucket: int = BUCKET
    ) -> None:
        self.knowledge = knowledge or Knowledge()
        self.cluster = with_own_links(cluster, self.knowledge.links.nodes)
        """As learnt: nodes whose links differ from their class have one of their own."""
        self._bucket = bucket
        self.wiring = Wiring(self.cluster, self._latency)
        self._links: dict[LinkClass, LinkEstimate | Unknown] = {}
        self._lines: dict[tuple[int, str, int], ComputeLine | Unknown] = {}
        self._timings: dict[tuple[object, ...], Timing | Unknown] = {}
        self._routes: dict[tuple[object, ...], Route | Unknown] = {}
        self._pieces: dict[int, Pieces] = {}
        self._profiles: dict[int, ModelProfile] = {}

    def step_time(
        self,
        profile: ModelProfile,
        plan: Plan,
        placement: Placement,
        neighbours: Sequence[Neighbour] = (),
        job: str = "",
    ) -> Answer:
        """Predict the seconds of one step, with the 80 % interval."""
        site = site_of(self.cluster, placement)
        timing = self._alone(profile, plan, site.shape)
        if isinstance(timing, Timing) and neighbours:
            timing = self._beside(profile, plan, site, timing, neighbours)
        if isinstance(timing, Unknown):
            return timing
        correction = self.knowledge.steps.correction(job, profile.name, plan.sync, plan.overlap)
        return _corrected(timing, correction)

    def step_of_shape(self, profile: ModelProfile, plan: Plan, shape: Shape) -> float | Unknown:
        """Predict the seconds of one step on a shape alone on the cluster."""
        timing = self._alone(profile, plan, shape)
        return timing if isinstance(timing, Unknown) else timing.seconds

    def breakdown(self, profile: ModelProfile, plan: Plan, placement: Placement) -> Breakdown | Unknown:
        """Return the parts of a step alone on the cluster."""
        site = site_of(self.cluster, placement)
        timing = self._alone(profile, plan, site.shape)
        if isinstance(timing, Unknown):
            return timing
        stages = (*timing.trips.out, *timing.trips.back)
        moved = _moved(timing.route, timing.pieces)
        place = max(
            (
                (load.most / self._bandwidth(place), place)
                for s in stages
                for place, load in s.loads.items()
            ),
            default=None,
        )
        return Breakdown(timing.compute.mean, moved, _spot(place[1], site) if place else None)

    def ring(self, profile: ModelProfile, shape: Shape) -> Answer:
        """Return s of an all-reduce of a model's gradients round a shape, beside nothing else."""
        route = self._route(Plan(()), shape)
        if isinstance(route, Unknown):
            return route
        mean = _moved(route, self._pieces_of(profile))
        return Estimate(mean, mean / route.spread, mean * route.spread)

    def line(
        self, profile: ModelProfile, configuration: str, millicores: int = 0
    ) -> ComputeLine | Unknown:
        """Return a model's computing time on one device of a configuration set, or on CPU cores."""
        key = (self._id(profile), configuration, millicores)
        if key not in self._lines:
            kind = self._kind(configuration, millicores)
            self._lines[key] = line(profile, kind, self.knowledge.compute)
        return self._lines[key]

    def _kind(self, configuration: str, millicores: int) -> DeviceKind:
        if millicores:
            return DeviceKind(f"{millicores / 1000:g} cores", rate_of_cores(millicores / 1000))
        kind = self.cluster.configurations[configuration]
        return DeviceKind(kind.device_type, rate_of_device(kind))

    def _id(self, profile: ModelProfile) -> int:
        """Return a profile's id; the profile is kept alive so that no other gets the same."""
        self._profiles.setdefault(id(profile), profile)
        return id(profile)

    def _alone(self, profile: ModelProfile, plan: Plan, shape: Shape) -> Timing | Unknown:
        key = (self._id(profile), plan.sync, plan.overlap, plan.batch, plan.owners, shape)
        found = self._timings.get(key)
        if found is None:
            found = self._timings[key] = self._work_out(profile, plan, shape)
        return found

    def _work_out(
        self,
        profile: ModelProfile,
        plan: Plan,
        shape: Shape,
        bandwidth: Callable[[Place], float] | None = None,
    ) -> Timing | Unknown:
        """`bandwidth`: bytes/s of each link where others use it, too."""
        wrong = mistake(plan, shape) or misfit(profile, plan, shape, self.cluster)
        if wrong is not None:
            return wrong
        slowest = self._slowest(profile, plan, shape)
        if isinstance(slowest, Unknown):
            return slowest
        route = self._route(plan, shape)
        if isinstance(route, Unknown):
            return route
        if bandwidth is not None:
            out, back = (price(way, bandwidth) for way in (route.trips.out, route.trips.back))
            route = replace(route, out=out, back=back)
        travelling = self._pieces_of(profile)
        mean = step_seconds(slowest.mean, route.out, route.back, travelling, plan.overlap)
        return Timing(mean, slowest, route, travelling, plan.overlap)

    def _route(self, plan: Plan, shape: Shape) -> Route | Unknown:
        key = (plan.sync, plan.overlap, plan.owners, shape)
        if key not in self._routes:
            way = trips(plan, shape, self.wiring)
            spread = self._spread_of_links(way)
            self._routes[key] = (
                spread
                if isinstance(spread, Unknown)
                else Route(
                    way, price(way.out, self._bandwidth), price(way.back, self._bandwidth), spread
                )
            )
        return self._routes[key]

    def _pieces_of(self, profile: ModelProfile) -> Pieces:
        key = self._id(profile)
        if key not in self._pieces:
            self._pieces[key] = pieces(profile, self._bucket)
        return self._pieces[key]

    def _slowest(self, profile: ModelProfile, plan: Plan, shape: Shape) -> Estimate | Unknown:
        """Return the computing of the slowest worker, s."""
        asked: set[tuple[str, int, float]] = set()
        for host in shape:
            for seat in host.seats:
                if seat.role is Role.WORKER:
                    asked.add((host.configuration, seat.millicores, samples_of(profile, plan, seat)))
        found = []
        for configuration, millicores, batch in sorted(asked):
            cost = self.line(profile, configuration, millicores)
            if isinstance(cost, Unknown):
                return cost
            found.append(cost.estimate(batch))
        return max(found, key=lambda estimate: estimate.mean)

    def _spread_of_links(self, route: Trips) -> float | Unknown:
        """Return the spread of the least known link of a synchronisation."""
        spread = 1.0
        for link in {place[0] for stage in (*route.out, *route.back) for place in stage.loads}:
            known = self.link(link)
            if isinstance(known, Unknown):
                return known
            spread = max(spread, known.spread)
        return spread

    def link(self, link: LinkClass) -> LinkEstimate | Unknown:
        """Return the estimate of a class of links."""
        if link not in self._links:
            known = learn(prior(self.cluster, link), self.knowledge.links.of(link))
            if isinstance(known, Unknown):
                where = f" in {link.configuration}" if link.configuration else ""
                known = Unknown(known.why, f"{link.wire.value}{where}: {known.detail}")
            self._links[link] = known
        return self._links[link]

    def _latency(self, link: LinkClass) -> float:
        known = self.link(link)
        return known.latency.mean if isinstance(known, LinkEstimate) else 0.0

    def _bandwidth(self, place: Place) -> float:
        known = self.link(place[0])
        return 0.0 if isinstance(known, Unknown) else known.bandwidth.mean

    def _beside(
        self,
        profile: ModelProfile,
        plan: Plan,
        site: PlacedShape,
        alone: Timing,
        neighbours: Sequence[Neighbour],
    ) -> Timing | Unknown:
        """Return the step with what neighbours leave of the shared links."""
        taken = self._taken(neighbours)
        crossed = {place for stage in (*alone.trips.out, *alone.trips.back) for place in stage.loads}
        if not any(_spot(place, site) in taken for place in crossed):
            return alone
        factors = {wire: self.knowledge.interference.factor(wire) for wire in Wire}

        def bandwidth(place: Place) -> float:
            full, other = self._bandwidth(place), taken.get(_spot(place, site))
            return full if other is None else left(full, other, factors[place[0].wire])

        return self._work_out(profile, plan, site.shape, bandwidth)

    def _taken(self, neighbours: Sequence[Neighbour]) -> dict[Spot, Background]:
        """Return the neighbours' load on each link: bytes of a step over its time alone."""
        taken: dict[Spot, Background] = {}
        for other in neighbours:
            site = site_of(self.cluster, other.placement)
            timing = self._alone(other.profile, other.plan, site.shape)
            if isinstance(timing, Unknown):
                continue
            scale = other.profile.gradients / timing.seconds
            for place, load in timing.trips.loads().items():
                if place[0].wire is Wire.HOST:
                    continue  # a port belongs to one task
                spot = _spot(place, site)
                before = taken.get(spot, Background(0.0, 0))
                rate = before.rate + load.most * scale
                taken[spot] = Background(rate, before.neighbours + 1)
        return taken


def mistake(plan: Plan, shape: Shape) -> Unknown | None:
    """Return what is wrong with a plan for the placed tasks, None if nothing."""
    tasks = {role: sorted(s.task for h in shape for s in h.seats if s.role is role) for role in Role}
    workers = tasks[Role.WORKER]
    owners = tasks[Role.SERVER] if plan.sync is Sync.DEDICATED else workers
    problem = ""
    if not workers:
        problem = "no worker is placed"
    elif not owners:
        problem = "the plan needs parameter servers, but none is placed"
    elif any(numbers != list(range(len(numbers))) for numbers in (workers, owners)):
        problem = "tasks are not numbered 0, 1, 2, ..."
    elif plan.batch and len(plan.batch) != len(workers):
        problem = f"{len(plan.batch)} parts of the batch for {len(workers)} workers"
    elif plan.batch and min(plan.batch) < 0:
        problem = f"a part of the batch is {min(plan.batch)}"
    elif plan.owners and len(plan.owners) != len(owners):
        problem = f"{len(plan.owners)} parts of the parameters for {len(owners)} owners"
    elif plan.owners and not (min(plan.owners) >= 0 and abs(sum(plan.owners) - 1) <= 1e-6):
        problem = f"the owners' parts, {min(plan.owners):g} and more, add up to {sum(plan.owners):g}"
    return Unknown(WhyUnknown.BAD_PLAN, problem) if problem else None


def _moved(route: Route, travelling: Pieces) -> float:
    """Return s of a synchronisation without overlap."""
    return step_seconds(0.0, route.out, route.back, travelling, Overlap.NONE)


def _corrected(timing: Timing, correction: Correction) -> Estimate:
    """Correct a step by measured ones, whose spread also bounds the uncertainty of its parts."""
    mean = timing.seconds * correction.factor
    least, most = timing.interval
    low = max(log(timing.seconds / least) if least > 0 else log(2), 0.0)
    high = max(log(most / timing.seconds), 0.0)
    own = log(correction.spread)
    if correction.steps:
        low, high = min(low, own), min(high, own)
    return Estimate(mean, mean * exp(-hypot(low, own)), mean * exp(hypot(high, own)))


def _spot(place: Place, site: PlacedShape) -> Spot:
    link, number, part = place
    names = {Wire.RACK: site.racks, Wire.DOMAIN: site.domains}.get(link.wire, site.hosts)
    return link, names[number], part
