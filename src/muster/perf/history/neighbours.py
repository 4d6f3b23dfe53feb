"""How much neighbours slow each other, learnt from steps that got longer beside one.

A slow step has many causes: other members, another batch, a bad machine. So only steps of one *setting*
are compared: one job with the same batch on the same devices of the same nodes (another of its kind may
have other arguments, and a batch of its own). There the steps beside a neighbour are compared with
those alone, or else with those beside one of the mildest class met:

    excess = log(s of a step beside it) - log(s of a step beside the mildest) + excess of the mildest

Of several neighbours the worst counts. What two kinds of jobs have shown is shrunk to what any two jobs
have shown that share as much, and that to the prior (`model/slowdowns.py`). Of each situation only the
last reports count, by their median: as many lies as truths must arrive to be believed, and the truth as
often to be restored. Old reports lose weight, so a pair that is kept apart is tried again some day.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import expm1, log, log1p, sqrt
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from muster.model.slowdowns import PRIOR, Common, Slowdowns
from muster.perf.learnt.held import Held

REPORTS = 9
"""Reports kept of one situation: four lies in a row change nothing, five truths undo any number."""
SETTINGS = 1024
"""Settings kept, those heard of last."""
HALF_LIFE = 86400.0
"""s after which a report weighs half: programs, drivers and cooling change over days."""
PRIOR_WEIGHT = 2.0
"""Weight of the prior against one comparison of a single report with a single one."""
PROVEN = 8.0
"""Weight of comparisons from which on running jobs are moved: their mean is known to 4 % then."""
PAIR_WEIGHT = 1.0
"""The same of what any two jobs have shown, against what two kinds have."""
MOST = log(4.0)
"""More than four times as long is a faulty machine, not a neighbour."""
OUTLIER = log(1.5)
"""Comparisons farther than this from the median count as this far: one bad machine proves nothing."""
RENEWED = 0.02
"""New comparisons, as a part of the settings, after which everything is fitted again."""
NOISE = 0.05
"""Standard deviation of the logarithm of a reported step: that of windows of some seconds."""
DOUBT = 4.0
"""Standard deviations of a step that are doubted: a difference of two has 1.4 of one, and of all the
pairs that meet in a day some differ by three such by chance."""


class Rival(NamedTuple):
    """The worst neighbour of a job: what they share, and the neighbour's kind."""

    common: Common
    kind: str


@dataclass(frozen=True, slots=True)
class Encounter:
    """A step of a job beside a neighbour, or alone."""

    setting: str
    """Everything else a step depends on: only equal settings are compared."""
    kind: str
    """Of the job; empty: like any."""
    beside: Rival | None
    step: float
    """s of a step."""
    at: float


def setting_of(job: int, held: Held, nodes: Iterable[str]) -> str:
    """Return a job's setting: itself, its devices, batch and nodes."""
    shape = "+".join(map(str, held.shape))
    return f"{job} {held.device_type} {shape} {held.batch or ''} {','.join(sorted(nodes))}"


@dataclass(slots=True)
class _Situation:
    """The last steps of one setting beside one neighbour."""

    steps: deque[float] = field(default_factory=lambda: deque(maxlen=REPORTS))
    at: float = 0.0
    middle: float = 0.0
    """Their median: it is read far more often than it changes."""

    def add(self, step: float, at: float) -> None:
        """Add a step, as its logarithm."""
        self.steps.append(step)
        self.at, self.middle = at, median(self.steps)

    def weight(self, now: float) -> float:
        """Return the number of reports, less those forgotten."""
        return float(len(self.steps) * 0.5 ** (max(0.0, now - self.at) / HALF_LIFE))


@dataclass(slots=True)
class _Setting:
    """What was met in one setting."""

    kind: str
    met: dict[Rival | None, _Situation] = field(default_factory=dict)


class _Compared(NamedTuple):
    """A situation against the mildest of its setting."""

    common: Common
    own: str
    other: str
    excess: float
    """Of the logarithm of a step."""
    weight: float


