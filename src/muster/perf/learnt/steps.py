"""Step times on other devices: the posterior of one application on one device type.

It is the fitted form (`speed.fitted`) with what measured settings have beyond it (`residue`). Before
the first report it is the prior, made from other applications (`priors`) and the model's shape.

Reports are averaged by setting. The form is refitted only while few settings are known, when a new one
is off its prediction, or when a known one is no longer what it was fitted to: a first measurement may
be wrong, and a machine may have become faster. The residue, which is cheap, follows every change of a
mean, and its every doubling of reports.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from muster.perf.estimate import Unknown
from muster.perf.learnt.batches import Array, Split
from muster.perf.learnt.priors import ShownForm, shown
from muster.perf.learnt.residue import Residue, kernel
from muster.perf.speed.fitted import NORMAL_80, PRIOR, FittedSpeed, PlacedSample, Prior, fit_placed
from muster.perf.speed.step_form import Arrays, Reference, StepSetting, log_times

FEW = 8
"""Each new setting up to this number is worth a refit: the form needs as many."""
MOST = 48
"""Settings kept: a batch of its own, of each job of an application, on a dozen placements."""
AVERAGED = 32
"""Newest reports of a setting that are averaged: their jitter is then a sixth of one's, 1 %. Policies
tell settings apart that differ by a few per cent, and a share that follows jitter costs pauses."""
SURPRISE = 0.15
"""Error of the logarithm of a step that causes a refit: the usual difference between placements that
the form cannot know (`speed.fitted.Spread`)."""
MOVED = 0.05
"""The same of a setting's mean."""
DOUBTED = 1
"""Reports that are kept of a setting whose newest is a surprise: two new ones replace what was wrong,
while a single wrong one counts half."""
LEAST_COMPUTING = 0.02
"""Least part of a step that is computing: synchronising is measured with an error of its own and may
come out longer than the step."""


@dataclass(frozen=True, slots=True)
class PlacedSplit:
    """Devices on each node, and how the batch is split over them."""

    shape: tuple[int, ...]
    split: Split

    @property
    def setting(self) -> StepSetting:
        """The form's setting; it ignores the order of the nodes."""
        return StepSetting(tuple(sorted(self.shape, reverse=True)), self.split.at_once)


class Places:
    """Where steps are asked for, with what the form needs of each: many are asked for again."""

    def __init__(self, settings: Sequence[StepSetting], further: Sequence[int] = ()) -> None:
        """`further`: passes of each step before the last; empty: none."""
        self.arrays = Arrays.of(settings)
        self.coordinates = np.array([setting.coordinates for setting in settings])
        self.further = np.array(further or [0] * len(settings))
        self._beside: tuple[Array | None, Array] = None, self.coordinates
        """The last answer of `beside`, and whom it was about."""
        self._told: tuple[FittedSpeed, tuple[Array, Array]] | None = None
        """The last answer of `logs`, and the fit that it follows from."""
        self._batches = [("batch", setting.batch) for setting in settings]
        self._shapes = [("placement", setting.shape) for setting in settings]

    @staticmethod
    def of(places: Sequence[PlacedSplit]) -> "Places":
        """Return the places of split batches."""
        return Places([each.setting for each in places], [each.split.further for each in places])

    def beside(self, measured: Array) -> Array:
        """Return the residue's kernel between these places and measured settings: it is the same as
        long as the settings are, whatever their steps."""
        known, found = self._beside
        if known is not measured:
            found = kernel(self.coordinates, measured)
            self._beside = measured, found
        return found

    def logs(self, fit: FittedSpeed) -> tuple[Array, Array]:
        """Return the most probable logarithms of step and computing, without intervals: the same as
        long as the fit is, which changes far less often than the residue."""
        if self._told is None or self._told[0] is not fit:
            self._told = fit, self._logs(fit)
        return self._told[1]

    def _logs(self, fit: FittedSpeed) -> tuple[Array, Array]:
        columns, found = fit.columns, fit.found.tolist()
        batch, placement = columns.spread.batch, columns.spread.placement
        at = columns.factors.get
        computing = [0.0 if (i := at(key)) is None else batch * found[i] for key in self._batches]
        sync = [0.0 if (i := at(key)) is None else placement * found[i] for key in self._shapes]
        return log_times(fit.unknowns, self.arrays, fit.unit, np.array(computing), np.array(sync))