@dataclass(frozen=True, slots=True)
class _Learnt:
    """Excess of the logarithm of a step: of any two jobs, of two kinds, and the weights behind them."""

    typical: Mapping[Common, float]
    pairs: Mapping[tuple[Common, str, str], float] = field(default_factory=dict)
    weights: Mapping[Common, float] = field(default_factory=dict)
    pair_weights: Mapping[tuple[Common, str, str], float] = field(default_factory=dict)

    def of(self, own: str, neighbour: Rival | None) -> float:
        """Return what is believed of a neighbour."""
        if neighbour is None:
            return 0.0
        known = self.pairs.get((neighbour.common, own, neighbour.kind))
        return self.typical[neighbour.common] if known is None else known

    def of_class(self, neighbour: Rival | None) -> float:
        """Return what is believed of any neighbour that shares as much."""
        return 0.0 if neighbour is None else self.typical[neighbour.common]

    def surely(self, own: str, neighbour: Rival) -> float:
        """Return the least of it that chance does not explain; of a pair met once or twice, little."""
        weight = self.weights.get(neighbour.common, 0.0)
        if weight <= PRIOR_WEIGHT:
            return 0.0
        met = self.pair_weights.get((neighbour.common, own, neighbour.kind))
        return self.of(own, neighbour) - DOUBT * NOISE / sqrt(
            weight if met is None else met + PAIR_WEIGHT
        )


_NOTHING = _Learnt({common: log1p(excess) for common, excess in PRIOR.items()})


class Encounters:
    """The encounters of all jobs."""

    def __init__(self) -> None:
        self._settings: OrderedDict[str, _Setting] = OrderedDict()
        self._learnt = _NOTHING
        self._believed = Slowdowns()
        self._version = 0
        """Counts the times that was worked out."""
        self._new = 0
        """Comparisons since then."""
        self._now = 0.0

    def add(self, met: Encounter) -> None:
        """Take in an encounter."""
        setting = self._settings.setdefault(met.setting, _Setting(met.kind))
        self._settings.move_to_end(met.setting)
        if len(self._settings) > SETTINGS:
            self._settings.popitem(last=False)
        situation = setting.met.setdefault(met.beside, _Situation())
        self._now = max(self._now, met.at)
        situation.add(log(met.step), self._now)
        self._new += len(setting.met) > 1

    @property
    def version(self) -> int:
        """The same while what is believed is the same."""
        self._known()
        return self._version

    @property
    def believed(self) -> Slowdowns:
        """What is believed of kinds, whoever is there."""
        self._known()
        return self._believed

    def worst(self, kind: str, neighbours: Iterable[Rival]) -> Rival | None:
        """Return the neighbour that is believed to slow a job most."""
        return next(iter(self.all_worst(kind, neighbours)), None)

    def all_worst(self, kind: str, neighbours: Iterable[Rival]) -> list[Rival]:
        """Return the neighbours that are believed to slow a job most, one as much as the other."""
        met = list(neighbours)
        if not met:
            return met
        known = self._known()
        harm = [(known.of(kind, each), each.kind) for each in met]
        most = max(harm)
        return [each for each, harms in zip(met, harm, strict=True) if harms == most]

    def slowdowns(self, kinds: Mapping[int, str]) -> Slowdowns:
        """Return what is believed, for jobs of these kinds."""
        self._known()
        return replace(self._believed, kinds=kinds) if self._believed.pairs else self._believed

    def shown(self, kind: str, beside: Rival | None) -> float:
        """Return by how much a neighbour makes steps longer, as far as that is beyond doubt."""
        return 0.0 if beside is None else _longer(self._known().surely(kind, beside))

    def seen(self, setting: str, beside: Rival | None) -> float | None:
        """Return by how much steps were longer in a setting beside a neighbour; None if never both."""
        known, there = self._known(), self._settings.get(setting)
        if beside is None or there is None or beside not in there.met or len(there.met) < 2:
            return None
        every = _compared(_weighed(there, self._now), known)
        found = (c.excess for c in every if _is_of(c, beside))
        excess = next(found, None)
        return None if excess is None else _longer(excess)

    def _known(self) -> _Learnt:
        if self._new > RENEWED * len(self._settings):
            self._learnt = self._fitted()
            self._believed = _believed(self._learnt)
            self._version += 1
            self._new = 0
        return self._learnt

    def _fitted(self) -> _Learnt:
        known = _NOTHING
        told = [_weighed(each, self._now) for each in self._settings.values() if len(each.met) > 1]
        for _ in range(2):  # what the mildest neighbours cost depends on what was learnt
            known = _learnt([c for each in told for c in _compared(each, known)])
        return known


def _believed(known: _Learnt) -> Slowdowns:
    pairs: dict[Common, dict[str, dict[str, float]]] = {}
    for (common, own, other), excess in known.pairs.items():
        pairs.setdefault(common, {}).setdefault(own, {})[other] = _longer(excess)
    typical = {each: _longer(excess) for each, excess in known.typical.items()}
    weights = {each: weight for each, weight in known.weights.items() if weight >= PROVEN}
    proven = {each: 2 * NOISE / sqrt(weight) for each, weight in weights.items()}
    return Slowdowns(typical, pairs, proven=proven)


def _is_of(compared: _Compared, neighbour: Rival) -> bool:
    return (compared.common, compared.other) == (neighbour.common, neighbour.kind)


_Weighed = tuple[str, list[tuple[Rival | None, int, float, float]]]
"""A setting: its kind, and each neighbour with its reports, their median, and their weight."""


def _weighed(setting: _Setting, now: float) -> _Weighed:
    met = setting.met.items()
    return setting.kind, [(who, len(at.steps), at.middle, at.weight(now)) for who, at in met]


def _compared(setting: _Weighed, known: _Learnt) -> Iterator[_Compared]:
    """Yield every situation of a setting against its mildest."""
    kind, met = setting
    # By class alone: the kind that seems mildest is so by chance, and all others would look worse.
    mildest, _, middle, other = min(met, key=lambda each: (known.of_class(each[0]), -each[1]))
    reference = middle - known.of_class(mildest)
    for neighbour, _, middle, one in met:
        if neighbour is None or neighbour is mildest:
            continue
        excess = min(MOST, max(-MOST, middle - reference))
        weight = one * other / (one + other) if one and other else 0.0
        yield _Compared(neighbour.common, kind, neighbour.kind, excess, 2 * weight)


def _learnt(compared: list[_Compared]) -> _Learnt:
    typical, weights = {}, {}
    by_class: dict[Common, list[_Compared]] = {}
    for each in compared:
        by_class.setdefault(each.common, []).append(each)
    for common, prior in _NOTHING.typical.items():
        of_class = by_class.get(common, [])
        typical[common] = _mean(of_class, prior, PRIOR_WEIGHT)
        weights[common] = sum(each.weight for each in of_class)
    by_pair: dict[tuple[Common, str, str], list[_Compared]] = {}
    for each in compared:
        if each.own or each.other:
            by_pair.setdefault((each.common, each.own, each.other), []).append(each)
    pairs = {key: _mean(seen, typical[key[0]], PAIR_WEIGHT) for key, seen in by_pair.items()}
    pair_weights = {key: sum(each.weight for each in seen) for key, seen in by_pair.items()}
    return _Learnt(typical, pairs, weights, pair_weights)


def _mean(compared: list[_Compared], toward: float, weight: float) -> float:
    """Return the mean excess without outliers, shrunk toward a value."""
    if not compared:
        return toward
    middle = _middle(compared)
    low, high = middle - OUTLIER, middle + OUTLIER
    total = sum([each.weight * min(high, max(low, each.excess)) for each in compared])
    return (total + weight * toward) / (sum([each.weight for each in compared]) + weight)


def _middle(compared: list[_Compared]) -> float:
    """Return the median excess by weight."""
    passed, half = 0.0, sum([each.weight for each in compared]) / 2
    for each in sorted(compared, key=attrgetter("excess")):
        passed += each.weight
        if passed >= half:
            break
    return each.excess


def _longer(excess: float) -> float:
    """Return the part by which a step is longer, from the excess of its logarithm; at least 0."""
    return max(0.0, expm1(excess))