class StepTimes:
    """Reports, and the form fitted to them."""

    def __init__(self, prior: Prior = PRIOR) -> None:
        """`prior`: the belief before the first report."""
        self._prior = prior
        self._reports: dict[StepSetting, list[_Logs]] = {}
        """By setting, the one heard of last at the end."""
        self._means: dict[StepSetting, PlacedSample] = {}
        """Of the reports of each setting, in the order in which they were first seen."""
        self._places: Places | None = None
        """The settings of these, while they stay the same ones."""
        self._fitted_to: dict[StepSetting, float] = {}
        """Logarithm of the s of each setting at the last fit."""
        self._fit: FittedSpeed | None = None
        self._shown: ShownForm | None = None
        """What the form tells of other applications, once it was asked for."""
        self._rest: Residue | None = None
        """What the form leaves unexplained."""
        self._known: dict[StepSetting, float] = {}
        """The same when the residue was last computed."""
        self._stale = False
        """Whether the form is wrong."""
        self._moved_on = False
        """Whether the residue is out of date."""
        self._version = self._fits = 0
        """Count changes of either, and of the form."""
        self.widest = 0
        """The most devices of any report."""

    def add(self, place: PlacedSplit, seconds: float, sync: float | None) -> None:
        """Add a measured step, and the part of it spent synchronising."""
        sample = _one_pass(place, seconds, sync)
        setting = sample.setting
        self.widest = max(self.widest, setting.devices)
        known = self._reports.get(setting)
        if known is None:
            self._stale = self._stale or self._surprised(sample)
            self._make_room()
            self._reports[setting] = first = [_logs(sample)]
            self._means[setting] = _mean(setting, first)
            self._places, self._moved_on = None, True
            return
        off = abs(log(sample.seconds) - log(self._means[setting].seconds))
        kept = known[-DOUBTED:] if off > SURPRISE else known
        self._reports.pop(setting)
        self._reports[setting] = mended = [*kept, _logs(sample)][-AVERAGED:]
        self._means[setting] = averaged = _mean(setting, mended)
        mean = log(averaged.seconds)
        self._stale = self._stale or _apart(mean, self._fitted_to.get(setting)) > SURPRISE
        surer = len(mended) > len(known) and len(mended).bit_count() == 1
        moved = _apart(mean, self._known.get(setting)) > MOVED
        self._moved_on = self._moved_on or surer or moved

    def places(self) -> list[PlacedSplit]:
        """Return where it was measured, each as a single pass."""
        return [PlacedSplit(each.shape, Split(each.devices, each.batch, 0)) for each in self._reports]

    def largest(self) -> int:
        """Return the most samples that a device was measured with."""
        return max(setting.batch for setting in self._reports)

    def fitted(self) -> tuple[int, int, Prior]:
        """Return a version that changes with the form, the widest report and the prior."""
        self._refresh()
        return self._fits, self.widest, self._prior

    def known(self) -> tuple[int, int, Prior]:
        """Return a version that changes with the fit, the widest report and the prior."""
        self._refresh()
        return self._version, self.widest, self._prior

    def _refresh(self) -> None:
        """Take in what has changed: the form if it is wrong, else only what it leaves."""
        if not (self._stale or self._moved_on):
            return
        means = self._means
        if self._stale:
            fit = fit_placed([means[setting] for setting in self._reports], self._prior)
            self._fit = None if isinstance(fit, Unknown) else fit
            self._shown = None
            self._fits += 1
            self._fitted_to = {setting: log(mean.seconds) for setting, mean in means.items()}
        self._known = {setting: log(mean.seconds) for setting, mean in means.items()}
        if self._fit is not None:
            if self._places is None:
                self._places = Places(list(means))
            places = self._places
            off = np.array(list(self._known.values())) - places.logs(self._fit)[0]
            counts = [len(self._reports[setting]) for setting in means]
            where = places.coordinates
            self._rest = Residue.of(where, places.beside(where), off, counts)
        self._stale = self._moved_on = False
        self._version += 1

    def seconds(
        self, places: Sequence[PlacedSplit] | Places, prior_batch: int, smallest: int = 0
    ) -> Array:
        """Return s of a step at each place, before any report as foretold from the model, else in
        units of a step of `prior_batch` samples on one device; `smallest`: samples on a device in the
        smallest step that the job may have (see `Prior`).

        Near a measured setting the form's value with that setting's residue: a measured number of
        devices is then no dip among predictions, at which policies that add one at a time would stop.
        """
        self._refresh()
        asked = places if isinstance(places, Places) else Places.of(places)
        rest = np.zeros(len(asked.further))
        if self._fit is None:
            seen = self._prior.foresight
            unit = Reference(seen.seconds(prior_batch) if seen else 1.0, prior_batch)
            middles = replace(self._prior, smallest=smallest).at(prior_batch).middles
            step, compute = log_times(middles, asked.arrays, unit, rest, rest)
        else:
            step, compute = asked.logs(self._fit)
            known = self._rest
            rest = rest if known is None else known.at(asked.beside(known.where))
        passes = np.exp(step) + asked.further * np.exp(compute)
        return np.asarray(passes * np.exp(rest), dtype=np.float64)

    def shown(self) -> ShownForm | None:
        """Return what its steps say of the form; None: a single setting tells the unit alone."""
        self._refresh()
        if self._fit is None or len(self._reports) < 2:
            return None
        if self._shown is None:
            self._shown = shown(self._fit, self._prior)
        return self._shown

    def spread(self, place: PlacedSplit) -> float:
        """Return the standard deviation of the logarithm of a step there."""
        self._refresh()
        if self._fit is None:
            return self._prior.foresight.known if self._prior.foresight else UNSEEN
        estimate = self._fit.seconds(place.setting)
        return log(estimate.high / estimate.mean) / NORMAL_80

    def _surprised(self, sample: PlacedSample) -> bool:
        if len(self._reports) < FEW or self._fit is None:
            return True
        step, _ = Places([sample.setting]).logs(self._fit)
        return abs(log(sample.seconds) - float(step[0])) > SURPRISE

    def _make_room(self) -> None:
        """Drop the older of the two closest settings: it tells least."""
        if len(self._reports) < MOST:
            return
        known = list(self._reports)
        where = np.array([setting.coordinates for setting in known])
        apart = np.linalg.norm(where[:, None] - where[None, :], axis=2)
        apart[np.tril_indices(len(known))] = np.inf
        gone = known[int(apart.argmin()) // len(known)]
        del self._reports[gone], self._means[gone]


UNSEEN = log(2.0)
"""Standard deviation of the logarithm of an unreported step: a factor of two."""


def _apart(mean: float, before: float | None) -> float:
    return 0.0 if before is None else abs(mean - before)


def _one_pass(place: PlacedSplit, seconds: float, sync: float | None) -> PlacedSample:
    """Return a step without its further passes, each as long as the last pass's computing."""
    further = place.split.further
    exchanged = None if sync is None else min(sync, (1 - LEAST_COMPUTING) * seconds)
    # T = t + s (t - sync)  =>  t = (T + s sync) / (s + 1)
    last = (seconds + further * (exchanged or 0.0)) / (further + 1)
    if exchanged is not None:
        exchanged = min(exchanged, (1 - LEAST_COMPUTING) * last)
    return PlacedSample(place.setting, last, exchanged)


_Logs = tuple[float, float | None]
"""Logarithms of the s of a step and of its computing; None: synchronising was not measured."""


def _logs(sample: PlacedSample) -> _Logs:
    return log(sample.seconds), None if sample.sync is None else log(sample.computing)


def _mean(setting: StepSetting, reports: Sequence[_Logs]) -> PlacedSample:
    """Return one sample for all reports of a setting: log means of step and computing."""
    seconds = exp(sum([step for step, _ in reports]) / len(reports))
    known = [computing for _, computing in reports if computing is not None]
    if len(known) < len(reports):
        return PlacedSample(setting, seconds)
    return PlacedSample(setting, seconds, max(seconds - exp(sum(known) / len(known)), 0.0))
